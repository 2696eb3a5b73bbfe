#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided_sliding.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T, int S>
StridedSlidingFunction by_rows(int rows) {
  if (rows == 1) return strided_sliding_kernel<T, 1, S>;
  return rows == 2 ? strided_sliding_kernel<T, 2, S> : strided_sliding_kernel<T, kSlidingRows, S>;
}

template <class T>
StridedSlidingFunction by_stride(int rows, int64_t stride) {
  return stride == 1 ? by_rows<T, 1>(rows) : by_rows<T, 2>(rows);
}

}  // namespace

StridedSlidingFunction strided_sliding_function(core::DType dtype, int rows, int64_t stride) {
  // Not of float64, which strided_sliding_refusal refuses.
  return by_dtype<StridedSlidingFunction>(dtype, by_stride<float>(rows, stride), nullptr,
                                          by_stride<__half>(rows, stride),
                                          by_stride<__nv_bfloat16>(rows, stride));
}

}  // namespace tconv::cuda::simt
