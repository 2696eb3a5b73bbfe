// The kernels of each storage type, tile by tile of dense_tiles.hpp.
#pragma once

#include "cuda/simt/dense.cuh"
#include "cuda/simt/dense_helpers.cuh"
#include "cuda/simt/dense_tiles.hpp"

namespace tconv::cuda {

// A thread's rows and columns follow from the tile's size.
template <class T, const DenseTile& kTile, int ThreadRows, int ThreadColumns, int BlocksPerSm>
constexpr auto dense_kernel_of() {
  using Shape = DenseShape<T, kTile.rows, kTile.columns, ThreadRows, ThreadColumns, BlocksPerSm>;
  static_assert(Shape::kThreads == kTile.threads);
  return dense_kernel<Shape>;
}

template <class T>
DenseFunctions dense_functions() {
  if constexpr (std::is_same_v<T, double>) {
    return {
        {dense_kernel_of<T, kDenseTilesF64[0], 8, 4, 3>(), dense_kernel_of<T, kDenseTilesF64[1], 4, 4, 3>(),
         dense_kernel_of<T, kDenseTilesF64[2], 4, 4, 3>(), nullptr},
        dense_pack_kernel<T>,
        dense_sum_kernel<T>,
        dense_fill_kernel<T>};
  } else {
    return {{dense_kernel_of<T, kDenseTiles[0], 8, 8, 2>(), dense_kernel_of<T, kDenseTiles[1], 8, 8, 3>(),
             dense_kernel_of<T, kDenseTiles[2], 8, 4, 4>(), dense_kernel_of<T, kDenseTiles[3], 4, 8, 4>()},
            dense_pack_kernel<T>,
            dense_sum_kernel<T>,
            dense_fill_kernel<T>};
  }
}

}  // namespace tconv::cuda
