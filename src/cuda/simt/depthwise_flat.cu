#include "cuda/simt/depthwise_flat.cuh"

namespace tconv::cuda::simt {

namespace {

template <class T>
DepthwiseFlatFunction by_length(int64_t lout) {
  return lout < 16 / static_cast<int>(sizeof(T)) ? depthwise_flat_kernel<T, true>
                                                 : depthwise_flat_kernel<T, false>;
}

}  // namespace

DepthwiseFlatFunction depthwise_flat_function(core::DType dtype, int64_t lout) {
  switch (dtype) {
    case core::DType::f32:
      return by_length<float>(lout);
    case core::DType::f16:
      return by_length<__half>(lout);
    case core::DType::bf16:
      return by_length<__nv_bfloat16>(lout);
    case core::DType::f64:
      break;
  }
  return nullptr;
}

}  // namespace tconv::cuda::simt
