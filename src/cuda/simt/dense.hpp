// cuda.simt.dense: every transposed product as one matrix product over the polyphase form
// (cuda/device/phases.hpp), in fused multiply-adds.
//
//   for each group g, tile of rows m = (n, u), tile of columns c = (cout in g, phase a):
//     for each slab = (channels ci..ci+7, tap j):                                 one shared-memory stage
//       acc[m][c] += x[n, ci, u - j*step] * packed[g][j][ci][c]                   a thread: TM x TN of acc
//     y[n, cout, stride*u + a*dilation - padding] = acc[m][c] + bias[cout]
//
// If tap_stride does not divide K, the first phases have one tap more. They form a class of columns with
// tiles of its own, so that nothing is multiplied by a zero that stands for no tap (an Inf of x would make it
// NaN).
//
//   packed: for each class (groups, taps, cin/groups, pitch): w[ci, cout, a + j*tap_stride] at column
//   cout*phases + a - first_phase; pitch = columns rounded up to 16 bytes.
//
// With few rows, SMs would idle, so the slabs can be split over blocks: each split writes its sums, laid out
// like y, to the workspace, and a second kernel adds them in order. No atomics: the same bits on every run.
// The order of one split's sum depends only on the slabs, not on the tile.
//
// Positions outside x are zeros in shared memory. If one meets an infinite weight, the sum becomes NaN; a
// block whose sums hold a NaN computes those outputs again from the products that exist (dense_repair.cuh).
#pragma once

#include "cuda/device/divisor.hpp"
#include "cuda/device/phases.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtDense;

inline constexpr int kSlabChannels = 8;
// In the kernel, positions stay below this, including what taps reach beyond them.
inline constexpr int kDenseOutside = -(1 << 30);

// From the inputs and weights of one slab to those of the next, in elements.
struct DenseStep {
  int64_t input, weight;
  int position;
};

// Phases with the same number of taps. Counts of one group stay below 2^31.
struct DenseClass {
  int first_phase, phases, taps;
  int columns, pitch;  // of its packed weights
  int slabs;
  uint32_t column_tiles;
  int64_t packed;  // its offset in the packed weights, in elements
  DenseStep next_tap, next_channels;
};

struct DenseParams {
  const void* x;
  const void* packed;
  const void* bias;  // null: none
  void* output;      // y, or the splits' sums
  Phases phases;
  Divisor stride;  // of interleaved rows
  int64_t rows;    // n * positions
  int64_t cout_group, cout, lout;
  int64_t x_step[3];
  int l, cin_group;
  int splits;
  bool rows_first;     // neighbouring blocks share weights; otherwise inputs
  int64_t split_size;  // output elements from one split's sums to the next
  uint32_t row_tiles, column_tiles;
  DenseClass classes[2];
};

struct DensePackParams {
  const void* weight;
  void* packed;
  DenseClass kind;
  int64_t tap_stride, cin, cin_group, cout_group, k;
};

struct DenseFillParams {  // y = bias, before skewed phases with gaps write theirs
  const void* bias;
  void* output;
  int64_t elements, lout, cout;
};

struct DenseFunctions {
  void (*tiles[4])(DenseParams);  // by index into the type's list of tiles
  void (*pack)(DensePackParams);
  void (*fill)(DenseFillParams);
};

// One source file a storage type.
DenseFunctions dense_f32();
DenseFunctions dense_f64();
DenseFunctions dense_f16();
DenseFunctions dense_bf16();

}  // namespace tconv::cuda
