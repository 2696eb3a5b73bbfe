#include "floor.hpp"

namespace tconv::cli {

Rates rates_of(const core::DeviceInfo& gpu, const core::Problem& p) {
  switch (p.dtype) {
    case core::DType::f64:
      return {gpu.fp64_gflops, gpu.copy_gbps};
    case core::DType::f16:
    case core::DType::bf16:
      return {gpu.half_gflops > 0 ? gpu.half_gflops : gpu.fp32_gflops, gpu.copy_gbps};
    case core::DType::f32:
      break;
  }
  const bool tf32 = p.precision == core::Precision::tf32 && gpu.tf32_gflops > 0;
  return {tf32 ? gpu.tf32_gflops : gpu.fp32_gflops, gpu.copy_gbps};
}

Floor floor_of(const core::Work& work, const Rates& rates) {
  Floor floor;
  if (rates.gflops > 0) floor.compute = work.flops / (rates.gflops * 1e9);
  if (rates.gbps > 0) floor.memory = work.bytes / (rates.gbps * 1e9);
  return floor;
}

}  // namespace tconv::cli
