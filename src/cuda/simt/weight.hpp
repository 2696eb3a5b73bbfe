// cuda.simt.weight: the weight gradient where tensor cores would idle (depthwise, groups of few channels),
// and on GPUs before compute capability 8.0. In the names of core/polyphase.hpp:
//
//   for tile of Ci x Co channels x 32 phases x Taps taps of a phase, share of the steps:     a warp
//     for step of the share: Q positions u of a sample, of one or more steps at once
//       a lane each phase a and position: sums[ci][co][j] += x[n,ci,i] * dy[n,co,o],
//         o = stride*u + dilation*a - padding,  i = u - j*step
//     lanes of a phase and warps of a block that share a tile are added in order
//   a second kernel adds the parts of blocks in order (ordered_sum.cuh)
//
// Positions count from the tile's first tap on, so that dilation makes no steps without products.
// Neighbouring lanes read neighbouring outputs: without dilation each element of dy is read once, in whole
// lines, whatever the stride, and x, of which there is less, comes again from L1 for each tap of a phase. A
// lane for each position of x instead reads a line of dy for each few of its elements and has all K taps to
// add (bf16, depthwise n1 ci256 l128323 k10 s5 on an H100: 700 us, and 215).
//
// Steps whose products all lie inside x and dy are added without a test, several at once, so that their loads
// are under way together. In others what lies outside is zero; if that makes a NaN with an infinity of dy,
// the share is added again without those products.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtWeight;

namespace simt {

inline constexpr int kWeightThreads = 128, kWeightWarps = kWeightThreads / 32;
inline constexpr int kWeightLongest = 512;  // products that a lane adds one after the other
// Blocks of an SM: as many as leave loads of all steps at once registers of their own.
constexpr int weight_blocks(int channels, int sums, int sum_bytes) {
  return sum_bytes == 8 ? (sums > 16 ? 2 : 3) : sums > 16 ? 4 : channels > 1 ? 5 : 6;
}
// Of taps that are not neighbours in x each has an address of its own.
constexpr int weight_steps_far(int taps, int steps) {
  return taps >= 6 ? steps / 2 : steps;
}
inline constexpr int64_t kWeightReach = int64_t{1} << 30;  // of positions, outputs and taps

struct WeightParams {
  const void* x;
  const void* y;
  void* output;
  void* parts;  // null: one split
  int64_t x_step[3], y_step[3];
  // Elements of x and y from a step to the next; then from the end of a sample to the next one; of x from a
  // tap to the one before.
  int64_t x_advance, y_advance, x_wrap, y_wrap, tap_advance;
  int64_t elements;  // of dw
  int64_t steps;     // of all samples
  int64_t tiles, splits;
  int l, lout, k, stride, padding, dilation, cin_group, cout_group;
  int phases, tap_stride, step;
  int step_outputs;                             // from a step to the next
  int lane_phases, lane_positions;              // of a warp
  int inside_first, inside_end;                 // steps of a sample that need no test
  int tile_warps, log_tile_warps, share_steps;  // warps of a block that share a tile; steps of one of them
  Divisor by_sample_steps, by_row_tiles, by_column_tiles, by_phase_tiles, by_tap_tiles, by_tile_blocks;
  Divisor by_lane_phases;
};

struct WeightTile {
  const char* name;
  int cin, cout, taps;
  int at_once;  // steps
};
inline constexpr WeightTile kWeightTileTable[] = {
    {"1x1x1", 1, 1, 1, 8}, {"1x1x2", 1, 1, 2, 6}, {"1x1x3", 1, 1, 3, 4}, {"1x1x4", 1, 1, 4, 4},
    {"1x1x6", 1, 1, 6, 4}, {"1x1x8", 1, 1, 8, 4}, {"2x2x2", 2, 2, 2, 4}, {"2x2x4", 2, 2, 4, 2},
    {"1x4x2", 1, 4, 2, 4}, {"4x1x2", 4, 1, 2, 3}, {"4x4x1", 4, 4, 1, 2}, {"4x4x2", 4, 4, 2, 2}};
inline constexpr int kWeightTiles = sizeof(kWeightTileTable) / sizeof(kWeightTileTable[0]);

struct WeightFunctions {
  // Of taps that are neighbours in x, and of any.
  void (*near[kWeightTiles])(WeightParams);
  void (*far[kWeightTiles])(WeightParams);
};
// One source file for each type.
WeightFunctions weight_f32();
WeightFunctions weight_f64();
WeightFunctions weight_f16();
WeightFunctions weight_bf16();

}  // namespace simt
}  // namespace tconv::cuda
