#include "cuda/simt/strided_staged.cuh"

namespace tconv::cuda::simt {
namespace {

template <int S>
StridedStagedFunction of_rows(const StridedTile& tile) {
  const bool few = tile.positions == 4;
  if (tile.rows == 4) return few ? strided_staged_kernel<4, 4, S> : strided_staged_kernel<4, 8, S>;
  return few ? strided_staged_kernel<8, 4, S> : strided_staged_kernel<8, 8, S>;
}

}  // namespace

StridedStagedFunction strided_staged_function(const StridedTile& tile, int64_t step) {
  if (tile.rows == 1) {
    return tile.positions == 4 ? strided_staged_kernel<1, 4, 1> : strided_staged_kernel<1, 8, 1>;
  }
  if (tile.rows == 2) return strided_staged_kernel<2, 8, 1>;
  return step == 1 ? of_rows<1>(tile) : step == 2 ? of_rows<2>(tile) : of_rows<3>(tile);
}

}  // namespace tconv::cuda::simt
