#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided_direct.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T, int R>
StridedFunction by_positions(int positions) {
  return positions == kStridedFewPositions ? strided_direct_kernel<T, R, kStridedFewPositions>
                                           : strided_direct_kernel<T, R, strided_most_positions(R)>;
}

template <class T>
StridedFunction by_rows(int rows, int positions) {
  if (rows == 1) return by_positions<T, 1>(positions);
  if (rows == 2) return by_positions<T, 2>(positions);
  return rows == 4 ? by_positions<T, 4>(positions) : by_positions<T, 8>(positions);
}

}  // namespace

StridedFunction strided_direct_function(core::DType dtype, int rows, int positions) {
  return by_dtype(dtype, [&](auto type) { return by_rows<decltype(type)>(rows, positions); });
}

}  // namespace tconv::cuda::simt
