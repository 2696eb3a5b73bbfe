// cuda.sm90.weight_turned: the weight gradient of long rows, with x and dy read once, as they lie in memory.
// Planes, shifts, tiles and sums are those of cuda.sm90.weight_blocked (weight_blocked.hpp), but the planes
// are made in shared memory and never go to device memory:
//
//   for tile of x planes and shifts j (rows) x dy planes (columns), split:     a block of threads
//     for stage of positions [u, u + P) of a sample, of the split:
//       for some units (8 channels) of x or of dy, box of their positions:     a piece
//         one thread: raw rows by a tensor copy, [channel][position]           the ring of pieces
//         one of 3 or 7 warps: turns 8 channels x 32 positions at once, each position of dy to its phase
//                              [8 planes][position][plane]                     the ring of slots
//       2 warpgroups, for 16 positions: sums += x planes, j*shift positions before, * dy planes   wgmma
//     at most kSm90WeightChain wgmma on a sum, then it is added to the split's own part
//   a second kernel adds the parts of all splits in order
//
// A shift is a step of 16 bytes, so the taps of a tile read one copy of x. dy has one plane a phase, x one a
// channel, or where these do not fill 64 rows, one for each of some shifts v (x_planes), as in
// weight_blocked: a piece of x is then turned once for each. weight_units.hpp says which channels make a
// unit.
//
// A pass that writes planes (weight_blocked) reads and writes x and dy once more each, which takes longer
// than the products of layers with few channels. Here a tile that does not hold all of dw turns its operands
// again; so large layers of many channels are faster there.
//
// ieee float32 is split into its three parts of bfloat16 while it is turned.
#pragma once

#include <iterator>

#include "cuda/sm90/weight_units.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90WeightTurned;

inline constexpr int kSm90WeightTurnedBarriers = 1024,
                     kSm90WeightTurnedHead = 3072;  // bytes; of all before the slots
inline constexpr int kSm90WeightStagePieces = (kSm90WeightTurnedHead - kSm90WeightTurnedBarriers) / 32;
inline constexpr int kSm90WeightTurnedMaxPieces = 48;

// Positions of a stage: with those that a copy brings too many, whole groups of 32.
constexpr int weight_turned_positions(Arithmetic mode) {
  return mode == Arithmetic::ieee ? 48 : 112;
}

// Warps that turn: they have nothing but each other to hide their latencies. 512 threads begin with 128
// registers each, with which ptxas refuses a product of 256 columns and serialises those of 192 sums.
constexpr int weight_turners(Arithmetic mode, const Sm90WeightBlockedShape& shape) {
  const int sums = shape.row_blocks * shape.columns / 2 * (mode == Arithmetic::ieee ? 2 : 1);
  return sums > 128 || shape.columns == 256 ? 3 : 7;
}
// Two warpgroups multiply, the others turn; one more warp has one thread that copies.
constexpr int weight_turned_threads(Arithmetic mode, const Sm90WeightBlockedShape& shape) {
  return 256 + 32 * (weight_turners(mode, shape) + 1);
}

// An operand's rows, and its planes in a slot.
struct Sm90WeightRaw : Sm90WeightUnitRows {
  int32_t plane_columns, pitch;  // positions of a plane; 16-byte units from 8 planes to the next
  int32_t piece_units;           // at most
  Divisor by_stride;
};

// Pieces that neighbouring units make for each class and box; some may have no unit.
constexpr int weight_unit_runs(const Sm90WeightRaw& raw, int units) {
  const int of_class = (units + (1 << raw.log_classes) - 1) >> raw.log_classes;
  return (of_class + raw.piece_units - 1) / raw.piece_units;
}

struct Sm90WeightTurnedParams : Sm90WeightUnitsParams {
  Sm90WeightRaw x_raw, y_raw;
  int32_t part_bytes;  // of a slot: x, then dy from y_at on
  int32_t y_at;
  int32_t pieces, piece_bytes;  // of the ring
};

struct Sm90WeightTurnedFunctions {
  // Of a mode, without and with sums of dy; null: not in this mode. Kernels of their own, so that the sums
  // take no registers from those that have none.
  void (*shapes[2][std::size(kSm90WeightBlockedShapeTable)])(Sm90WeightTurnedParams);
  void (*sum)(Sm90WeightBlockedSumParams);
  void (*bias)(Sm90WeightBiasParams);
};
Sm90WeightTurnedFunctions sm90_weight_turned_f16();
Sm90WeightTurnedFunctions sm90_weight_turned_bf16();
Sm90WeightTurnedFunctions sm90_weight_turned_ieee();

// Sums for ieee take twice the registers.
constexpr bool weight_turned_has(Arithmetic mode, int shape) {
  const Sm90WeightBlockedShape s = kSm90WeightBlockedShapeTable[shape];
  const int sums = s.row_blocks * s.columns;
  if (mode == Arithmetic::ieee) return s.columns <= 128 && sums <= 192;
  return (mode == Arithmetic::f16 || mode == Arithmetic::bf16) && s.columns != 192 && sums <= 384;
}

// Which of them also sum dy. In 16-bit types, beside 128 columns, that takes registers that the turning
// needs, and longer than a kernel of the bias behind this one (H100: 1.04 to 1.27 times on three layers in
// bf16; beside 64 columns 0.64 to 0.93 times, on four).
constexpr bool weight_turned_sums(Arithmetic mode, int shape) {
  return weight_turned_has(mode, shape) &&
         (mode == Arithmetic::ieee || kSm90WeightBlockedShapeTable[shape].columns <= 64);
}

}  // namespace tconv::cuda
