// cuda.sm80.window: strided products (Conv1d, input gradients) in one launch, by mma.sync. It reads
// raw weights and dy in place and needs no workspace.
//
// In a raw row of weights, that of channel ci, (co, k) are contiguous; they are the depth of the
// product:
//
//   for each group, tile of rows ci, tile of columns (n, i):                   a cluster, a block a split
//     for each slab of the split's depth:                                      a stage of the ring
//       weights[ci][e] and windows of dy as they lie in memory, e = (co, k)
//       acc[ci][n, i] += w[ci][e] * dy[n][co][stride*i - padding + dilation*k]  a warp: MI x NI mmas
//     acc of all splits into shared memory
//     dx[n, ci, i] = bias[ci] + sum over splits of acc[ci][n, i]               each block its share
//
// A slab is some channels with all of their taps or, for long kernels, some taps of one channel. A table says
// where element e of the slab lies in a window for position 0; column (n, i) adds its own place to that. So
// any stride, dilation and padding costs the same, except for bank conflicts at strides of 16 and more.
//
// The samples of a batch are columns one after another. Windows count positions q = n*sample_window + lead +
// stride*i + dilation*k: samples are so far apart that no piece that is copied at once belongs to two of
// them. What lies outside dy is zero. Such a zero is no product, but an infinite weight makes NaN of it, so
// outputs that are NaN are recomputed from what exists, and so are those of tiles with numbers that split
// float32 cannot hold.
//
// The sums of the splits are read from the other blocks' shared memory (from compute capability 9.0 on;
// earlier, nothing is split) and added in order. Loads of dy from shared memory bind; for short depths,
// stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Window;

inline constexpr int kWindowThreads = 128;

struct WindowTile {
  int rows, columns;
  int row_warps, column_warps;
  constexpr int warp_rows() const { return rows / row_warps; }
  constexpr int warp_columns() const { return columns / column_warps; }
};
inline constexpr WindowTile kWindowTiles[] = {{16, 128, 1, 4}, {32, 64, 1, 4},  {64, 32, 2, 2},
                                              {64, 64, 2, 2},  {128, 64, 2, 2}, {64, 128, 2, 2}};
inline constexpr int kWindowTileCount = 6;
inline constexpr int kWindowMaxStages = 4;
inline constexpr int kWindowStepsAhead = 3;  // places that are loaded beyond a slab's
inline constexpr int kWindowStepBytes = 32;  // of a row of weights: one step of the mma's depth
constexpr int64_t window_lead(std::size_t element) {
  return 16 / static_cast<int64_t>(element);
}
inline constexpr int kWindowSumPad = 8;  // after a row of staged sums: lanes that store meet all banks

// Bytes that a copy moves; single elements pass through registers.
enum class WindowCopy : int { vector = 16, word = 4, element = 0 };
constexpr int window_copy_bytes(WindowCopy copy, int element) {
  return copy == WindowCopy::element ? element : static_cast<int>(copy);
}

// One operand's copies: `lanes` threads, a power of two, take the pieces of a row.
struct WindowPieces {
  WindowCopy copy;
  int pieces, lanes;
};

struct WindowParams {
  const void* dy;
  const void* weight;
  const void* bias;  // null: none
  void* dx;
  int64_t dy_step[2];  // sample, channel
  int64_t weight_row;  // elements of a channel ci
  int64_t cin, l, lout;
  int samples, groups, cin_group, cout_group, k;
  int stride, dilation, padding;
  // Depth.
  int channels, taps, chunks;  // of a slab; chunks of taps that a channel has
  int steps, slabs, splits;    // steps of a slab
  Divisor taps_div, splits_div;
  // Columns.
  int columns;
  Divisor length;  // columns of a sample
  Divisor sample_window;
  int window_pitch;   // elements from a channel's window to the next
  Divisor row_tiles;  // of a group
  Divisor low_tiles;  // of rows or of columns, in whichever neighbouring blocks differ
  int column_tiles;
  bool rows_first;  // neighbouring blocks share columns
  bool unreached;   // some outputs have no product
  bool vectors;     // four neighbouring outputs can be stored at once
  WindowPieces weight_pieces, dy_pieces;
  // Bytes.
  int weight_pitch, window_at, stage_bytes, stages, table_at;
};

struct WindowFunctions {
  void (*tiles[kWindowTileCount])(WindowParams);
};
WindowFunctions window_tf32();
WindowFunctions window_ieee();
WindowFunctions window_f16();
WindowFunctions window_bf16();

}  // namespace tconv::cuda
