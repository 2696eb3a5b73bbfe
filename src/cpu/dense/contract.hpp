// cpu.dense: polyphase implicit GEMM, transposed convolutions of every dtype. Takes every problem except
// those whose padding leaves almost no output or whose numbers exceed what tiles can count (core/reach.hpp).
//
// With g = gcd(stride, dilation), residue k0 in [0, min(K, stride/g)) owns the taps k0, k0 + stride/g, ...
// and its outputs are o = stride*Q + k0*dilation - padding. In these terms every residue reads x at the same
// places, so that one panel of x serves all rows:
//
//   y[n, co, stride*Q + k0*dilation - padding] = bias[co] + sum over ci, t of
//       x[n, ci, Q - t*delta] * w[ci, co, k0 + t*stride/g]              delta = dilation/g
//
// Residues have T or T-1 taps: at most two classes. rows = (co, residue), columns = (n, Q), depth =
// (ci, tap).
//
//   for each task: a panel of columns x a range of units, one group              threads
//     for each depth block: tap block, then ci block
//       load x into the panel: float or double, [ci][column + halo], zeros outside [0, L)
//       for each pass of units, for each strip of columns        their weights fit in L2, the strip in L1
//         for each unit                        a cout block with all its residues ("whole"), or 8 rows
//           for each tile of 3 vectors of columns
//             for each block of 8 rows of the unit
//               C[8][tile] += A[8 rows x depth block] * panel                    microkernel
//             after the last depth block: bias, interleave residues, convert, store   epilogue
//
// With vectors of 64 bytes there is one pass and one strip (common/short_vectors.hpp says why).
//
// Raw weights, up to 512 columns: packing all of them first costs one more write and read than so few columns
// pay for. A task packs its units in chunks, for a depth block, into two buffers in turn: some channels of
// the next chunk between the tiles of this one (chunk-inl.hpp).
//
// Bound: the multiply-adds. 24 of them (12 on 16 registers) share 3 unaligned loads and 8 (4) broadcasts,
// which two load ports hide when panel, sums and weights come from L2. A tile reads its weights once, so they
// are prefetched while the unit before it is computed: on a Zen 5 core packed weights reach 85 to 97% of the
// measured multiply-add rate with AVX2 and 76 to 92% with AVX-512 from 250 columns on. With fewer columns,
// the last tile is not full, and the copy of raw weights (one load, one store and one check per vector) takes
// 10 to 25% of the time.
//
// Every output is one chain of fused multiply-adds in the order (tap block, ci, tap). The bits do not depend
// on the thread count, N or the tile sizes.
//
// clang-format off
// Layouts
//   A (packed weights)  a header, then [group][class][cout block][8-row block][tap block][ci][tap][8]; rows
//       without a (co, residue) repeat one that exists and their sums are dropped. Considered instead: 4 rows
//       contiguous, which suits 16 registers (AVX2 holds 4 rows x 3 vectors) but makes the 32-register kernel
//       read two streams; AVX2 reads half lines of this one twice, from L1.
//   panel, shared       [ci][halo + columns]: a tap is a shifted unaligned load of the same line.
//   panel, expanded     [ci][tap][columns]: if shifts are wider than the panel, or if the batch is merged and the halo
//       between samples would cost more columns than it saves loads.
//   columns  samples one after the other, `period` columns each; if both ends of a sample's line are zeros,
//       neighbours share them. So short samples fill whole vectors.
//   C        [row][column] of a tile (of a whole panel if there are several depth blocks).
// clang-format on
//
// Residue interleave, two designs. (a) From registers: a row block must then hold whole residue groups of 2,
// 4 or 8, with the two classes of an odd K/stride kept apart, and every store pattern is an instance of the
// microkernel. (b) Through C: the microkernel is a plain GEMM tile with one instance for all strides, and the
// epilogue reads whole vectors that were stored as such (which forwards without a stall). (b) costs one store
// and one load of C per depth*2 fused multiply-adds, 1.5% at depth 64; it lets classes with different tap
// counts and residues without taps meet in one contiguous run of y. The choice is (b).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"

namespace tconv::cpu::dense {

inline constexpr int64_t kRows = 8;          // of a row block: 24 accumulators of 32 registers with 3 vectors
inline constexpr int64_t kMaxTile = 48;      // columns of the widest tile: 3 vectors of 16 floats
inline constexpr int64_t kColumnAlign = 16;  // panels hold whole vectors of every target

// Residues with the same number of taps.
struct RowClass {
  int64_t first = 0, residues = 0, taps = 0;
  int64_t blocks = 0;         // row blocks of one cout block
  int64_t weight_offset = 0;  // of the class, in elements of a group's packed weights
  bool operator==(const RowClass&) const = default;
};

// The problem in the terms above; sizes are those of one group.
struct Geometry {
  core::DType dtype = core::DType::f32;
  bool has_bias = false;
  int64_t n = 0, groups = 0, cin = 0, cout = 0, l = 0, lout = 0, k = 0;
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t tap_step = 1;  // stride/g: from a residue's tap to its next
  int64_t delta = 1;     // dilation/g: how far x shifts with it
  int64_t residues = 0;  // that have taps
  int64_t taps = 0;      // T
  int64_t x_steps[3] = {};
  int64_t q_first = 0, q_count = 0;  // columns of a sample, from the first Q on
  RowClass classes[2];
  bool operator==(const Geometry&) const = default;
};

// The choices; only cout_block, tap_block and whole reach the packed layout.
struct Config {
  bool whole = true;       // a unit is a cout block with all residues, its outputs contiguous runs
  int64_t cout_block = 1;  // couts of a unit, so that rows fill row blocks
  int64_t tap_block = 1;
  bool expanded = false;  // panel layout
  int64_t halo = 0;       // of a shared panel
  int64_t period = 0;     // columns from one sample to the next
  int64_t columns = 0;    // of the whole batch
  int64_t cin_block = 1;
  int64_t panel_columns = 0;  // of a task
  int64_t strip = 0;          // columns of a panel that stay in L1 while the units of a pass go by
  int64_t line = 0;           // elements from a channel to the next in the panel
  int64_t units = 0;          // of a group
  int64_t units_per_task = 1;
  int64_t pass_units = 1;  // whose weights stay in L2 while the strips go by
  bool one_depth_block = true;
  int64_t chunk_units = 0;  // whose raw weights a thread packs at a time; 0: weights are packed
  bool operator==(const Config&) const = default;
};

// Elements of one thread's scratch, in order; each part starts at a multiple of 64 elements.
struct Scratch {
  int64_t panel = 0, sums = 0, run = 0;
  int64_t chunk = 0;  // there are two: one is read while the next is packed
  int64_t elements() const { return panel + sums + run + 2 * chunk; }
};

// In front of the packed weights.
struct alignas(256) PackedHeader {
  int32_t special = 0;  // 1: a weight is infinite or NaN; times a zero outside x it gives a NaN
};

struct Task {
  int64_t group = 0, unit_begin = 0, unit_end = 0, column_begin = 0, column_end = 0;
};

struct Buffers {
  const void* x = nullptr;
  const void* weight = nullptr;  // packed, or raw if units are packed in chunks
  const void* bias = nullptr;
  void* y = nullptr;
  std::atomic<bool>* special = nullptr;  // of raw weights: set if one is infinite or NaN
};

inline int64_t cout_blocks(const Geometry& g, const Config& c) {
  return (g.cout + c.cout_block - 1) / c.cout_block;
}
// Rows of C of one unit.
inline int64_t unit_rows(const Geometry& g, const Config& c) {
  return c.whole ? kRows * (g.classes[0].blocks + g.classes[1].blocks) : kRows;
}
// Elements of one unit's packed weights in a channel, and in a chunk.
inline int64_t unit_weights(const Geometry& g, const Config& c) {
  if (!c.whole) return g.taps * kRows;
  return kRows * (g.classes[0].blocks * g.classes[0].taps + g.classes[1].blocks * g.classes[1].taps);
}
inline int64_t chunk_unit_elements(const Geometry& g, const Config& c) {
  return c.cin_block * unit_weights(g, c);
}
// Elements of the packed weights of one row block of a class.
inline int64_t block_elements(const Geometry& g, const RowClass& c) {
  return g.cin * c.taps * kRows;
}

// Elements of the packed weights of one group.
inline int64_t packed_group_elements(const Geometry& g, const Config& c) {
  int64_t elements = 0;
  for (const RowClass& rows : g.classes)
    elements += cout_blocks(g, c) * rows.blocks * block_elements(g, rows);
  return elements;
}

}  // namespace tconv::cpu::dense
