// cuda.sm80.overlap: transposed products with raw weights, by mma.sync; one launch, no workspace.
//
// In a raw row of weights, that of one input channel, (cout, k) are contiguous. So the wide side of the
// matrix product is (cout, k), every tap is multiplied once by every position of x, and the products are
// added where they overlap:
//
//   for each group, tile of rows (cout, k), tile of columns (n, i):        a cluster, a block a split
//     for each slab of the split's channels:                   a stage: weights and x as they lie in memory
//       acc[cout, k][n, i] += w[ci][cout, k] * x[ci][n, i]     a warp: MI x NI tiles of 16 x 8
//     products of all splits into shared memory
//     for each output (n, cout, o) of the tile, with o + padding = stride*u + a:    each block its share
//       y[n, cout, o] = bias + sum over splits, taps j of products[cout, a + j*tap_stride][n, u - j*step]
//
// The samples of a batch are columns one after another. A tile repeats the (taps - 1)*step columns before its
// own, so that it has all products of its outputs: position u belongs to the tile of column min(u, L - 1).
// The rows of a tile are some couts with all of their k or, for long kernels, with some neighbouring phases
// and all taps of these. What does not exist (a tap, a position outside x) is no product and no column, so an
// infinite weight has no effect there.
//
// The sums of the splits are read from the other blocks' shared memory (from compute capability 9.0 on;
// before that, there is no split) and added in order. With few positions, weights bind; with many, loads of
// fragments from shared memory.
#pragma once

#include <algorithm>

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Overlap;

inline constexpr int kOverlapThreads = 256;
inline constexpr int kOverlapSlabBytes = 128;  // of a channel's row; the depth is split between these
inline constexpr int kOverlapPad = 8;  // elements after each row of a stage, so that fragments meet all banks

// A block's tile. A stage holds stage_bytes of depth: a part of a slab if there are many columns.
struct OverlapTile {
  int rows, columns, stages, stage_bytes;
  // Floats from a row of products to the next, and from a column to the next: those that a warp writes meet
  // all banks.
  constexpr int row_step(bool columns_beside) const { return columns_beside ? columns + 8 : 1; }
  constexpr int column_step(bool columns_beside) const { return columns_beside ? 1 : rows + 4; }
  constexpr int sum_floats() const { return std::max(rows * row_step(true), columns * column_step(false)); }
};
inline constexpr OverlapTile kOverlapTiles[] = {{128, 16, 5, 128},  {128, 32, 4, 128}, {128, 64, 4, 128},
                                                {128, 128, 3, 128}, {64, 256, 4, 64},  {32, 256, 4, 64}};
inline constexpr int kOverlapTileCount = 6;
inline constexpr int kOverlapTallTile = 3;  // the widest of the tiles with most rows

// Bytes that a copy moves.
enum class OverlapCopy : int { vector = 16, word = 4, element = 2 };

struct OverlapParams {
  const void* x;
  const void* weight;
  const void* bias;  // null: none
  void* y;
  int64_t x_step[2];    // sample, channel
  int64_t weight_step;  // from a channel's row to the next
  int64_t cout, l, lout;
  int cin_group, cout_group, groups, k;
  int stride, padding, phases, last_phases, taps, tap_stride, step;
  // Rows of a tile: couts x [taps x] chunk; row = cout*cout_rows + tap*tap_rows + phase.
  bool whole;  // all k of a cout
  int couts, chunk, cout_rows, tap_rows;
  int cout_tiles, phase_tiles;
  // Columns.
  int columns, halo, own, column_tiles;  // of all samples; of a tile; own = its columns - halo
  Divisor length;                        // columns of a sample
  int first_u;
  Divisor turns;  // positions u of a sample
  int slabs, splits;
  bool rows_first;      // neighbouring blocks share columns
  bool columns_beside;  // in shared memory, a row's products lie together; otherwise a column's
  OverlapCopy weight_copy, x_copy;
};

struct OverlapFunctions {
  void (*tiles[kOverlapTileCount])(OverlapParams);
};
OverlapFunctions overlap_tf32();
OverlapFunctions overlap_ieee();
OverlapFunctions overlap_f16();
OverlapFunctions overlap_bf16();

constexpr int overlap_shared_bytes(int tile, int element) {
  const OverlapTile& t = kOverlapTiles[tile];
  const int stage = t.stage_bytes / element * (t.rows + t.columns + 2 * kOverlapPad) * element;
  return std::max(t.sum_floats() * 4, t.stages * stage);
}

}  // namespace tconv::cuda
