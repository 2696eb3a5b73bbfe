// cuda.sm90.dense: the forward pass as an implicit matrix product by wgmma, on Hopper.
//
// In the polyphase form (cuda/device/phases.hpp) a row is (cout, phase), phase fastest; a column is a
// position u; the depth is channels x taps. Blocks are persistent, one an SM, and their warps have roles:
//
//   for each group, pair of row blocks, split, and, walking on, tile of columns:                 one block
//     for each slab of channels, group of taps:                                                  one x stage
//       7 warps load x, C + halo positions, round or split it, and write it to a ring of stages
//       1 warp brings the weights of each tap, by bulk copies, to a ring of slots (or, where all fit, once)
//       2 warpgroups, for each tap j:  sums[row][u] += packed[row][slab, j] * x[slab][u - j*step]   wgmma
//     the 2 warpgroups: y[n, cout, stride*u + a*dilation - padding] = sums[cout, a][u] + bias[cout]
//
// Or (Sm90Tile::direct) in a kernel of its own, raw stages of x come by tensor copies, and the warps that
// multiply read them straight into the other operand of wgmma, which may be registers, or make operands in
// shared memory: direct.cuh, direct_taps.cuh. Where x does not begin on 16 bytes, as tensor copies ask, the
// warps that have them made fill the same stages element by element: slower, with the same products in the
// same order, so that an address changes no bits.
//
// Both operands of wgmma lie in shared memory without swizzle, K-major: [16-byte channel block][row or
// position][channels of the block], 4 channels of float32, 8 of a 16-bit type. A tap's shift is then a whole
// number of 16-byte steps of the descriptor's address: any shift, dilation and alignment of x costs the same.
// x is rounded or split on its way, once per element and not once per tap, and no tap costs an instruction
// beyond its wgmma.
//
// Ways to feed wgmma that were built and measured on n64 ci128 co128 l65536 k3 in tf32 held in float16:
// direct 1.22 ms; loads through registers 2.11 (the warps wait for them); rows by bulk copies, of which other
// warps make operands, 1.51 (a copy takes its warp 60 to 90 cycles; nowhere faster than direct but by 4% on
// one of 11 problems, and up to 2.1 times slower, so that it is gone); 16-byte asynchronous copies by three
// warps instead 2.0 (seven times the instructions). In all of them a warp issues an instruction in 6 to 9
// cycles, so that their number decides: 21,000 for 128 x 128 outputs in the first form of direct, 12,500 in
// this one.
//
// A row block is 64 rows: block_couts = 64 / phases whole couts with all their phases, so that a warpgroup
// holds whole runs of outputs and writes them by itself. Packed weights are the slots in the order of the
// loops, whatever the tile:
//
//   packed[group][row block][slab][tap][part][channel block 0..3][row 0..63][16 bytes]
//
// then, for each row block, 8 bytes: whether any of its weights is not finite (one byte for each part that
// was packed apart). Rows and channels that do not exist are zero, and so are weights of taps that a phase
// does not have. Zero times infinity is NaN where there is no product at all, so where such zeros stand, or a
// weight is not finite (zeros stand around x), an output that became NaN is computed again by fused
// multiply-adds (repair.cuh). A NaN is all that such a product makes, so whatever came out as a number is
// right.
//
// float32 has two layouts, both packed: operands in tf32, and held in float16 with a scale for each cout
// (shape.cuh, Held and HeldSplit), in slabs of 32 channels and at twice the tensor cores' rate. A tile of x
// that float16 cannot hold is marked and computed by a second launch over the first layout.
//
// Modes: as in sm80/modes.cuh. ieee float32 is hi*hi + hi*lo + lo*hi, as the tensor core truncates where it
// accumulates with sums that are added in registers from time to time. In tf32 a tap's products go to fresh
// sums. In float16, where x goes direct, lo is kept 2^11 times larger, so that it has all its bits wherever
// hi is normal: hi*hi goes to fresh sums for 32 channels, the others to sums of their own. That is 22 bits of
// each operand either way. (n64 ci128 co128 l65536 k3: 5.24 ms in tf32, 2.64 in float16.)
//
// What binds: direct.cuh tells. Through registers, the warps that load wait for memory, and a tile's outputs
// are stored while nothing is multiplied.
//
// Splits and folded samples: as in sm80/dense.hpp, [split][row][column] in the workspace, summed in order.
#pragma once

#include "cuda/device/divisor.hpp"
#include "cuda/device/phases.hpp"
#include "cuda/device/weight_steps.hpp"
#include "cuda/sm80/dense.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Dense;

inline constexpr int kSm90Rows = 64;        // of a row block: wgmma's
inline constexpr int kSm90Blocks = 4;       // 16-byte channel blocks of a slab: two steps of wgmma's depth
inline constexpr int kSm90Consumers = 256;  // threads: two warpgroups that multiply
inline constexpr int kSm90Producers = 224;  // threads: seven warps that bring x; the last warp brings weights
inline constexpr int kSm90Gatherers = kSm90Producers / 32;
inline constexpr int kSm90Threads = 512;
inline constexpr int kSm90MarkedColumns = 256;  // of a second launch's tile behind a direct one
inline constexpr int kSm90PassBytes = 256;  // of columns that a warpgroup stages at once on their way to y
inline constexpr int kSm90RowBytes = 32;    // of the epilogue's table of rows
inline constexpr int kSm90Unit = 32;        // channels: splits cut between them
inline constexpr int kSm90MaxStages = 16;
// Where x goes direct: neighbouring positions of a lane, of which split operands have fewer, as they have
// three sets of sums; warpgroups that multiply beside the one whose warps copy: three where a thread needs
// few registers (n16 ci32 co64 l131072 k3 s2 d2 in tf32: 0.48 ms with two, 0.40 with three).
struct Sm90DirectTile {
  int own, warpgroups;
  int channels;  // of a raw stage: a slab or half of one
  constexpr int warp_positions() const { return 8 * own; }
  constexpr int half_tile() const { return 4 * warp_positions(); }  // positions of a warpgroup
};
constexpr Sm90DirectTile sm90_direct_tile(int row_blocks, int tap_group, int parts, int element) {
  return {parts == 2 ? 2 : 4, row_blocks == 1 && tap_group < 4 ? 3 : 2,
          tap_group > 0 && row_blocks == 1 && (parts == 2 || element == 2) ? 32 : 16};
}
inline constexpr int kSm90MaxTapGroup = 4;    // taps that share a lane's registers
inline constexpr int kSm90MaxSplitGroup = 3;  // of split operands
inline constexpr int kSm90MaxRowClasses = 8;  // of rows of x, by how far behind 16 bytes they begin
inline constexpr int kSm90ScaleBytes = 4 * (16 + kSm90MaxStages);     // what the loading warps agree on
inline constexpr int kSm90Marks = 8;                                  // bytes of a row block
inline constexpr int kSm90PackThreads = 256, kSm90PackCluster = 8;    // blocks of a cluster at most
inline constexpr int kSm90BlockBytes = kSm90Blocks * kSm90Rows * 16;  // of a tap's weights, a part

static_assert(kSm90Gatherers <= 8 &&
              kSm90Marks == 8);  // a byte each of a stage's marks, of a row block's parts

// What a tensor copy knows of x (cuda/host/tensor_map.hpp).
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

struct Sm90Params {
  const void* x;
  const void* packed;
  const void* bias;   // null: none
  void* output;       // y, or the partial sums
  int64_t x_step[2];  // sample, channel
  int64_t l, lout, cout;
  DeepTaps deep;  // of a strided product
  int samples, cin_group, cout_group, groups;
  int stride, dilation, padding;
  int phases, taps, step, tap_stride, k;
  int slabs, splits;
  int units, unit_slabs;     // splits are whole units of 32 channels, in every mode; slabs of a unit
  int block_couts;           // couts of a row block
  int row_blocks, row_runs;  // of a group; blocks of threads that share them
  int64_t row_block_bytes;   // packed
  int64_t marks_at;   // of packed: row blocks with weights that are not finite, or that the mode cannot hold
  int64_t scales_at;  // of packed, where operands are held in float16: 1/scale of each cout
  int* tile_marks;    // tiles that are to be computed again; null: none can be
  bool second;        // only marked tiles
  // Columns: column c of sample n is u = first_u + c, for c in [0, sample_columns).
  int64_t first_u;
  int sample_columns;  // apart from the next sample's: whole tiles, or folded a sample and its gap
  bool folded, partial;
  int column_tiles, walkers;
  Divisor sample_tiles;  // column tiles of one sample, where not folded
  Divisor sample_pitch;  // sample_columns, where folded
  int64_t partial_columns;
  // Rings.
  int tap_group, tap_groups;  // where x goes direct: taps that share registers; 0: by operands
  int halo;                   // positions of a stage before its columns
  int width, x_pitch;         // positions of a stage, and units from a channel block to the next
  int stages, slots;
  int raw_pitch, raw_bytes;  // of a raw stage: from row to row, and all
  bool resident;             // every tap of every slab has a slot
  // Epilogue: of a warpgroup's staged columns, elements from a cout's row to the next; vectors of a row.
  int row_pitch;
  int row_vectors, row_turn, row_rest;  // 128 vectors on: so many rows, and vectors
  Divisor vectors_div;
  bool skewed;  // phases lie more than a stride apart: rows have ragged ends
  bool ragged;  // some phases lack the last tap
  int span;     // elements of a staged row, where skewed
  Divisor span_div, stride_div;
  int stage_bytes;  // of x
  int shared_weights, shared_stage, shared_table, shared_small, shared_scale,
      shared_barriers;  // byte offsets; x at 0
  // Where x goes direct.
  TensorMap x_maps[kSm90MaxRowClasses];
  int row_classes;   // maps
  int sample_rows;   // where there are several: rows of x from a sample to the next
  int class_turn;    // elements that a channel's row begins later behind 16 bytes than the last one
  int region_bytes;  // of a raw stage, for each map
  bool by_elements;  // x does not begin on 16 bytes: no tensor copies, but the same stages
  int* counters;  // of half tiles that have been taken, for each group and pair of row blocks; null: by turns
  int straight;   // the stride, where outputs may go from registers to y; else 0 (direct_straight.cuh)
  bool shifted;   // windows are staged as they lie in y (direct_windows.cuh)
  int pass_rows, pass_couts;  // that the epilogue stages at once
  bool windows;               // a warpgroup stages its outputs together, else each warp its own
  int row_outputs;            // staged together, of a cout
  int staged_bytes;
  int window_bytes;    // windows of y begin on multiples of this
  int half_step;       // positions from a half tile to the next
  int half_rounds;     // half tiles, by as many as there are warpgroups that multiply
  Divisor half_tiles;  // of a sample
};

struct Sm90PackParams {
  const void* weight;
  void *packed, *held;  // of float32: both layouts, or held null
  unsigned char *marks, *held_marks;
  float* scales;
  WeightSteps steps;
  int cin_group, cout_group, k;
  int phases, taps, tap_stride, slabs, held_slabs, row_blocks, block_couts;
  int channel_blocks;     // of 8, as many as the slabs have
  int parts, part_couts;  // of a row block: packed apart, by `cluster` blocks of threads each
  int cluster;
};

// A block's tile: row blocks side by side, and columns; each warpgroup has one row block and n columns.
struct Sm90Tile {
  const char* name;
  int row_blocks, n;
  bool direct;  // x goes from raw stages to registers (direct.cuh)
  constexpr int columns() const { return n * 2 / row_blocks; }
};

struct Sm90Functions {
  void (*tiles[5])(Sm90Params);                         // null where the mode has none
  void (*direct[2][kSm90MaxTapGroup + 1])(Sm90Params);  // of one row block or two, by tap_group
  void (*pack)(Sm90PackParams);                         // null where operands are held in float16: with tf32
};

// One source file a mode.
Sm90Functions sm90_tf32();
Sm90Functions sm90_held();
Sm90Functions sm90_split();
Sm90Functions sm90_ieee();
Sm90Functions sm90_f16();
Sm90Functions sm90_bf16();

}  // namespace tconv::cuda
