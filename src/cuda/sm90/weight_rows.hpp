// cuda.sm90.weight_rows: the weight gradient of long rows of float32, with x and dy read once, as they lie in
// memory. Planes, shifts, tiles and sums are those of cuda.sm90.weight_blocked (weight_blocked.hpp), units
// those of weight_units.hpp:
//
//   for tile of x planes and shifts j (rows) x dy planes (columns), split:     a block of threads
//     for stage of positions [u, u + P) of a sample, of the split:
//       one thread: rows of x to a slot, rows of dy to a raw place, by tensor copies
//       3 or 7 warps: dy's positions to planes in the slot, each to its phase: [8 planes][4 positions][plane]
//       2 warpgroups, for 8 positions (ieee: 16):
//         operand: x planes, j*shift positions before, from the rows to registers
//         sums += operand * dy planes                                          wgmma
//     at most kSm90WeightChain wgmma on a sum, then it is added to the split's own part
//   a second kernel adds the parts of all splits in order
//
// Positions are the depth of the product, and rows of memory run along them: as wgmma wants both operands of
// 32-bit types. What it cannot do is to begin an operand in shared memory at any position, as shifts need. An
// operand in registers can: a lane reads its elements wherever they are, in all banks at once, since the rows
// of a copy are an odd number of 16 bytes apart. So x stays as it is. dy is written once more, because the
// operand in shared memory must begin on 16 bytes and have its phases apart.
//
// cuda.sm90.weight_turned has both operands in shared memory along channels, where shifts cost nothing but
// both are written once more; for 16-bit types, which registers hold in pairs of positions, that is faster.
//
// tf32: the tensor copies round. ieee: operands are split into their three parts of bfloat16 on the way, x
// for each product anew; products and sums are those of weight_blocked.
#pragma once

#include <iterator>

#include "cuda/sm90/weight_units.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90WeightRows;

inline constexpr Sm90WeightBlockedShape kSm90WeightRowsShapeTable[] = {{3, 128}, {2, 128}, {1, 128}, {3, 64},
                                                                       {2, 64},  {1, 64},  {3, 32},  {1, 32}};
inline constexpr int kSm90WeightRowsBarriers = 512, kSm90WeightRowsHead = 1024;  // bytes, before the slots
inline constexpr int kSm90WeightRowsMostPlaces = 8;                              // slots, and raw places

// Warps that move. To split into parts takes one 790 cycles for 8 planes of 32 positions (H100).
constexpr int weight_movers(Arithmetic mode) {
  return mode == Arithmetic::ieee ? 7 : 3;
}
// Two warpgroups multiply, the others move; one more warp has one thread that copies.
constexpr int weight_rows_threads(Arithmetic mode) {
  return 256 + 32 * (weight_movers(mode) + 1);
}

// Rows of a box of an operand: 8 channels of each unit, a class after the other.
struct Sm90WeightRowsRaw : Sm90WeightUnitRows {
  int32_t box_rows;                // of a class
  int32_t class_bytes, box_bytes;  // of a box: of a class, of all classes
};

struct Sm90WeightRowsParams : Sm90WeightUnitsParams {
  Sm90WeightRowsRaw x_raw, y_raw;
  int32_t y_at;                 // bytes of a slot before dy's planes
  int32_t part_bytes;           // of dy's planes
  int32_t places, place_bytes;  // of raw dy
};

struct Sm90WeightRowsFunctions {
  // Of a mode, without and with sums of dy; null: not in this mode. Kernels of their own, so that the sums
  // take no registers from those that have none.
  void (*shapes[2][std::size(kSm90WeightRowsShapeTable)])(Sm90WeightRowsParams);
  void (*sum)(Sm90WeightBlockedSumParams);
  void (*bias)(Sm90WeightBiasParams);
};
Sm90WeightRowsFunctions sm90_weight_rows_tf32();
Sm90WeightRowsFunctions sm90_weight_rows_ieee();

// Sums for ieee take more registers: those of a product beside the totals.
constexpr bool weight_rows_has(Arithmetic mode, int shape) {
  const Sm90WeightBlockedShape s = kSm90WeightRowsShapeTable[shape];
  if (mode == Arithmetic::ieee) return s.row_blocks * s.columns <= 192;
  return mode == Arithmetic::tf32;
}

// Which of them also sum dy. In tf32 dy comes rounded; movers that rounded it after they had summed it
// took 1.04 to 1.5 times as long as a kernel of the bias behind this one (H100; 9 of 10 layers).
constexpr bool weight_rows_sums(Arithmetic mode, int shape) {
  return weight_rows_has(mode, shape) && mode == Arithmetic::ieee;
}

}  // namespace tconv::cuda
