// cuda.simt.outer: the weight gradient as a sum of outer products, for few positions and many weights, where
// writing dw takes most of the time: layers that see a few frames, and bases of an inverse STFT.
//
//   for tile of rows ci x columns (co,k), split of the positions:     a block
//     for position (n,i) of the split, one after the other:
//       sums[ci][(co,k)] += x[n,ci,i] * dy[n,co,o],  o = stride*i - padding + dilation*k
//     the splits' sums are added in order by a second kernel (ordered_sum.cuh)
//
// A thread owns its outputs: it keeps some columns, kOuterThreads apart, of all rows of the tile. x waits in
// shared memory, a position's rows side by side, and a thread reads four with one load; dy comes from L1,
// where neighbouring threads read neighbouring taps. cuda.simt.weight divides the positions among threads
// instead, and adds their sums by a tree, which costs more than the products if positions are few.
#pragma once

#include <compare>
#include <cstdint>

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtOuter;

namespace simt {

inline constexpr int kOuterThreads = 128;
inline constexpr int kOuterPositions = 64;  // positions of x in shared memory at once
inline constexpr int kOuterAtOnce = 4;      // positions of these whose loads of dy are in flight together
inline constexpr int kOuterLongest = 512;   // products that are added one after another
inline constexpr int64_t kOuterReach = int64_t{1} << 30;  // places in dy fit in 32 bits

struct OuterParams {
  const void* x;
  const void* y;
  void* output;
  void* parts;  // null: one split
  int64_t x_step[3], y_step[3];
  int64_t cin_group, cout_group, elements;  // of dw
  int64_t row_tiles, column_tiles, tiles;
  int64_t positions, split_positions, splits;
  int l, lout, stride, padding, dilation, k;
};

struct OuterTile {
  int rows, columns;  // of a thread; a block has kOuterThreads times as many columns
};
inline constexpr int kOuterTiles = 3;
inline constexpr OuterTile kOuterTileTable[kOuterTiles] = {{16, 4}, {16, 2}, {4, 4}};

struct OuterFunctions {
  void (*tiles[kOuterTiles])(OuterParams);
};
OuterFunctions outer_f32();
OuterFunctions outer_f64();
OuterFunctions outer_f16();
OuterFunctions outer_bf16();

// The configuration, chosen by a model of its time.
struct OuterPlan {
  int tile = 0;
  OuterParams params{};  // without pointers
  int64_t blocks = 0;    // 0: none
  std::size_t part_bytes = 0;
  double seconds = 0;  // predicted
};
OuterPlan outer_plan_of(const core::Problem&, const core::DeviceInfo&, int tile, int64_t splits);
OuterPlan outer_plan(const core::Problem&, const core::DeviceInfo&);

// Which thread of a tile holds an element of dw, and in which of its sums.
struct OuterSum {
  int64_t tile;
  int thread, column, row;
  auto operator<=>(const OuterSum&) const = default;
};
OuterSum outer_sum(const OuterPlan& plan, int64_t element);

}  // namespace simt
}  // namespace tconv::cuda
