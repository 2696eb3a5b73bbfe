#include "cuda/host/by_dtype.hpp"
#include "cuda/simt/depthwise.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
DepthwiseFunction by_stride(int64_t stride, bool words) {
  switch (stride) {
    case 1:
      return words ? depthwise_words_kernel<T, 1> : depthwise_elements_kernel<T, 1>;
    case 2:
      return words ? depthwise_words_kernel<T, 2> : depthwise_elements_kernel<T, 2>;
    case 4:
      return words ? depthwise_words_kernel<T, 4> : depthwise_elements_kernel<T, 4>;
    case 8:
      return words ? depthwise_words_kernel<T, 8> : depthwise_elements_kernel<T, 8>;
    default:
      return nullptr;
  }
}

}  // namespace

DepthwiseFunction depthwise_function(core::DType dtype, int64_t stride, bool words) {
  return by_dtype<DepthwiseFunction>(dtype, by_stride<float>(stride, words), nullptr,
                                     by_stride<__half>(stride, words),
                                     by_stride<__nv_bfloat16>(stride, words));
}

}  // namespace tconv::cuda::simt
