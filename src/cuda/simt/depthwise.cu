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

DepthwiseFunction depthwise_function(int element_bytes, int64_t stride) {
  if (element_bytes == 4) return by_stride<float>(stride);
  return element_bytes == 2 ? by_stride<uint16_t>(stride) : nullptr;
}

}  // namespace tconv::cuda::simt
