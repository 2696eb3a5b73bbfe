// The kernels of each storage type, tile by tile of dense_tiles.hpp.
#pragma once

#include "cuda/simt/dense.cuh"
#include "cuda/simt/dense_helpers.cuh"
#include "cuda/simt/dense_tiles.hpp"

namespace tconv::cuda {

template <class T, const DenseTile& kTile>
constexpr auto dense_kernel_of() {
  using Shape =
      DenseShape<T, kTile.rows, kTile.columns, kTile.thread_rows, kTile.thread_columns, kTile.blocks>;
  static_assert(Shape::kThreads == kTile.threads());
  return dense_kernel<Shape>;
}

template <class T>
DenseFunctions dense_functions() {
  DenseFunctions f{{}, dense_pack_kernel<T>, dense_fill_kernel<T>};
  if constexpr (std::is_same_v<T, double>) {
    f.tiles[0] = dense_kernel_of<T, kDenseTilesF64[0]>();
    f.tiles[1] = dense_kernel_of<T, kDenseTilesF64[1]>();
    f.tiles[2] = dense_kernel_of<T, kDenseTilesF64[2]>();
  } else {
    f.tiles[0] = dense_kernel_of<T, kDenseTiles[0]>();
    f.tiles[1] = dense_kernel_of<T, kDenseTiles[1]>();
    f.tiles[2] = dense_kernel_of<T, kDenseTiles[2]>();
    f.tiles[3] = dense_kernel_of<T, kDenseTiles[3]>();
  }
  return f;
}

}  // namespace tconv::cuda
