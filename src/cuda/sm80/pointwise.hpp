// cuda.sm80.pointwise: products with one tap at stride 1, no padding, transposed and strided, in one launch
// by mma.sync. A sample's outputs are a matrix product of raw weights and of x (or dy) as it lies in memory:
//
//   for each group, tile of rows r, sample n, tile of positions i:     a cluster, a block a split
//     for each slab of the split's channels c:                         a stage of the ring
//       x[n][c][i] and w[r][c] (strided) or w[c][r] (transposed), rows as they lie in memory
//       acc[r][i] += w[r][c] * x[n][c][i]                              a warp: MI x NI mmas
//     acc into shared memory
//     y[n, r, i] = bias[r] + sum over splits of acc[r][i]              each block its share
//
// Rows of x may begin anywhere: they are copied in the widest pieces that all of them allow. If some 16-bit
// rows begin inside a word, they are copied from that word on and moved by one element in shared memory.
//
// Every product is one of the problem, so NaN and infinities need no care in 16-bit types. Float32 operands
// are rounded by an addition, which the largest numbers and NaN do not survive: tiles that have met one are
// computed again, and so are tiles with numbers that split float32 cannot hold.
//
// The sums of the splits are read from the other blocks' shared memory (from compute capability 9.0 on;
// earlier, nothing is split) and added in order. With few channels memory binds, then the rate of mma.sync.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Pointwise;

inline constexpr int kPointwiseThreads = 256;

struct PointwiseTile {
  int rows, columns;
  int row_warps, column_warps;
  int blocks;  // that an SM has, by registers
  constexpr int warp_rows() const { return rows / row_warps; }
  constexpr int warp_columns() const { return columns / column_warps; }
};
inline constexpr PointwiseTile kPointwiseTiles[] = {{128, 128, 2, 4, 2}, {64, 256, 2, 4, 2},
                                                    {64, 128, 2, 4, 3},  {32, 128, 1, 8, 3},
                                                    {64, 64, 2, 4, 3},   {128, 32, 4, 2, 3}};
inline constexpr int kPointwiseTileCount = 6;
inline constexpr int kPointwiseSlabBytes = 128;  // of a row of weights
inline constexpr int kPointwiseMaxStages = 4;
inline constexpr int kPointwiseSumPad = 8;  // after a row of staged sums: lanes that store meet all banks

// Bytes from one row of a stage to the next. Rows of positions (or of r) are read by columns: in 16-bit types
// 8 rows x 16 bytes at once, in float32 4 rows x 8 words; both meet all banks.
constexpr int pointwise_pitch(int elements, int element) {
  return elements * element + (element == 2 ? 16 : 32);
}
// The same for rows w[r], whose elements are a slab's channels: 8 rows x 16 bytes at once.
inline constexpr int kPointwiseRowPitch = kPointwiseSlabBytes + 16;

// turned: weights lie as w[c][r].
constexpr int pointwise_weight_bytes(const PointwiseTile& tile, int element, bool turned) {
  return turned ? kPointwiseSlabBytes / element * pointwise_pitch(tile.rows, element)
                : tile.rows * kPointwiseRowPitch;
}
constexpr int pointwise_stage_bytes(const PointwiseTile& tile, int element, bool turned) {
  return pointwise_weight_bytes(tile, element, turned) +
         kPointwiseSlabBytes / element * pointwise_pitch(tile.columns, element);
}
constexpr int pointwise_sum_bytes(const PointwiseTile& tile) {
  return tile.rows * (tile.columns + kPointwiseSumPad) * 4;
}

struct PointwiseParams {
  const void* x;
  const void* weight;
  const void* bias;  // null: none
  void* y;
  int64_t x_step[2];    // sample, channel
  int64_t weight_step;  // from a row of weights to the next
  int64_t l;
  int groups, rows, depth;  // of a group: outputs' channels and those that are summed
  int slabs, splits, stages;
  Divisor splits_div;
  Divisor row_tiles;        // of a group
  Divisor column_tiles;     // of a sample
  Divisor low_tiles;        // of rows or of columns, in whichever neighbouring blocks differ
  bool rows_first;          // neighbouring blocks share columns
  bool vectors;             // four neighbouring outputs can be stored at once
  int x_copy, weight_copy;  // bytes of a piece: 16, 8, 4 or 2
  bool x_shifted;           // rows of single elements are copied by words, and moved if they begin inside one
};

struct PointwiseFunctions {
  void (*tiles[2][kPointwiseTileCount])(PointwiseParams);  // by whether the weights are turned
};
PointwiseFunctions pointwise_tf32();
PointwiseFunctions pointwise_ieee();
PointwiseFunctions pointwise_f16();
PointwiseFunctions pointwise_bf16();

}  // namespace tconv::cuda
