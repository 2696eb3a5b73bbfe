// Where a reduction is split, blocks leave partial sums in the workspace, and one kernel (ordered_sum.cuh)
// adds them in the order of the splits: no atomics, the same bits on every run. These are its parameters. A
// Place says where a family keeps the partial sums of an output.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"

namespace tconv::cuda {

inline constexpr int kSumThreads = 256, kSumEach = 4;  // outputs of a thread, computed together
inline constexpr int kSumChunk = kSumThreads * kSumEach;

struct OrderedSumParams {
  const void* partial;
  const void* bias;  // null: none
  void* output;
  int64_t split_size;  // elements from one split's sums to the next
  int splits;
};

// Partial sums lie as the outputs do: (n, cout, lout) or, without a bias, any shape, as one row.
struct FlatSumParams : OrderedSumParams {
  int64_t elements, lout, cout;
  int chunk;  // outputs of a block
};

// Partial sums lie as rows (cout, phase) by columns (sample, u) of the polyphase form. The row of (cout,
// phase):
//   group*group_rows + cout/block_couts*block_rows + cout%block_couts*cout_rows + phase*phase_rows
struct PhaseSumParams : OrderedSumParams {
  int64_t lout, group_rows, partial_columns, first_u;
  int cout, cout_group, sample_columns;
  int block_couts, block_rows, cout_rows, phase_rows;
  int stride, dilation, padding, phases, tap_stride, inverse;  // inverse of dilation/g modulo tap_stride
  Divisor stride_div, gcd_div, tap_stride_div;
  // What a block sums (set at launch): a piece of one row (n, cout) of y, or several short rows.
  uint32_t rows, chunk, chunk_rows;
  Divisor chunks_div, lout_div, cout_div, cout_group_div, block_couts_div;
  bool wide;  // sums are float64
};

// The same by four neighbours of a row of y (row_sum.cuh): fours of all rows, and of one.
inline constexpr int kSumFour = 4;
struct RowSumParams : PhaseSumParams {
  uint32_t fours;
  Divisor row_fours;
  bool vectors;  // four outputs are a vector of y
};

// The same for several phases (phase_fours.cuh): the positions of a tile, the first one's and the last one
// that has outputs; tiles of a row, and fours of a phase in a tile.
inline constexpr int kSumTile = 2048;  // outputs of a tile
struct PhaseFoursParams : PhaseSumParams {
  int positions, tiles_u, last_u;
  Divisor tiles_div, fours_div;
};

// The same by tiles of a row of y (phase_tiles.cuh): where the first one begins, and the last position that
// has outputs.
inline constexpr int kSumTilePhases = 64, kSumTilePositions = 32;
struct PhaseTilesParams : PhaseSumParams {
  int tiles_u, last_u;
  Divisor position_tiles_div, phase_tiles_div;
};

}  // namespace tconv::cuda
