// cuda.simt.weight_staged: the weight gradient of few channels at length, by multiply-adds. Tensor cores
// would multiply zeros there, or need six products for an exact one of float32.
//
//   for tile of ci x columns (co,k), split of the segments:                         a block
//     for chunk of segments: runs of positions (n,i), each in one sample             two buffers
//       shared memory: x[ci][position], dy[co][phase][position]
//       for 32 positions, a lane each                                               a warp: R ci x C columns
//         sums[r][c] += x[n,ci,i] * dy[n,co,o],  o = stride*i - padding + dilation*k
//     a tree adds the lanes' sums; then those of warps that share a tile, in order
//   a second kernel adds the splits in order (ordered_sum.cuh)
//
// A segment's window of dy, from the place of its first position and tap on, lies by phases: place q is
// element q/stride of phase q%stride. So neighbouring positions read neighbouring words whatever the stride,
// and a tap is one offset for all of them. Loads from shared memory (R+C for R*C products) and multiply-adds
// take about as long. Two alternatives were dropped on paper: lanes across a tile, as in a matrix product,
// need tiles of 64 x 32 and dy once for each tap in shared memory; positions side by side in a lane (wide
// loads) do not align with taps.
//
// What lies outside x or dy is staged as zero and multiplied. That matters only if the other operand is an
// infinity or NaN: a block whose sums have a NaN adds them again without those products.
//
// float32 is copied asynchronously; 16-bit types are widened on their way (weight_staged_widen.cuh). Not
// float64: sums are in float32.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "core/problem.hpp"
#include "cuda/device/divisor.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtWeightStaged;

namespace simt {

// Warps of a block, at most.
constexpr int staged_warps(int sums) {
  return sums == 64 ? 16 : 8;
}
// Blocks of so many warps that an SM holds by their registers, at least.
constexpr int staged_blocks(int sums) {
  return sums == 64 ? 1 : sums == 32 ? 2 : 3;
}
inline constexpr int kStagedRun = 64;       // positions that lie together in shared memory, of one row x[ci]
inline constexpr int kStagedLongest = 512;  // products that a lane adds one after the other
inline constexpr int kStagedWords =
    14 * 1024;  // of a chunk, at most: two blocks with two chunks fill an SM of Hopper
inline constexpr int64_t kStagedReach = int64_t{1} << 30;  // of places in dy, segments and columns

struct StagedParams {
  const void* x;
  const void* y;
  void* output;
  void* parts;  // null: one split
  int64_t x_step[3], y_step[3];
  int64_t elements;  // of dw
  int64_t tiles, splits, row_tiles;
  int segments, split_segments;
  int l, lout, stride, padding, dilation, k, cin_group, cout_group;
  // Of a block: warps that share x, dy, or a tile; rows and columns; channels co and taps that are staged.
  int row_warps, column_warps, slices, rows, columns, couts, taps;
  int segment_log2, chunk_segments, runs;  // of a chunk: its positions are runs * kStagedRun
  int phases, window;                      // a segment's places in dy
  // Crews of threads that copy x and dy to shared memory; they share rows or channels.
  int x_crews, x_warps, dy_crews, dy_threads;
  int segment_pitch, phase_pitch, cout_pitch, buffer_words;
  Divisor by_tiles, by_column_tiles, by_row_tiles, by_sample_segments, by_stride, by_window;
  Divisor by_k_columns;  // of a channel co: k, or more where a tile is of one channel
};

struct StagedTile {
  int rows, columns;  // of a thread
};
inline constexpr int kStagedTiles = 6;
inline constexpr StagedTile kStagedTileTable[kStagedTiles] = {{8, 8}, {8, 4}, {8, 2}, {4, 8}, {2, 8}, {1, 8}};

struct StagedFunctions {
  void (*tiles[kStagedTiles])(StagedParams);
};
// One source file for each type.
StagedFunctions staged_functions_f32();
StagedFunctions staged_functions_f16();
StagedFunctions staged_functions_bf16();

// The configuration, chosen by a model of its time.
struct StagedPlan {
  int tile = 0;
  StagedParams params{};  // without pointers
  int64_t blocks = 0;     // 0: none fits
  int threads = 0;
  std::size_t shared_bytes = 0, part_bytes = 0;
  double seconds = 0;  // predicted
};
StagedPlan staged_plan(const core::Problem&, const core::DeviceInfo&);
// Of a plan: blocks that an SM holds at once, and seconds that are predicted.
int64_t staged_resident(const StagedPlan&, const core::DeviceInfo&);
double staged_seconds(const StagedPlan&, const core::Problem&, const core::DeviceInfo&);
// A lower bound of a plan's time, without a search; of a plan whose tiles have so many rows and columns in
// all, those beyond the group's included.
double staged_least_seconds(const core::Problem&, const core::DeviceInfo&);
double staged_least_seconds(const core::Problem&, const core::DeviceInfo&, int64_t rows, int64_t columns);
// Of a thread's tile, and warps that share dy (row_warps) or x (column_warps).
struct StagedConfig {
  int tile, row_warps, column_warps;
};
StagedPlan staged_plan_of(const core::Problem&, const core::DeviceInfo&, const StagedConfig&);
std::unique_ptr<const plan::Kernel> staged_kernel(const core::Problem&, const core::DeviceInfo&,
                                                  const StagedPlan& plan);

// Which tile of the grid sums an element of dw, which of its warps, and which of a thread's sums.
struct StagedSum {
  int64_t tile;
  int warp, sum;
  auto operator<=>(const StagedSum&) const = default;
};
StagedSum staged_sum(const StagedPlan& plan, int64_t element);

}  // namespace simt
}  // namespace tconv::cuda
