#include "floor.hpp"

#include <algorithm>

namespace tconv::cli {
namespace {

constexpr double kSplitProducts = 3;  // of 16-bit parts, for one of ieee float32

}  // namespace

Rates rates_of(const core::DeviceInfo& gpu, const core::Problem& p) {
  const bool f64 = p.dtype == core::DType::f64;
  return gpu_rates(gpu, p, {f64 ? gpu.fp64_gflops : gpu.fp32_gflops, gpu.copy_gbps});
}

Rates gpu_rates(const core::DeviceInfo& gpu, const core::Problem& p, const judge::Attained& attained) {
  const bool half = p.dtype == core::DType::f16 || p.dtype == core::DType::bf16;
  const bool tf32 = p.precision == core::Precision::tf32;
  if (half && gpu.half_gflops > 0) return {gpu.half_gflops, attained.gbps};
  if (tf32 && gpu.tf32_gflops > 0) return {gpu.tf32_gflops, attained.gbps};
  if (p.dtype != core::DType::f32) return {attained.gflops, attained.gbps};
  return {std::max(attained.gflops, gpu.half_gflops / kSplitProducts), attained.gbps};
}

Floor floor_of(const core::Work& work, const Rates& rates) {
  Floor floor;
  if (rates.gflops > 0) floor.compute = work.flops / (rates.gflops * 1e9);
  if (rates.gbps > 0) floor.memory = work.bytes / (rates.gbps * 1e9);
  return floor;
}

}  // namespace tconv::cli
