// The kernels of an arithmetic, tile by tile of tiles.hpp.
#pragma once

#include "cuda/sm80/dense.cuh"
#include "cuda/sm80/pack.cuh"
#include "cuda/sm80/tiles.hpp"

namespace tconv::cuda::sm80 {

template <class A, int kIndex>
constexpr auto kernel_of() {
  constexpr Sm80Tile kTile = kSm80Tiles[kIndex];
  using S = Shape<A, kTile.row_warps, kTile.column_warps, kTile.mi, kTile.ni, kTile.blocks_of(A::kShape)>;
  static_assert(S::kRows == kTile.rows() && S::kColumns == kTile.columns() &&
                S::kThreads == kTile.threads() && S::kSlots == kTile.slots);
  return dense_kernel<S>;
}

template <class A>
Sm80Functions functions_of() {
  Sm80Functions f{};
  if constexpr (!std::is_same_v<A, F64>) f.tiles[0] = kernel_of<A, 0>();
  f.tiles[1] = kernel_of<A, 1>();
  f.tiles[2] = kernel_of<A, 2>();
  f.pack = pack_kernel<A>;
  return f;
}

}  // namespace tconv::cuda::sm80
