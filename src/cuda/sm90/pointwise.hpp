// cuda.sm90.pointwise: products with one tap at stride 1, no padding, transposed and strided, in one launch
// by wgmma, of rows that are whole multiples of 16 bytes. Problem and writer are those of cuda.sm80.pointwise
// (sm80/pointwise.hpp); what differs is the product, turned over, and that one thread copies:
//
//   for each group, tile of rows r, sample n, tile of positions i:     a cluster, a block a split
//     for each slab of the split's channels c:                         a stage of the ring, by tensor copies
//       x[n][c][i], boxes of 128 bytes of positions
//       w[r][c] (strided) or w[c][r] (transposed), rows as they lie in memory
//       acc[i][r] += x[c][i] * w[r][c]                                 a warpgroup: 64 positions by wgmma
//     acc turned into shared memory
//     y[n, r, i] = bias[r] + sum over splits of acc[i][r]              each block its share
//
// wgmma takes x from registers, where its rows run along the wrong dimension for tf32: 16-bit elements come
// by transposing ldmatrix, float32 word by word, rounded on the way. Weights are its operand in shared
// memory: as they were copied (tensor copies round float32), except float32 weights w[c][r], which all warps
// turn in place while the slab before is multiplied. The other way round, weights in registers and x in
// shared memory, x would be turned, which is the larger operand.
//
// Copies bind: of a tile of 128 x 128 a slab takes 32 KB from L2 and 512 cycles of the tensor cores, and an
// SM gets 20 to 26 bytes a cycle. Copies by threads (cp.async, as in cuda.sm80.pointwise) reach half of that
// rate, too little to gain from wgmma: 1.23 times the time of mma.sync.
//
// If an operand's address is not a multiple of 16 bytes, threads copy, one stage at a time: the sums are the
// same, but take longer. Operands that tf32 cannot hold are treated as in cuda.sm80.pointwise; weights that
// are not finite show in the sums.
#pragma once

#include "cuda/sm80/pointwise.hpp"
#include "cuda/sm90/dense.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Pointwise;

// Two warpgroups divide the columns, 64 each, or, of tiles of 64 columns, the rows.
struct Sm90PointwiseTile {
  int rows, columns;
  int blocks;  // that an SM has, by registers
  constexpr int row_groups() const { return 128 / columns; }
  constexpr int group_rows() const { return rows / row_groups(); }
  constexpr int wgmma_rows() const { return group_rows() < 128 ? group_rows() : 128; }
};
inline constexpr Sm90PointwiseTile kSm90PointwiseTiles[] = {
    {128, 128, 2}, {64, 128, 2}, {256, 128, 1}, {128, 64, 2}};
inline constexpr int kSm90PointwiseTileCount = 4;
inline constexpr int kSm90PointwiseHead = 1024;  // bytes, before the stages: barriers
inline constexpr int kSm90PointwiseMostStages = 8;
inline constexpr int kSm90PointwiseSumPad = 4;  // after a row of staged sums: lanes that write meet all banks
inline constexpr int kSm90PointwiseMostSteps = 2048;  // wgmma on a sum, as kSm90WeightChain

// Float32 weights that lie as w[c][r] are turned in their stage.
constexpr bool sm90_pointwise_turns(int element, bool turned) {
  return element == 4 && turned;
}
constexpr int sm90_pointwise_stage_bytes(const Sm90PointwiseTile& tile) {
  return (tile.rows + tile.columns) * kPointwiseSlabBytes;
}
constexpr int sm90_pointwise_sum_bytes(const Sm90PointwiseTile& tile) {
  return tile.rows * (tile.columns + kSm90PointwiseSumPad) * 4;
}

struct Sm90PointwiseParams : PointwiseParams {
  TensorMap x_map, weight_map;
};

struct Sm90PointwiseFunctions {
  // By whether threads copy, and whether the weights are turned.
  void (*tiles[2][2][kSm90PointwiseTileCount])(Sm90PointwiseParams);
};
Sm90PointwiseFunctions sm90_pointwise_tf32();
Sm90PointwiseFunctions sm90_pointwise_f16();
Sm90PointwiseFunctions sm90_pointwise_bf16();

}  // namespace tconv::cuda
