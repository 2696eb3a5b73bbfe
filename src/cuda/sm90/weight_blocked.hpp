// cuda.sm90.weight_blocked: the weight gradient for many channels. A pass writes x and dy in the form in
// which wgmma reads its operands; the main kernel loads both by tensor copies, so that none of its warps
// converts or shifts anything:
//
//   dw[ci,co,k] = sum over n, i of x[n,ci,i] * dy[n,co,o],  o = stride*i + dilation*k - padding
//
// With k = a + (v + j*x_planes)*tap_stride and u = i + (v + j*x_planes)*step, dy's phase a and x's shift v
// are planes, and what is left of the tap is a shift of x by whole positions:
//
//   dy plane (co, a)[u] = dy[co, stride*u + a*dilation - padding],  a in [0, y_planes)
//   x plane (ci, v)[u]  = x[ci, u - v*step],                        v in [0, x_planes)
//   dw[ci,co,k] = sum over n, u of x plane (ci, v)[u - j*shift] * dy plane (co, a)[u],  shift = x_planes*step
//
//   for chunk of positions: the pass, then
//   for tile of x planes and shifts j (rows) x dy planes (columns), split:     a block of threads
//     one thread, for stage of positions of the split:  both operands by tensor copies
//     2 warpgroups, for 16 positions (tf32: 8):  sums += x planes shifted by j * dy planes        wgmma
//     at most kSm90WeightChain wgmma on a sum, then it is added to the split's own part
//   a second kernel adds the parts of all splits in order
//
// Rows, columns and tiles are in the order of weight_columns.hpp.
//
// The positions of all samples lie on one axis, `pitch` of them for each sample; x and dy are zero where they
// have no element, and `pitch` is such that a shift never meets another sample's elements. With more planes
// there are fewer shifts, but more bytes to write. Layouts (workspace):
//
//   16-bit types: [part][group][8 planes][position][plane], any shift is a step of 16 bytes
//   tf32:         [group][plane][position], where shifts must be multiples of 4
//
// ieee float32 has three parts of bfloat16, which hold all 24 bits: v = high + middle/2^8 + low/2^16. The six
// products of parts whose ranks (0, 1, 2) add up to at most two are off by 2^-24 of |x*dy|. Those of the
// lowest rank come first and are divided by 2^8 before the next ones are added, so that only the high ones
// meet large sums, which the tensor cores truncate. The sums of a stage are added to a total in float32.
//
// `scaled`: float32 in float16 (weight_blocked_scale.cuh), tf32 in one part, at twice the rate, and ieee in
// two, v = high + low/2^11, with three products. A launch before the pass finds the largest finite number of
// each channel of x and of dy, whose power of two the pass and the last sums take. Numbers below float16's
// range are counted, and a sum to which what they lose could matter is recomputed, as those below are.
//
// A zero that stands for no element makes NaN of an infinite one; such sums are recomputed from the products
// that exist (for ieee float32 also if they are infinite, since rounding a part may overflow).
#pragma once

#include "cuda/device/arithmetic.hpp"
#include "cuda/device/divisor.hpp"
#include "cuda/device/weight_steps.hpp"
#include "cuda/sm80/weight.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/weight_columns.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSm90WeightBlocked;

// Two warpgroups multiply; a thread of the third copies.
inline constexpr int kSm90WeightBlockedThreads = 384;
inline constexpr int kSm90WeightBlockedMaxSlots = 8;
inline constexpr int kSm90WeightBlockedBarriers = 1024;  // bytes before the slots
inline constexpr int kSm90WeightPassThreads = 256;
inline constexpr int kSm90WeightSumThreads = 256;
inline constexpr int kSm90WeightTogether = 4;  // words of a load of neighbouring phases

// Row blocks of 64 of a warpgroup, and columns.
struct Sm90WeightBlockedShape {
  int row_blocks, columns;
  constexpr int rows() const { return 128 * row_blocks; }
};
inline constexpr int kSm90WeightBlockedShapes =
    5;  // of this kernel; cuda.sm90.weight_turned has some, and more
inline constexpr Sm90WeightBlockedShape kSm90WeightBlockedShapeTable[] = {
    {1, 256}, {1, 192}, {2, 128}, {1, 128}, {1, 64}, {3, 128}, {3, 64}, {2, 64}};

// How a mode's operands lie in a slot.
struct Sm90WeightBlockedLayout {
  int positions;    // of a stage
  int parts;        // of an operand
  int products;     // of parts that one product takes
  int unit_planes;  // of the sixteen bytes that lie together
  int unit_positions;
  constexpr int row_bytes() const { return positions * parts * 16 / (unit_planes * unit_positions); }
};
constexpr Sm90WeightBlockedLayout weight_blocked_layout(Arithmetic mode, bool scaled = false) {
  if (scaled && mode == Arithmetic::ieee) return {64, 2, 3, 8, 1};
  if (scaled) return {64, 1, 1, 8, 1};
  if (mode == Arithmetic::tf32) return {32, 1, 1, 1, 4};
  if (mode == Arithmetic::ieee) return {32, 3, 6, 8, 1};
  return {64, 1, 1, 8, 1};
}

// Sums for ieee take twice the registers.
constexpr bool weight_blocked_has(Arithmetic mode, int shape) {
  const Sm90WeightBlockedShape s = kSm90WeightBlockedShapeTable[shape];
  return mode != Arithmetic::f64 && (mode != Arithmetic::ieee || s.row_blocks * s.columns <= 192);
}

// What is known of an operand's numbers where float32 is held in float16.
struct Sm90WeightSeen {
  uint32_t* most;      // [group][channel][share]: bits of the largest finite magnitude
  int32_t* exponents;  // [group][plane]: planes hold x / 2^exponent
  uint32_t* tiny;      // [group][8 planes]: how many of their numbers are below float16's range, so far
};
inline constexpr int kSm90WeightMostShares = 512;  // of a channel

// One operand's part of the look: blocks of threads, each for a share of a channel.
struct Sm90WeightLookOperand {
  const void* from;
  int64_t from_step[2];  // sample, channel
  int64_t blocks;
  int32_t position_step, length;
  int32_t shares;
  int32_t rows;  // of 8 planes, of all groups
  Sm90WeightSeen seen;
  Divisor by_length;
};
struct Sm90WeightLookParams {
  Sm90WeightLookOperand x, y;
  int32_t samples;
};

// One operand's part of the pass. Unit e of a row is position `first` + e (times the positions of a unit) on
// the axis of all samples, for the planes of the row. Places in a row of `from` have 31 bits.
struct Sm90WeightPassOperand {
  const void* from;
  void* to;
  int64_t from_step[2];           // sample, channel
  int64_t row_units, part_units;  // units of a row, and from a part to the next
  int64_t blocks;                 // of threads
  int32_t position_step;          // of from
  int32_t stride, dilation, padding, length;
  int32_t first;                    // may be negative
  int32_t channels, planes;         // of a group; of a channel
  int32_t first_planes, first_run;  // of a channel in the first run (WeightColumns); all of that run
  int32_t rows, row_tiles;          // of a group; blocks of threads of a row
  bool together;                    // kSm90WeightTogether phases are one load
  int32_t shares;                   // of a channel, in `seen`
  Sm90WeightSeen seen;              // only if scaled
};
struct Sm90WeightPassParams {
  Sm90WeightPassOperand x, y;
  int32_t pitch, samples;
  Divisor by_pitch;
  bool lets_begin;  // the main kernel may begin early
};

struct Sm90WeightBlockedParams {
  TensorMap x_map, y_map;
  const void* x;  // the problem's own, for sums that are recomputed
  const void* y;
  void* output;
  void* parts;  // of all splits
  int64_t x_step[3], y_step[3];
  int64_t l, lout, stride, dilation, padding, step, tap_stride, pitch, samples;
  int64_t first_u;  // the position at the first place of a sample
  int64_t chunk_positions;
  int32_t stage_positions;
  int32_t columns;  // of a group
  UnitOrder x_units, y_units;
  Divisor by_x_units;     // of a shift
  int32_t chunk, chunks;  // this launch's chunk, and how many there are
  int32_t stages;         // of this chunk
  int32_t chunk_stages;   // of a chunk that is not the last
  int32_t front;          // positions before the chunk's first in x's rows
  int32_t cin_group, cout_group, k;
  int32_t x_planes, y_planes, taps, shift;  // taps: shifts j
  int32_t plane_blocks;                     // of 64 x planes
  int32_t row_blocks;                       // plane_blocks * taps
  int32_t tiles, splits, chain;
  int32_t slots, slot_bytes;
  int32_t x_box, y_box;           // planes of a tensor copy
  Sm90WeightSeen x_seen, y_seen;  // only if scaled
  int32_t x_rows, y_rows;         // of 8 planes, of a group
  bool direct;  // one split: the last sums go to dw, earlier ones to its part, unless dw is scattered
  WeightRows in_rows;
  WeightTiles in_tiles;
  WeightColumns in_columns;
  Divisor by_x_planes, by_y_planes, by_pitch;
};

struct Sm90WeightBlockedSumParams {
  const void* parts;
  void* output;
  int64_t part_size;
  int32_t splits, runs;  // runs of splits that threads add beside each other
  int32_t tile_rows, tile_columns;
  int32_t cin_group, cout_group, k, tap_stride;
  int32_t x_planes, y_planes, taps, columns;
  WeightRows in_rows;
  WeightTiles in_tiles;
  WeightColumns in_columns;
  UnitOrder x_units, y_units;
  Divisor by_x_units;           // of a shift
  int64_t units;                // fours of columns, of all x planes and groups
  Divisor by_units, by_planes;  // of an x plane; x planes of a group, in whole row blocks
  Divisor by_tile_units;        // of a tile
  Divisor by_x_planes, by_y_planes;
  // Where lines of dw are summed: blocks, shared memory of each (0: they are not), rows of a channel.
  int32_t line_bytes, line_rows;
  int64_t line_blocks;
  Divisor by_chunks, by_chunk_units, by_line_rows, by_cin;
};

struct Sm90WeightBlockedFunctions {
  void (*shapes[kSm90WeightBlockedShapes])(Sm90WeightBlockedParams);  // null: not in this mode
  void (*look)(Sm90WeightLookParams);                                 // null: not scaled
  void (*pass)(Sm90WeightPassParams);
  void (*sum)(Sm90WeightBlockedSumParams);
  void (*sum_lines)(Sm90WeightBlockedSumParams);
};
Sm90WeightBlockedFunctions sm90_weight_blocked_tf32();
Sm90WeightBlockedFunctions sm90_weight_blocked_f16();
Sm90WeightBlockedFunctions sm90_weight_blocked_bf16();
Sm90WeightBlockedFunctions sm90_weight_blocked_ieee();
Sm90WeightBlockedFunctions sm90_weight_blocked_scaled_tf32();
Sm90WeightBlockedFunctions sm90_weight_blocked_scaled_ieee();

}  // namespace tconv::cuda
