// cuda.sm80.weight: the weight gradient on mma.sync.
//
//   dw[ci,co,k] = sum over n, i of x[n,ci,i] * dy[n,co,o],  o = stride*i - padding + dilation*k
//
// A tap is k = a + j*tap_stride, phase a and shift j (cuda/device/phases.hpp):
//
//   o = stride*(i + j*step) + a*dilation - padding
//
//   for tile of ci (rows), block of (co, a, j) (columns), split:      a block of threads
//     for stage of positions (n, i) of the split:                      3 to 6 of them in shared memory
//       x [ci][position], dy [co][o], as they are in memory, zeros outside
//       for 32 bytes of positions, mma tile: sums += x * dy shifted
//     every kWeightChain positions and at the end: the sums are added to the split's own part
//   a second kernel adds the parts of all splits in order
//
// Shared memory:  x: rows of x_pitch bytes.  dy: rows of y_pitch bytes, each of `stage_pieces` pieces of a
// sample: all outputs from the first tap of its first position to the last tap of its last one. Rows of dy
// begin anywhere; they are copied from the last 16-byte boundary before them, and read that many elements
// later (Skew). Stride, phase and shift are only places in a row, and neighbouring phases keep strided reads
// in different banks.
//
// A product outside x or dy is 0 times something, which is NaN if that is infinite. So sums that come out as
// NaN (for float32 in parts also infinite ones, since rounding a part may overflow) are recomputed element by
// element. A sum ends soon after its first NaN, which bounds the work if x or dy is full of NaN.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Weight;

// Stages in shared memory: as many as fit without taking the place of another block on the SM. With more of
// them a stage is waited for less (weight_cost.cpp: 1,440 cycles over the stages under way ahead of it).
inline constexpr int kWeightMostSlots = 6, kWeightSomeSlots = 4, kWeightLeastSlots = 3;
// Positions that are summed in one accumulator before it is added to the split's part. A tensor core
// truncates when it adds: 512 steps of 8 are off by at most 1.3e-5 if all products have one sign.
inline constexpr int kWeightChain = 4096;
inline constexpr int kWeightStepBytes = 32;  // of the positions that one mma multiplies
inline constexpr int kWeightSumThreads = 256;

enum class WeightCopy : int32_t { elements, words, vectors };  // how x is read: by element, 4 or 16 bytes

struct WeightParams {
  const void* x;
  const void* y;
  void* output;  // dw, or the parts of all splits
  int64_t x_step[3], y_step[3];
  int64_t l, lout, padding;
  int32_t cin_group, cout_group, k;
  int32_t stride, dilation, phases, taps, tap_stride, step;
  // Blocks of columns: couts x phases x taps; column c of a block: tap c / rows, row c % rows = cout*phases +
  // phase.
  int32_t block_couts, block_phases, block_taps, rows;
  int32_t row_tiles, cout_blocks, phase_blocks, tap_blocks;
  int32_t tiles, splits, stages;
  int32_t pieces, sample_pieces;  // in all, and of a sample
  int32_t piece, stage_pieces;    // positions of a piece (in a stage: a power of two), pieces of a stage
  int32_t piece_shift, pieces_shift;
  int32_t piece_pitch;  // elements of a piece of a row of dy, with the sixteen bytes in which it may begin
  int32_t x_pitch, y_pitch, slot_bytes;  // bytes
  int32_t slots;                         // of cuda.sm80.weight
  int32_t line_shift;                    // 2^line_shift threads copy a piece of a row of dy
  int32_t chain;                         // stages that are summed in one accumulator
  WeightCopy copy;
  bool direct;  // one split, one chain: the sums go to dw
  Divisor by_sample;
};

struct WeightSumParams {
  const void* parts;
  void* output;
  int64_t part_size;
  uint32_t elements;  // of dw
  int32_t splits, runs_shift;
  // An element's place in dw, and the blocks of it that tiles have.
  Divisor by_k, by_cout, by_cin, by_tap_stride;
  Divisor by_rows, by_couts, by_phases, by_taps;
  uint32_t tile_columns, rows, row_tiles, cout_blocks, phase_blocks, tap_blocks;
};

// Rows and columns of a tile, and how the warps share it.
struct WeightTile {
  const char* name;
  int warp_rows, warp_columns, mi, ni;
  int blocks;  // on an SM, by registers
  constexpr int threads() const { return 32 * warp_rows * warp_columns; }
  constexpr int rows() const { return 16 * warp_rows * mi; }
  constexpr int columns() const { return 8 * warp_columns * ni; }
};
inline constexpr int kWeightTiles = 6;
inline constexpr WeightTile kWeightTileTable[kWeightTiles] = {
    {"128x192", 2, 4, 4, 6, 1}, {"128x128", 2, 4, 4, 4, 1}, {"64x128", 2, 4, 2, 4, 2},
    {"32x256", 1, 8, 2, 4, 2},  {"128x32", 8, 1, 1, 4, 2},  {"16x256", 1, 8, 1, 4, 2}};

struct WeightFunctions {
  void (*tiles[kWeightTiles])(WeightParams);  // null if the mode does not have the tile
  void (*sum)(WeightSumParams);
};
WeightFunctions weight_tf32();
WeightFunctions weight_ieee();
WeightFunctions weight_f16();
WeightFunctions weight_bf16();
WeightFunctions weight_f64();

}  // namespace tconv::cuda
