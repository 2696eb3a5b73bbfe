// cuda.simt.weight: the weight gradient where tensor cores would idle (depthwise, groups of few channels),
// and on GPUs before compute capability 8.0.
//
//   for tile of Ci x Co channels x Taps, split of the positions:     a block
//     for position (n, i) of the split, each thread takes every kWeightThreads-th:
//       sums[ci][co][k] += x[n,ci,i] * dy[n,co,o],  o = stride*i - padding + dilation*k
//     the threads' sums are added by a tree, the splits' in order by a second kernel (ordered_sum.cuh)
//
// Neighbouring threads read neighbouring positions, and a position's taps come from L1.
#pragma once

#include <cstdint>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtWeight;

namespace simt {

inline constexpr int kWeightThreads = 128;

struct WeightParams {
  const void* x;
  const void* y;
  void* output;
  void* parts;  // null: one split
  int64_t x_step[3], y_step[3];
  int64_t l, lout, stride, padding, dilation, k;
  int64_t cin_group, cout_group;
  int64_t row_tiles, column_tiles, tap_tiles;
  int64_t tiles, splits, positions, split_positions;
  int64_t elements;  // of dw
};

struct WeightTile {
  const char* name;
  int cin, cout, taps;
};
inline constexpr int kWeightTiles = 4;
inline constexpr WeightTile kWeightTileTable[kWeightTiles] = {
    {"1x1x4", 1, 1, 4}, {"1x1x8", 1, 1, 8}, {"2x2x4", 2, 2, 4}, {"4x4x2", 4, 4, 2}};

struct WeightFunctions {
  void (*tiles[kWeightTiles])(WeightParams);
};
WeightFunctions weight_f32();
WeightFunctions weight_f64();
WeightFunctions weight_f16();
WeightFunctions weight_bf16();

}  // namespace simt
}  // namespace tconv::cuda
