#include "cuda/simt/depthwise.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
DepthwiseFunction by_stride(int64_t stride) {
  switch (stride) {
    case 1:
      return depthwise_kernel<T, 1>;
    case 2:
      return depthwise_kernel<T, 2>;
    case 4:
      return depthwise_kernel<T, 4>;
    case 8:
      return depthwise_kernel<T, 8>;
    default:
      return nullptr;
  }
}

}  // namespace

DepthwiseFunction depthwise_function(core::DType dtype, int64_t stride) {
  switch (dtype) {
    case core::DType::f32:
      return by_stride<float>(stride);
    case core::DType::f16:
      return by_stride<__half>(stride);
    case core::DType::bf16:
      return by_stride<__nv_bfloat16>(stride);
    case core::DType::f64:
      break;
  }
  return nullptr;
}

}  // namespace tconv::cuda::simt
