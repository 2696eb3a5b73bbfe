// Numbers of cuda.sm90.dense's stages, and what a launch tells each of them: one struct a stage, of which the
// kernel takes an aggregate (Sm90GatherParams, Sm90TmaParams). Sizes in dense.hpp's terms.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "cuda/device/launch_order.hpp"
#include "cuda/device/weight_steps.hpp"

namespace tconv::cuda {

inline constexpr int kSm90Rows = 64;       // of a row block: wgmma's
inline constexpr int kSm90Blocks = 4;      // 16-byte channel blocks of a slab: two steps of wgmma's depth
inline constexpr int kSm90Unit = 32;       // channels: splits cut between them
inline constexpr int kSm90MaxStages = 16;  // of a ring of x
inline constexpr int kSm90RowMarks = 64;   // bytes of a packed row block that say what its weights hold
inline constexpr int kSm90PartBytes =
    kSm90Blocks * kSm90Rows * 16;  // of a tap's packed weights of a row block

// If x is gathered: threads that multiply, in two warpgroups; threads that load x, in seven warps, beside the
// one that loads weights.
inline constexpr int kSm90Consumers = 256, kSm90Producers = 224, kSm90Threads = 512;
inline constexpr int kSm90Gatherers = kSm90Producers / 32;
// How kernels store, if x is gathered. pass_bytes: of columns that a warpgroup stages at once on their way to
// y. Bulk copies take less time if rows are few and long: two passes of 256 bytes, each in a place of its
// own, take 1.06 times as long as one of 512 on 80 bf16 problems, each in its best tile, 1.4 times at most,
// and 1.04 times on 80 in tf32 (H200). turns: whether the two warpgroups may multiply by turns.
// line_bytes: of a row of y, that LineWriter stores at once; fewer where registers are scarce (with 128 where
// two blocks share an SM, tiles of 128 columns took 1.0 to 1.5 times as long).
struct Sm90Storing {
  int pass_bytes;
  bool turns;
  int line_bytes;
};
// cuda.sm90.dense, with operands in this many parts. Stages of two parts are large, and the warps that load x
// need as many of them as there is room for: n31 ci570 co1536 l352 k24 s7 g2 in ieee takes 1.64 ms with 256
// bytes, and 1.89 with 512 and turns, whose code also makes registers spill.
constexpr Sm90Storing sm90_dense_storing(int parts) {
  return parts == 2 ? Sm90Storing{256, false, 64} : Sm90Storing{512, true, 128};
}
// From a staged row to the next: room for what a row that begins late in a sector leaves over; and an odd
// multiple of 4 banks, so that 8 rows' words lie apart.
constexpr int sm90_line_pitch(int line_bytes) {
  return line_bytes + 48;
}
inline constexpr int kSm90LineRows = 128;                          // which two warpgroups stage
inline constexpr int kSm90RowBytes = 16;                           // of the writers' table of rows
inline constexpr int kSm90ScaleBytes = 4 * (16 + kSm90MaxStages);  // what the gathering warps agree on
static_assert(kSm90Gatherers <= 8);                                // a byte each of a stage's marks
// Such a mark: some operand is too large for float16, or so many are too small.
inline constexpr uint32_t kSm90Beyond = 255;

// If x comes by tensor copies.
inline constexpr int kSm90AgreedBytes = 4 * (4 + 2);  // what the warps of a warpgroup agree on
inline constexpr int kSm90MarkedColumns = 256;        // of the tiles that it marks for the second launch
inline constexpr int kSm90MaxTapGroup = 4;            // taps that share a lane's registers
inline constexpr int kSm90MaxSplitGroup = 3;          // of split operands
inline constexpr int kSm90MaxRowClasses = 8;          // of rows of x, by how far behind 16 bytes they begin

// A block's tile: row blocks side by side, and columns. If x is gathered, each of two warpgroups has one row
// block and n columns.
struct Sm90Tile {
  const char* name;
  int row_blocks, n;
  bool tma;  // x comes by tensor copies
  constexpr int columns() const { return n * 2 / row_blocks; }
};

inline constexpr Sm90Tile kSm90Tiles[] = {{"128x256", 2, 256, false}, {"64x512", 1, 256, false},
                                          {"128x128", 2, 128, false}, {"64x256", 1, 128, false},
                                          {"64x128", 1, 64, false},   {"128x256", 2, 256, true},
                                          {"64x256", 1, 128, true}};
inline constexpr int kSm90GatherTiles = 5;  // the first ones
inline constexpr int kSm90SmallestTile = 4;

// The positions that one warpgroup computes at once, for all row blocks of its block, if x comes by tensor
// copies. A lane has few of them if it has three sets of sums; three warpgroups multiply if a thread needs
// few registers (n16 ci32 co64 l131072 k3 s2 d2 in tf32: 0.48 ms with two, 0.40 with three).
struct Sm90WarpgroupTile {
  int own;         // positions of a lane
  int warpgroups;  // of a block, that multiply
  int channels;    // of a stage: a slab or half of one
  constexpr int warp_positions() const { return 8 * own; }
  constexpr int positions() const { return 4 * warp_positions(); }
};
constexpr Sm90WarpgroupTile sm90_warpgroup_tile(int row_blocks, int tap_group, int parts, int element) {
  return {parts == 2 ? 2 : 4, row_blocks == 1 && tap_group < 4 ? 3 : 2,
          tap_group > 0 && row_blocks == 1 && (parts == 2 || element == 2) ? 32 : 16};
}

struct Sm90Operands {
  const void* x;
  const void* packed;
  const void* bias;  // null: none
  void* output;      // y, or the partial sums
};

// The problem in its polyphase form (cuda/device/phases.hpp).
struct Sm90Sizes {
  int64_t x_step[2];  // sample, channel
  int64_t l, lout, cout;
  DeepTaps deep;  // of a strided product
  int samples, cin_group, cout_group, groups;
  int stride, dilation, padding;
  int phases, taps, step, tap_stride, k;
  int block_couts, row_blocks;  // couts of a row block; row blocks of a group
  int cout_blocks;              // row blocks of a cout, if it has more than 64 phases; else 1
  bool skewed;                  // phases lie more than a stride apart: rows have ragged ends
  bool ragged;                  // some phases lack the last tap
  Divisor stride_div;
};

// Column c of sample n is u = first_u + c, for c in [0, sample_columns).
struct Sm90Columns {
  int64_t first_u;
  int sample_columns;  // columns from one sample to the next: whole tiles or, if folded, a sample and its gap
  bool folded;
  bool close;  // samples begin at any column, not only at multiples of 8
  int column_tiles;
  Divisor sample_tiles;  // column tiles of one sample, if not folded
  Divisor sample_pitch;  // sample_columns, if folded
  int64_t partial_columns;
};

// How the work is divided among blocks: row blocks, columns, slabs.
struct Sm90Grid {
  int slabs, splits;
  int units, unit_slabs;  // splits are whole units of 32 channels in every mode; slabs of a unit
  int row_runs;           // blocks that share a group's row blocks
  int walkers;            // blocks that share columns
  bool turns;             // if x is gathered: two warpgroups multiply by turns, one while the other stores
};

// Tiles that the first launch could not compute in float16: two ints each, one for each of two warpgroups.
struct Sm90TileMarks {
  int* tiles;  // null: none can be
  bool only;   // the second launch: only marked tiles
  // Of the absolute value of a sum, before scales are undone, for each operand of its tile that lies below
  // float16's normal range: if it is less, the sum may be wrong (fp16_scale.cuh).
  float least_sum;
};

// Packed weights, and their ring in shared memory.
struct Sm90Weights {
  int64_t row_block_bytes;
  int64_t marks_at;   // row blocks with weights that are not finite, or that the mode cannot hold
  int64_t scales_at;  // where operands are scaled: 1/scale of each cout
  int slots;          // of the ring: a tap's weights of a slab if x is gathered, otherwise a slab's
  bool resident;      // everything has a slot, and stays
  int shared;         // where the ring is, in bytes
};

// GatherSource: stages of operands, made from single elements of x.
struct Sm90GatherSource {
  int tap_group, tap_groups;  // taps that share a stage
  int halo;                   // positions of a stage before its columns
  int width, pitch;           // positions of a stage, and units from a channel block to the next,
  int step_pitch;             // and from two blocks, a step of wgmma's depth, to the next two
  int stages, stage_bytes;
  int shared_marks, shared_scale;  // what its warps report of each stage
  // Slabs belong to this many phases in turn. The first `whole` phases have the first tap; if others lack it,
  // there is one group of taps.
  int phases = 1, whole = 1;
  Divisor phases_div;
};

// What a tensor copy needs to know of x (cuda/host/tensor_map.hpp).
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

// TmaSource: stages of raw rows, [channel][position], one ring for each warpgroup.
struct Sm90TmaSource {
  TensorMap maps[kSm90MaxRowClasses];
  int row_classes;          // maps
  int sample_rows;          // where there are several: rows of x from a sample to the next
  int class_turn;           // how many elements later than the last one a channel's row begins after 16 bytes
  int region_bytes;         // of a stage, for each map
  bool by_elements;         // x does not begin on 16 bytes: no tensor copies, but the same stages
  int tap_group;            // taps whose operands share a lane's registers; 0: operands in shared memory
  int halo;                 // positions of a stage before the tile's
  int width, pitch;         // positions of a row; bytes from row to row
  int stages, stage_bytes;  // of a warpgroup's ring
  int shared_tiles;         // which tile each stage is of
};

// The tiles of warpgroups along the columns.
struct Sm90WarpgroupTiles {
  int step;            // positions from a tile to the next
  int rounds;          // tiles, divided by the number of warpgroups that multiply
  Divisor per_sample;  // tiles
  int* counters;       // tiles drawn so far, for each group and run of row blocks; null: they go by turns
};

// If x is gathered. PassWriter: of a warpgroup's staged columns, elements from a cout's row to the next;
// vectors of a row.
struct Sm90PassWriter {
  bool partial;    // sums go to the workspace
  int columns;     // of a pass
  bool lines;      // not in passes: rows of stride 1, line by line (LineWriter)
  int line_bytes;  // of a row, that it stores at once
  int row_pitch;
  int row_vectors, row_turn, row_rest;  // 128 vectors further: this many rows, and vectors
  Divisor vectors_div;
  bool bulk;   // rows of a pass are long enough for bulk copies
  int second;  // elements from one of two places in which passes are staged by turns to the other; 0: one
               // place
  int span;    // elements of a staged row, where skewed
  Divisor span_div;
  // If samples are folded: outputs of a window of a row, in which all outputs of a pass lie; threads that
  // store neighbours, a power of two.
  int window, log_lanes;
  // If phases are skewed, some outputs after a pass's vectors have only some of their phases in this pass.
  // The next pass has the others, and begins with these outputs.
  int carried;
  bool by_elements;         // skewed so far that passes would have hardly any vectors
  int shared, shared_rows;  // staged outputs; the table of rows
};

// RegisterWriter, WindowWriter, StagedWriter: which of them, and how they stage.
struct Sm90TileWriter {
  int straight;                // the stride, if outputs may go from registers to y; else 0
  bool shifted;                // windows are staged as they lie in y
  bool windows;                // a warpgroup stages its outputs together; otherwise each warp its own
  int pass_rows, pass_couts;   // staged at once
  int row_outputs, row_pitch;  // staged together, of a cout; elements from a cout's row to the next
  int row_vectors;             // of a window
  int staged_bytes;
  int window_bytes;         // windows of y begin on multiples of this
  int shared, shared_rows;  // staged outputs; the table of rows
};

// What the stages of either way of x are told.
struct Sm90CommonParams {
  Sm90Operands operands;
  Sm90Sizes sizes;
  Sm90Columns columns;
  Sm90Grid grid;
  Sm90TileMarks marks;
  Sm90Weights weights;
  LaunchOrder order;  // beside the launch that packs the weights: what brings x does not wait for it
};

struct Sm90GatherParams : Sm90CommonParams {
  Sm90GatherSource source;
  Sm90PassWriter writer;
  int barriers;  // byte offset in shared memory
};

struct Sm90TmaParams : Sm90CommonParams {
  Sm90TmaSource source;
  Sm90WarpgroupTiles tiles;
  Sm90TileWriter writer;
  int barriers;
};

inline constexpr int kSm90PackThreads = 256;  // of a block, at most
inline constexpr int kSm90PackBuffers = 3;    // stages of raw weights: two are under way

// Raw weights of a strided product on their way through shared memory (pack_stage.cuh).
struct Sm90PackStage {
  bool direct;  // no stages: 8 channels of one cout with all their taps do not fit
  int granule;  // channels of the caller's weights that make whole blocks of 8 channels of the product
  int couts, channels;   // of a stage; whole granules
  int blocks;            // of 8 channels of the product, in a stage
  int pitch, bytes;      // from line to line, which are couts; of a stage
  int log_line_threads;  // threads that copy one line
  int log_warp_rows;     // that a warp stores at once: 8, or fewer where a stage has fewer
};

// Weights of a transposed product on their way through registers (pack_stream.cuh). Of a row block's
// (cout, tap, phase): those of a part, and those that the threads of a block take at once.
struct Sm90PackStream {
  int tile, items;
};

// What a look at float32 weights found of a cout in a share of its channels (look.cuh).
inline constexpr uint32_t kSm90NotFinite = 0x80000000u;
struct Sm90Looked {
  uint32_t most;   // bits of the largest finite magnitude; with the highest bit if some weight is not finite
  uint32_t least;  // of the least that is not zero, less 1
};
inline constexpr int kSm90Shares = 64;  // of a cout's channels, at most

struct Sm90LookParams {
  const void* weight;
  Sm90Looked* looked;  // [group][cout][share]
  WeightSteps steps;
  int channels, cout_group;  // of a group
  int shares, share_channels;
  int tile_couts, tiles;  // couts of a block; blocks of a group's couts
  bool by_channel;        // lines are channels': of all couts; otherwise couts': of all channels
};

struct Sm90PackParams {
  const void* weight;
  int64_t weights;        // elements of `weight`
  void *packed, *scaled;  // for float32 both layouts, or one of them is null
  unsigned char *marks, *scaled_marks;
  float* scales;
  const Sm90Looked* looked;  // for the scaled layout
  int shares;
  WeightSteps steps;
  Sm90PackStage stage;    // of a strided product
  Sm90PackStream stream;  // of a transposed one
  int channels;           // of the caller's weights, of a group: the product's are (channel, phase)
  int cin_group, cout_group, k;
  int phases, taps, tap_stride, slabs, scaled_slabs, row_blocks, block_couts, cout_blocks;
  int channel_blocks;     // of 8, as many as the slabs have
  int granules;           // which hold them
  int parts, part_couts;  // of a row block: packed apart, by `ranks` blocks of threads each
  int ranks;              // which share the channels
  Divisor shares_div, ranks_div, parts_div, row_blocks_div, phases_div, taps_div;
  bool others_beside;  // the launch after may run beside this one
  const int* only_if;  // of `marks_count` marks of tiles one is set: else nothing is packed; null: always
  int marks_count;
};

}  // namespace tconv::cuda
