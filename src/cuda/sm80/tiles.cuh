// The tiles of each mode, in the order of dense_plan.cpp.
#pragma once

#include "cuda/sm80/dense.cuh"
#include "cuda/sm80/helpers.cuh"

namespace tconv::cuda::sm80 {

// Of the middle and of the small tile: float64 sums and split operands take twice the registers.
template <class Mode>
constexpr int kBlocksOf[2] = {sizeof(typename Mode::T) == 8 || Mode::kParts == 2 ? 2 : 3,
                              sizeof(typename Mode::T) == 8 || Mode::kParts == 2 ? 4 : 5};

template <class Mode>
Sm80Functions functions_of() {
  // Blocks an SM, by registers: dense_plan.cpp knows them too.
  constexpr int kMiddle = kBlocksOf<Mode>[0], kSmall = kBlocksOf<Mode>[1];
  Sm80Functions f{};
  if constexpr (!std::is_same_v<Mode, F64>) f.tiles[0] = dense_kernel<Shape<Mode, 2, 2, 4, 8, 2>>;
  f.tiles[1] = dense_kernel<Shape<Mode, 2, 2, 2, 8, kMiddle>>;
  f.tiles[2] = dense_kernel<Shape<Mode, 4, 1, 1, 4, kSmall>>;
  f.pack = pack_kernel<Mode>;
  f.sum = sum_kernel<Mode>;
  return f;
}

}  // namespace tconv::cuda::sm80
