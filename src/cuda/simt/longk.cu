#include "cuda/simt/longk.cuh"

namespace tconv::cuda::simt {

SumFunction sum_partials_function(core::DType dtype) {
  switch (dtype) {
    case core::DType::f64:
      return sum_partials_kernel<double>;
    case core::DType::f16:
      return sum_partials_kernel<__half>;
    case core::DType::bf16:
      return sum_partials_kernel<__nv_bfloat16>;
    case core::DType::f32:
      break;
  }
  return sum_partials_kernel<float>;
}

}  // namespace tconv::cuda::simt
