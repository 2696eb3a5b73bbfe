#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided_sliding.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T, int S>
StridedSlidingFunction by_lanes(int64_t lanes) {
  if (lanes == 32) return strided_resident_kernel<T, S, 32>;
  return lanes == 64 ? strided_resident_kernel<T, S, 64> : strided_resident_kernel<T, S, kStridedThreads>;
}

template <class T>
StridedSlidingFunction by_stride(int64_t stride, int64_t lanes) {
  return stride == 1 ? by_lanes<T, 1>(lanes) : by_lanes<T, 2>(lanes);
}

}  // namespace

StridedSlidingFunction strided_resident_function(core::DType dtype, int64_t stride, int64_t lanes) {
  // Not of float64, which strided_sliding_refusal refuses.
  return by_dtype<StridedSlidingFunction>(dtype, by_stride<float>(stride, lanes), nullptr,
                                          by_stride<__half>(stride, lanes),
                                          by_stride<__nv_bfloat16>(stride, lanes));
}

}  // namespace tconv::cuda::simt
