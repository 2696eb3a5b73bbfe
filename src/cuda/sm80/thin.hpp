// cuda.sm80.thin: products of few channels along many positions, by mma.sync in one launch: f16, bf16, tf32
// and ieee. Strided products (Conv1d, input gradients), and transposed ones, whose phases are rows of a
// product of stride 1. It reads raw weights, and x or dy (the source) in place.
//
//   for each group, part of the rows (channel, phase), run of tiles          a block; its weights stay in
//                                                                            shared memory as fragments
//     for each tile of positions m of a sample                               one after the other
//       16 bits:  channel[c][q] = source[n][c][q]                            copies of 16 bytes, during the
//                                                                            products of the tile before
//                 window[c/2][q] = (channel[c][q], channel[c + 1][q])        pairs of channels, in words
//       float32:  window[c][q] = source[n][c][q]                             copies of 4 bytes, likewise
//       for each 8 words (pair or channel, tap) of the depth:                a step of mma m16n8
//         acc[row][m] += w[row][pair, tap] * window[pair][S*m + D*tap]       a warp: MI x 8 mmas
//       output[n, row][m] = bias + acc                                       through shared memory, in runs
//
// A word of B is two channels at one position, or one in float32, so any tap of any stride and dilation is
// one load, where cuda.sm80.window, which keeps rows as they lie in memory, needs two loads and a
// permutation. Positions are in planes q % S, so that neighbouring outputs read neighbouring words. The other
// design, two neighbouring taps in a word, needs no words to be made, but a second set of weights for odd
// places, and has no answer to dilation.
//
// Words of float32 are rounded, or split in two parts (ieee), as they are multiplied. To round each once,
// where it comes in, would need a pass of its own over shared memory, as 16-bit words do.
//
// Words that the depth lacks have weights of zero, and what lies outside the source is zero. Such zeros are
// no products, but beside an infinity they make NaN: outputs that are NaN (in float32 also infinite ones,
// since rounding may overflow) are computed again from what exists. Sums are those of one order of the depth,
// whatever the tile, n and l are.
//
// Bound: instructions and their latency, 8 to 16 warps on an SM: half of the memory's rate with 6 to 16
// channels, a quarter with 32, where tensor copies and wgmma (cuda.sm90.blocked) are faster.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Thin;

inline constexpr int kThinThreads = 128, kThinWarps = kThinThreads / 32;
inline constexpr int kThinColumns = 64;      // positions that a warp sums at once
inline constexpr int kThinRowTile = 16;      // rows of an mma
inline constexpr int kThinStepWords = 8;     // of a step of the depth
inline constexpr int kThinStepsAhead = 2;    // that are looked up beyond the depth
inline constexpr int kThinMostRowTiles = 2;  // of a warp
// Blocks that an SM has registers for, by the row tiles of a warp and the parts of an operand.
constexpr int thin_blocks(int row_tiles, int parts) {
  return row_tiles == 1 && parts == 1 ? 4 : 3;
}
inline constexpr int kThinFragmentBytes = 512;  // weights of a row tile and step

struct ThinParams {
  const void* source;  // dy, or x
  const void* weight;
  const void* bias;  // null: none
  void* output;
  int64_t source_step[2];  // sample, channel
  int64_t source_length;
  int64_t output_length;
  int64_t weight_group, weight_row, weight_channel;  // elements from one to the next
  int channels, rows, output_channels;  // of a group: of the source, (output channel, phase), outputs
  int groups;
  // Tap j of a row of phase r has the weight k = tap_first + tap_step*j + r, if 0 <= k < k_count, and reads
  // q = in_stride*m - lead + dilation*j.
  int taps, k_count, tap_first, tap_step;
  int in_stride, dilation, lead;
  // Output of (m, phase): out_stride*m + phase - out_lead.
  int out_stride, out_lead;
  int phase_bits;     // a channel has 1 << phase_bits rows, the first out_stride of them with outputs
  int64_t positions;  // m of a sample
  // Tiles.
  int row_warps;     // warps that share positions: 1, 2 or 4
  int warp_columns;  // positions of a warp in a tile: some times kThinColumns
  // Elements from a staged row of outputs to the next, bytes of a row tile's, and of a warp's.
  int staged_pitch, staged_tile, staged_warp;
  int block_row_tiles;
  int steps, pairs;
  int window;                   // elements of a channel's window
  int plane_pitch, pair_pitch;  // words
  int channel_vectors;          // of 16 bytes: a channel's in shared memory
  int channel_places;           // elements by which the next channel lies further from a vector's begin
  // A warp pairs two channels a chunk of positions at a time: up to 32, whole turns of the planes.
  int chunk, chunks;
  int pair_warp_bits;  // 1 << pair_warp_bits warps share a pair's chunks
  int pair_step;       // pairs from a warp's to its next one
  int chunk_step;      // bytes of words from a warp's chunk to its next one
  Divisor in_stride_div, pairs_div;
  Divisor sample_tiles, walkers, row_blocks;
  int tiles;         // of all samples
  int splits;        // 1, for RawKernel
  int window_bytes;  // from a window to that of the next tile; 0: in the same place
  // Places in shared memory, in bytes: fragments are at 0.
  int table_at, bias_at, channels_at, window_at, staged_at;
};

struct ThinFunctions {
  void (*of_rows[2][kThinMostRowTiles])(ThinParams);  // [phases][row tiles of a warp - 1]
};
ThinFunctions thin_tf32();
ThinFunctions thin_ieee();
ThinFunctions thin_f16();
ThinFunctions thin_bf16();

}  // namespace tconv::cuda
