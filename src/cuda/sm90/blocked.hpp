// cuda.sm90.blocked: transposed and strided products of many channels. x becomes channel blocks, in the form
// in which wgmma reads its operands. The main kernel can make them in shared memory, from raw rows that
// tensor copies bring (turned_stages.cuh). Otherwise a pass writes them; the main kernel then loads them by
// bulk copies, and none of its warps converts anything:
//
//   blocks[group][channel block][row][unit]
//     unit: 16 bytes, which are 4 channels of tf32 or 8 of a 16-bit type, at one position; of float32 held in
//           float16 (`scaled`, blocked_scale.cuh) 8 channels, of ieee two such arrays of all blocks
//     row:  the columns of one sample or, where samples are folded, of all samples
//
// A strided product is computed in its transposed form (cuda/host/transposed_form.hpp); its phases are
// channels of the blocks, so that no planes are made first. Where a row has no x, its units are zero as far
// as the taps of an output reach; what lies beyond belongs to columns that are no outputs.
//
// If the stride does not divide k, some phases lack the first tap. Slabs may then have one phase each
// (`phased`, phased_form()), and those that lack the tap have neither weights nor products for it: of k9 s4,
// 9 products remain of 12, and n4 ci1024 co512 l12975 takes 0.81 of the time (H100, tf32 and bf16).
//
// The loop nest, operands, products and writers are those of the gathered way of cuda.sm90.dense (dense.hpp):
// a tap is a shift of 16-byte units within a stage, so a slab of x is copied once for all its taps. From two
// taps on the tensor cores bind; with a single tap they would need 48 bytes a cycle, and L2 delivers 32 to an
// SM, or some more if others read the same (docs/design/hopper.md).
#pragma once

#include "cuda/device/weight_steps.hpp"
#include "cuda/sm90/params.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90Blocked;

// For the main kernel with this many columns for each warpgroup, and parts of an operand: blocks that share
// an SM, and threads of a block. Two warpgroups multiply.
constexpr int sm90_blocks_of_sm(int columns, int parts = 1) {
  return columns <= 128 && parts == 1 ? 2 : 1;
}
constexpr int sm90_blocked_threads(int columns, int parts = 1) {
  return sm90_blocks_of_sm(columns, parts) == 2 ? 320 : 384;
}
// Of two blocks that share an SM, one already multiplies while the other stores. With passes of 512 bytes of
// float32 the SM would have room for only one of them: n52 ci64 co256 l2019 k76 s4 in tf32 takes 576 us with
// 256 bytes, and 847 with 512.
constexpr Sm90Storing sm90_blocked_storing(int columns, int parts = 1) {
  return sm90_blocks_of_sm(columns, parts) == 2 ? Sm90Storing{256, false, 64} : Sm90Storing{512, true, 128};
}
inline constexpr int kSm90BlockingThreads = 256;
// Positions that a thread has in a turn of the pass; with four, 16-bit passes take 1.2 times as long (H200).
inline constexpr int kSm90BlockingPositions = 2;

// The pass. Unit e of a row is column c = e - front, position v = first_u + c. For channel (channel, phase)
// it holds from[stride*v + phase*dilation - padding], if v is in [0, l) and that is in [0, length).
struct Sm90BlockingParams {
  const void* from;
  void* to;
  int64_t from_step[3];      // sample, channel, position
  int64_t channels, length;  // of a group; of a row of from
  int64_t stride, dilation, padding, l, first_u;
  int64_t pitch, block_units;  // units of a row; of a channel block
  int64_t rows;                // of all channel blocks
  int32_t phases, samples, row_samples, blocks, front;
  bool phase_slabs;        // slabs have one phase each (UnitOrder)
  int32_t sample_columns;  // where a row has several samples
  int32_t lanes, tiles;    // threads of a row, a power of two; blocks of threads of its units
  int32_t turns;           // of a thread
  LaunchOrder order;
};

// float32 held in float16 (blocked_scale.cuh): what is known of x. It has a scale for each group and sample,
// or for each group where samples are folded.
inline constexpr int kSm90TinyUnits = 64;  // of a row, whose tiny numbers are counted together
struct Sm90BlockedSeen {
  uint32_t *most, *below;  // [scale][share]: the extent of a share of its elements
  int32_t* exponents;      // [scale]: of the power of two that was divided out
  uint32_t* tiny;          // [scale][piece]: of the rows of its channel blocks
  // [scale]: the largest magnitude that an exponent from a sample is too small for; whether the tails of tiny
  // numbers are multiplied too; how many numbers are too small even for these. And whether any scale is wide,
  // or has numbers beyond its exponent.
  uint32_t *beyond, *wide, *lost, *any;
  int32_t shares, pieces;
  int32_t every;  // the look is at one of so many parts of x, a power of two
};
struct Sm90BlockedLookParams {
  const void* from;
  int64_t from_step[3];
  int64_t channels, length, samples;  // of a scale; samples: 1, or all that are folded
  int64_t row_samples, zeros;         // scales of a group; words from seen.tiny on that begin at zero
  Sm90BlockedSeen seen;
  LaunchOrder order;
};
// How a scale's elements lie: in any steps; a sample's together; also in whole vectors.
enum class Sm90LookWay { any, together, vectors };
struct Sm90ScaledBlockingParams : Sm90BlockingParams {
  Sm90BlockedSeen seen;
  int64_t part_units;  // from a part to the next; parts of tails come after those of x
};

// The operands as the caller has them, for sums that float16 cannot hold (blocked_repair.cuh).
struct Sm90RawOperands {
  const void *x, *weight;
  int64_t x_step[3];  // sample, channel, position
  int64_t channels;   // of a group
  WeightSteps weights;
};
struct Sm90ScaledParams : Sm90GatherParams {
  Sm90BlockedSeen seen;
  int64_t part_units;
  int64_t row_samples, pitch;  // scales of a group; units of a row
  int front, reach;            // units of a row before column 0; that the taps of a column reach back
  Sm90RawOperands raw;
};

inline constexpr int kSm90TurnedPiece = 32;  // positions that a warp turns at once

// Tensor copies bring raw rows of x, and warps turn them into channel blocks in shared memory, as units of 8
// channels: of 16 bytes in 16-bit types, of twice 16 bytes in tf32, whose maps round. The product's column v
// at phase a reads position stride*v + a - padding of x.
struct Sm90RawSource {
  struct Maps {
    TensorMap box, share;  // for copies of a box, and of all boxes of a share
  };
  Maps maps[kSm90MaxRowClasses];
  int32_t late[kSm90MaxRowClasses];  // elements by which rows of a class begin behind 16 bytes
  int log_classes;                   // 1 << this many, with maps of their own
  int stride, phases, padding;
  Divisor stride_div;
  int blocks, chunk_units;  // blocks of 8 channels in a chunk; its units, a phase of a block each
  int unit_pitch;           // of a stage: from a unit to the next, in 16 bytes
  // A warp turns a piece of 8 channels x 32 positions at once. From a piece to the next, and from the last
  // one of a box to where the next box begins: columns, and phases beyond them. From a box to the next:
  // columns, or 0 if phases differ.
  int columns, phases_over, box_columns;
  // Boxes of a channel block; a box's pieces, positions, and those of a copy: for ldmatrix an odd number of
  // 8, so that rows lie in other banks each; bytes of its 8 channels.
  int boxes, pieces, step, box, box_bytes;
  // Boxes that are copied and turned at once: all of a channel block, if a chunk has several. How many of
  // these shares a chunk has.
  int share, items;
  int inner;  // the last element of a row at which the copy of a share may begin; below 0: none may
  int places, place_bytes;  // of the ring: one for a share
  int front;  // columns of a turned unit before its first: a copy begins up to 7 positions before (tf32: 3)
  int shared, barriers, nowhere;  // where the ring is; its barriers, full, then empty ones; what nobody reads
};
struct Sm90TurnedParams : Sm90GatherParams {
  Sm90RawSource raw;
};
// Warps of a block that turn.
constexpr int sm90_turners(int columns) {
  return sm90_blocks_of_sm(columns) == 2 ? 1 : 3;
}

struct Sm90BlockedFunctions {
  void (*tiles[2][kSm90GatherTiles])(Sm90GatherParams);  // [1]: rows of y are stored line by line
  void (*blocking[4])(Sm90BlockingParams);  // of 1, 2, 4 or 8 words at once; null where a unit has fewer
};

// One source file for each mode.
Sm90BlockedFunctions sm90_blocked_tf32();
Sm90BlockedFunctions sm90_blocked_f16();
Sm90BlockedFunctions sm90_blocked_bf16();

struct Sm90ScaledFunctions {
  void (*tiles[2][kSm90GatherTiles])(Sm90ScaledParams);  // null if the mode does not have it
  void (*blocking[4])(Sm90ScaledBlockingParams);
  void (*again[4])(Sm90ScaledBlockingParams);
  void (*look[3])(Sm90BlockedLookParams);  // by Sm90LookWay
};
Sm90ScaledFunctions sm90_blocked_scaled();  // tf32
Sm90ScaledFunctions sm90_blocked_split();   // ieee

struct Sm90TurnedFunctions {
  void (*tiles[2][kSm90GatherTiles])(Sm90TurnedParams);
};
Sm90TurnedFunctions sm90_turned_tf32();
Sm90TurnedFunctions sm90_turned_f16();
Sm90TurnedFunctions sm90_turned_bf16();

}  // namespace tconv::cuda
