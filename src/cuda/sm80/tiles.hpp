// The tiles of cuda.sm80.dense: what the planner chooses from, and what tiles.cuh instantiates.
#pragma once

#include <iterator>

#include "cuda/device/accumulator.hpp"
#include "cuda/device/arithmetic.hpp"

namespace tconv::cuda {

struct Sm80Tile {
  const char* name;
  int row_warps, column_warps;  // of a block
  int mi, ni;                   // mma tiles of a warp
  int slots;                    // of the weights' ring
  int blocks, wide_blocks;  // on an SM, at most, by registers; wide: float64 sums, or operands in two parts

  constexpr int warp_rows() const { return mi * MmaAccumulator::kRows; }
  constexpr int warp_columns() const { return ni * MmaAccumulator::kColumns; }
  constexpr int rows() const { return row_warps * warp_rows(); }
  constexpr int columns() const { return column_warps * warp_columns(); }
  constexpr int threads() const { return 32 * row_warps * column_warps; }
  constexpr int blocks_of(const ArithmeticShape& shape) const {
    return shape.element == 8 || shape.parts == 2 ? wide_blocks : blocks;
  }
};

// clang-format off
inline constexpr Sm80Tile kSm80Tiles[] = {
    // name     warps  mma    slots  blocks
    {"128x128", 2, 2,  4, 8,  4,     2, 2},
    {"64x128",  2, 2,  2, 8,  6,     3, 2},
    {"64x32",   4, 1,  1, 4,  6,     5, 4}};
// clang-format on
inline constexpr int kSm80TileCount = static_cast<int>(std::size(kSm80Tiles));

// The float64 sums of the largest tile do not fit in a thread's registers.
constexpr bool sm80_has(Arithmetic arithmetic, int tile) {
  return arithmetic != Arithmetic::f64 || tile != 0;
}

}  // namespace tconv::cuda
