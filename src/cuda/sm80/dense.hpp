// cuda.sm80.dense: transposed products as an implicit matrix product on tensor cores, by mma.sync.
//
// In the polyphase form (cuda/device/phases.hpp) a row is (cout, phase), a column is a position u, and the
// depth is channels x taps:
//
//   for each group, tile of rows, and, walking on, tile of columns (n, u0..u0+C):             one block
//     for each slab of channels, group of taps:           one x stage: C + halo positions, loaded once
//       for each tap j of the group:                      one weight block: 2 steps of the mma's depth
//         acc[row][u] += packed[row][slab, j] * x[slab][u - j*step]      a warp: MI x NI tiles of 16 x 8
//     y[n, cout, stride*u + a*dilation - padding] = acc[cout, a][u] + bias[cout]
//
// x in shared memory is [16-byte channel block][position][channels of the block]: 4 channels of float32, 8 of
// a 16-bit type, 2 of float64. A tap's shift is then a whole number of 16-byte steps, so any shift, dilation
// and alignment of x costs the same, and ldmatrix reads the mma's B fragments without a bank conflict. x
// passes through registers on its way (plain coalesced loads of single elements along a row, so rows may
// begin anywhere): there it is rounded or split, once per element and not once per tap.
//
// Packed weights, in units of 16 bytes, are the mma's A fragments in the order of the loops, whatever the
// tile:
//
//   packed[group][row tile of 16][slab][tap][step 0..1][part][lane]        parts: 1; 2 where float32 is split
//
// and, if float32 is split, one byte for each row tile: whether one of its weights needs more (exact.cuh).
// A row tile of 16 holds 16 neighbouring cout of ONE phase, phases fastest: row tile t is phase t % phases of
// cout 16*(t/phases)... So every row tile has a whole number of taps, and nothing is multiplied by a zero
// that stands for no tap (an Inf of x would make it NaN). A lane's unit holds, for rows q = lane/4 and q+8
// and t = lane%4 (the PTX manual's A fragment):
//   float32    (q, t) (q+8, t) (q, t+4) (q+8, t+4)                                   depth 8 a step
//   16-bit     (q, 2t..2t+1) (q+8, 2t..2t+1) (q, 2t+8..2t+9) (q+8, 2t+8..2t+9)       depth 16 a step
//   float64    (q, t) (q+8, t)                                                       depth 4 a step
//
// Modes. tf32: both operands are rounded to nearest, ties away from zero, as by cvt.rna; what would round to
// infinity keeps its upper bits. f16, bf16: exact products. f64: DMMA. ieee float32: x = hi + lo and w = hi +
// lo, each part in tf32; a step's lo*hi, hi*lo and hi*hi go to a fresh accumulator, which is added to the
// float32 sum in registers, because the tensor core truncates when it accumulates. An operand that is Inf or
// NaN is entirely in lo (hi = 0), so that Inf*w stays Inf and does not meet a lo of the other sign.
//
// Positions outside x are zeros in shared memory. In a tile that reaches there, outputs that became NaN (an
// infinite weight times such a zero, which is no product) are recomputed from what exists (exact.cuh).
//
// If there are few tiles, the slabs are split over blocks: sums go to the workspace, laid out [split][row]
// [column], and a second kernel adds them in order. Short samples share a tile of columns ("folded": one
// after another, with a halo of zeros between them) and go the same way. Neither uses atomics, and the order
// of an output's sum depends only on the split.
//
// Shared memory: x stages (2), weight blocks (a ring, or all of them if they fit), and one pass of the tile
// on its way to y. With many channels the tensor pipe binds, with few DRAM.
#pragma once

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/divisor.hpp"
#include "cuda/device/ordered_sum.hpp"
#include "cuda/device/phases.hpp"
#include "cuda/device/weight_steps.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSm80Dense;

inline constexpr int kSm80Blocks = 4;         // 16-byte channel blocks of a slab
inline constexpr int kSm80Steps = 2;          // steps of the mma's depth in a slab
inline constexpr int kSm80UnitBytes = 16;     // of x and of packed weights
inline constexpr int kSm80RowTileUnits = 32;  // a warp's lanes, for one step and part

struct Sm80Params {
  const void* x;
  const void* packed;
  const void* bias;   // null: none
  void* output;       // y, or the partial sums
  int64_t x_step[2];  // sample, channel
  int64_t l, lout, cout;
  DeepTaps deep;  // of a strided product
  int samples, cin_group, cout_group, groups;
  int stride, dilation, padding;
  int phases, taps, step;
  int last_phases;  // phases that have the last tap
  int slabs, splits;
  int row_tiles;           // of 16 rows, in a group
  int64_t row_tile_bytes;  // packed
  int row_blocks;          // tiles of a block's rows, in a group
  // Columns: column c of sample n is u = first_u + c, for c in [0, sample_columns).
  int64_t first_u;
  int sample_columns;  // columns from one sample to the next: whole tiles or, if folded, a sample and its gap
  bool folded, partial;
  int column_tiles, walkers;
  Divisor sample_tiles;  // column tiles of one sample, if not folded
  Divisor sample_pitch;  // sample_columns, if folded
  Divisor stride_div;
  int64_t partial_columns;  // of a row of the workspace
  // Stages.
  int tap_group, tap_groups;
  int width, x_pitch;    // positions of a stage, and units from a channel block to the next
  int halo, halo_shift;  // positions before the columns, at most 1 << halo_shift
  bool resident;         // every weight block has a slot
  // Epilogue: columns staged at once, elements from a staged row to the next; 1 << row_shift vectors of a
  // staged row (at stride 1), row_chunks times 32 outputs.
  int pass_columns, stage_pitch, row_shift, row_chunks;
  Divisor row_chunks_div;
  int shared_weights, shared_stage, shared_bias, shared_table;  // byte offsets in shared memory; x at 0
};

struct Sm80PackParams {
  const void* weight;
  void* packed;
  unsigned char* marks;  // for each row tile, zero beforehand; only if float32 is split
  int64_t units;         // without the parts
  WeightSteps steps;
  int cin_group, cout_group, k;
  int phases, taps, tap_stride, slabs, row_tiles;
};

struct Sm80Functions {
  void (*tiles[3])(Sm80Params);  // null if the mode does not have the tile
  void (*pack)(Sm80PackParams);
};

// One source file for each mode.
Sm80Functions sm80_tf32();
Sm80Functions sm80_ieee();
Sm80Functions sm80_f16();
Sm80Functions sm80_bf16();
Sm80Functions sm80_f64();

}  // namespace tconv::cuda
