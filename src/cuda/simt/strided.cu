#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T>
StridedFunction by_rows(int rows) {
  if (rows == 1) return strided_kernel<T, 1>;
  return rows == 2 ? strided_kernel<T, 2> : rows == 4 ? strided_kernel<T, 4> : strided_kernel<T, 8>;
}

}  // namespace

StridedFunction strided_function(core::DType dtype, int rows) {
  return by_dtype(dtype, [&](auto type) { return by_rows<decltype(type)>(rows); });
}

}  // namespace tconv::cuda::simt
