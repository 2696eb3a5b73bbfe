// cuda.sm80.thin_weight: weight gradients of few channels along many positions, on mma.sync.
//
//   dw[ci,co,k] = sum over n, i of x[n,ci,i] * dy[n,co,o],  o = stride*i - padding + dilation*k
//
// One of x and dy gives the rows of the products, the other one the columns: x a channel each, dy a pair
// (channel, tap) each. An mma has 16 rows and 8 columns, so that either may leave less of it empty.
//
//   for each group, block of rows, block of columns, walker          a block; its sums stay in registers
//     for each tile of positions m of a sample, one after the other
//       channel[c][q] = x or dy[n][c][q]                              copies of 16 bytes, during the products
//                                                                     of the tile before
//       word[c][q] = (channel[c][q], channel[c][q + half a tile])     16-bit types only; float32 is a word
//       for each 8 words of the tile, dealt to the depth's warps:     a step of mma
//         sums[row][column] += word[row's channel][m] * word[column's channel][stride*m + dilation*tap]
//     the depth's warps are added in order, and to the walker's part of dw
//   a second kernel adds the parts of all walkers in order
//
// The depth of these products are positions. An mma takes two neighbours of a 16-bit depth in one word, and
// which positions are neighbours is free as long as both operands agree: here they are half a tile apart, so
// that any tap of any stride and dilation is one load. Neighbouring positions (cuda.sm80.weight) need a word
// put together from two loads wherever the stride is not 1 or the place is odd. The other design, raw rows of
// x and dy doubled for even and odd places, saves the words of x, but only where its rows begin on words, and
// makes twice as many of dy.
//
// What lies outside x or dy is zero. Such zeros are no products, but beside an infinity they make NaN: sums
// that are NaN are computed again from what exists.
//
// Bound: the pipe of shared memory. Of 16 channels of x and 8 of dy with 7 taps, a step of 16 positions loads
// 18 times 128 bytes, and copying and making words take as much again.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "cuda/sm80/weight.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm80ThinWeight;

inline constexpr int kThinWeightThreads = 256, kThinWeightWarps = kThinWeightThreads / 32;
inline constexpr int kThinWeightStep = 8;  // words of the depth that an mma multiplies
inline constexpr int kThinWeightRows = 16, kThinWeightColumns = 8;  // of an mma

// What a warp sums: tiles of rows x tiles of columns of an mma. split: in ieee too, whose sums are twice as
// many.
struct ThinWeightTile {
  int rows, columns;
  bool split;
};
inline constexpr int kThinWeightTiles = 14;
inline constexpr ThinWeightTile kThinWeightTileTable[kThinWeightTiles] = {
    {1, 1, true}, {1, 2, true}, {1, 3, true}, {1, 4, true},  {1, 6, true},  {1, 8, true}, {2, 1, true},
    {2, 2, true}, {2, 3, true}, {2, 4, true}, {2, 6, false}, {2, 8, false}, {4, 1, true}, {4, 2, true}};
// Blocks that an SM has registers for.
constexpr int thin_weight_blocks(int rows, int columns, bool split) {
  return rows < 4 && rows * columns * (split ? 2 : 1) <= 4 ? 3 : 2;
}

// Lanes share a channel, and each takes a vector, or a quad of words, of every so many; kThinWeightTogether
// at a time, which are on their way together. A tile of 128 or 512 words has a few more than 32 or 128 of
// them.
inline constexpr int kThinWeightTogether = 5, kThinWeightFewLanes = 8;
constexpr int thin_weight_lanes(int units) {
  return units < 100 ? kThinWeightFewLanes : 32;
}

// Of x or dy.
struct ThinWeightSide {
  const void* from;
  int64_t step[2];  // sample, channel
  int64_t length;
  int channels;                      // of a group
  int taps, stride, dilation, lead;  // tap k of position m is at stride*m - lead + dilation*k
  int tiles, block_tiles;            // of an mma: in all, and of a block
  int places;                        // elements by which the next channel lies further from a vector's begin
  int second;                        // elements from the first half of a word to the second
  int pitch;                         // words from a channel to the next
  int channel_bytes;                 // from a channel as it was copied to the next
  int channels_at, words_at;         // places in shared memory, in bytes
  int vectors;                       // of 16 bytes, that are copied of a channel
  int quads;                         // of words that are made of a channel
  Divisor by_taps, blocks;
};

struct ThinWeightParams {
  ThinWeightSide rows, columns;
  void* output;       // the parts of all walkers, each [ci][k][co] in float32
  int64_t positions;  // of a sample: l
  int64_t part_size;  // elements
  int cin_group, cout_group, k, groups;
  bool rows_move;  // the rows are those of dy
  int tile_positions, steps;
  int row_warp_bits, column_warp_bits, depth_warp_bits;
  int chain;         // tiles that are summed in one accumulator
  int buffer_bytes;  // from the words of a tile to those of the next one; 0: in the same place
  int sums_at;       // in shared memory
  Divisor sample_tiles, walkers;
  int tiles;  // of all samples
};

struct ThinWeightFunctions {
  void (*tiles[kThinWeightTiles])(ThinWeightParams);  // null if the mode does not have the tile
};
ThinWeightFunctions thin_weight_tf32();
ThinWeightFunctions thin_weight_ieee();
ThinWeightFunctions thin_weight_f16();
ThinWeightFunctions thin_weight_bf16();

}  // namespace tconv::cuda
