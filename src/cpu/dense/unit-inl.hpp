// One unit of a task in one tile of columns: its row blocks multiplied, and its outputs stored.
#if defined(TCONV_DENSE_UNIT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_UNIT_INL
#undef TCONV_DENSE_UNIT_INL
#else
#define TCONV_DENSE_UNIT_INL
#endif

#include "cpu/dense/chunk-inl.hpp"
#include "cpu/dense/compute.hpp"
#include "cpu/dense/epilogue-inl.hpp"
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/dense/panel-inl.hpp"
#include "cpu/dense/prefetch-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// A column tile of a task.
struct ColumnTile {
  int64_t column;  // first, in the panel
  int64_t columns, vecs;
  int64_t padded;        // columns in whole vectors
  int64_t index, count;  // of the tiles of a unit in a strip
  bool first_strip;
  LinesAhead raw_ahead;  // raw weights to fetch meanwhile
  Segments segments;
};

template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const A* weights = nullptr;  // of the group, packed
  const T* raw = nullptr;      // or not
  const T* bias = nullptr;     // of the group, or none
  T* y = nullptr;              // of the group in sample 0
  A *panel = nullptr, *sums = nullptr, *run = nullptr;
  int64_t y_sample = 0;
  Ahead ahead = {};        // x of the next panel
  Chunk<T, A> chunk = {};  // raw weights that are packed and read
  A* chunks[2] = {};       // their memory, and the next chunk's
  int64_t packed_chunks = 0;
  bool special = false;  // a raw weight is infinite or NaN

  const Geometry& g() const { return job.geometry; }
  const Config& c() const { return job.config; }
};

template <class T, class A>
HWY_INLINE A BiasOf(const Worker<T, A>& w, int64_t cout) {
  return w.bias == nullptr ? A(0) : static_cast<A>(widen(w.bias[cout]));
}

// A row block: of which unit and class, and its place among the class's blocks of a cout block.
struct RowBlock {
  int64_t unit;
  int which;
  int64_t cout_block, block;
};

// Its packed weights in a depth block.
template <class T, class A>
HWY_INLINE const A* WeightsOf(const Worker<T, A>& w, const DepthBlock& depth, const RowBlock& at) {
  if (w.c().chunk_units > 0) return w.chunk.block(at.unit, at.which, at.block);
  const Geometry& g = w.g();
  const RowClass& rows = g.classes[at.which];
  const int64_t taps = std::min(depth.tap_end, rows.taps) - depth.tap_begin;
  return w.weights + rows.weight_offset + (at.cout_block * rows.blocks + at.block) * block_elements(g, rows) +
         (depth.tap_begin * g.cin + depth.ci_begin * taps) * kRows;
}

// What a row block's tile prefetches: raw weights of the next chunk, or its share of the packed weights of
// the same row block in the next unit. Without that, each page of the weights would begin with a wait for
// memory.
template <class T, class A>
HWY_INLINE LinesAhead AheadOfBlock(const Worker<T, A>& w, const ColumnTile& tile, const RowBlock& at,
                                   const Tile<A>& t, const A* weights) {
  LinesAhead lines;
  if (w.c().chunk_units > 0) {
    const bool first_of_unit = !w.c().whole || (at.which == 0 && at.block == 0);
    return first_of_unit ? tile.raw_ahead : lines;
  }
  // The units of a pass are read in order, strip after strip: once they are in L2, the core fetches them
  // itself.
  if (at.unit + 1 >= w.task.unit_end || !tile.first_strip) return lines;
  const RowClass& rows = w.g().classes[at.which];
  const int64_t later = (w.c().whole ? rows.blocks : 1) * block_elements(w.g(), rows);
  const int64_t all =
      core::ceil_div(t.channels * t.taps * kRows * static_cast<int64_t>(sizeof(A)), kLineBytes);
  lines.left = core::ceil_div(all, tile.count);
  lines.of_run = all;
  lines.at = reinterpret_cast<const char*>(weights + later) + tile.index * lines.left * kLineBytes;
  return lines;
}

// One row block, one depth block, one tile.
template <class T, class A>
HWY_INLINE void ComputeBlock(const Worker<T, A>& w, const DepthBlock& depth, const ColumnTile& tile,
                             const RowBlock& at, A* sums, int64_t sums_line) {
  const Geometry& g = w.g();
  const Config& c = w.c();
  const RowClass& rows = g.classes[at.which];
  const int64_t couts = std::min(c.cout_block, g.cout - at.cout_block * c.cout_block);
  const int64_t valid = std::min(kRows, couts * rows.residues - at.block * kRows);
  if (valid <= 0) return;
  const int64_t block_taps = std::min(depth.tap_end, rows.taps) - depth.tap_begin;
  const int64_t aligned =
      core::ceil_div(w.task.column_end - w.task.column_begin, kColumnAlign) * kColumnAlign;
  Tile<A> t;
  t.panel = w.panel + tile.column + c.halo;
  t.line = c.line;
  t.tap_stride = c.expanded ? aligned : -g.delta;
  t.channels = block_taps > 0 ? depth.ci_end - depth.ci_begin : 0;
  t.taps = block_taps;
  t.sums = sums;
  t.sums_line = sums_line;
  t.add = depth.ci_begin > 0 || depth.tap_begin > 0;
  const A* weights = WeightsOf(w, depth, at);
  t.ahead = AheadOfBlock(w, tile, at, t, weights);
  MultiplyBlock(t, PackedRows<A>{weights}, valid, tile.vecs);
}

template <class T, class A>
HWY_INLINE void EmitWhole(const Worker<T, A>& w, const ColumnTile& tile, int64_t cout_block, const A* sums,
                          int64_t sums_line) {
  const Geometry& g = w.g();
  const int64_t begin = cout_block * w.c().cout_block, end = std::min(g.cout, begin + w.c().cout_block);
  for (int64_t co = begin; co < end; ++co) {
    Phases<A> p;
    p.sums = sums;
    p.sums_line = sums_line;
    p.dilation = g.dilation;
    p.residues = g.residues;
    p.first1 = g.classes[1].first;
    p.row0 = (co - begin) * g.classes[0].residues;
    p.row1 = g.classes[0].blocks * kRows + (co - begin) * g.classes[1].residues;
    p.bias = BiasOf(w, co);
    EmitCout(g, p, tile.segments, tile.padded, w.y + co * g.lout, w.y_sample, w.run);
  }
}

// Prefetches the lines of y that EmitWhole will write while the sums are made.
template <class T, class A>
HWY_INLINE void PrefetchOutputs(const Worker<T, A>& w, const ColumnTile& tile, int64_t cout_block) {
  if (tile.segments.count == 0) return;
  const Geometry& g = w.g();
  const Segment& at = tile.segments.at[0];
  const int64_t low = std::max<int64_t>(0, g.stride * at.q - g.padding);
  const int64_t high = std::min(g.lout, g.stride * (at.q + at.count) - g.padding);
  if (low >= high) return;
  const int64_t begin = cout_block * w.c().cout_block, end = std::min(g.cout, begin + w.c().cout_block);
  for (int64_t co = begin; co < end; ++co) {
    const T* y = w.y + at.sample * w.y_sample + co * g.lout;
    for (const char* line = reinterpret_cast<const char*>(y + low);
         line < reinterpret_cast<const char*>(y + high); line += kLineBytes) {
      __builtin_prefetch(line, 1, 2);
    }
  }
}

template <class T, class A>
HWY_INLINE void EmitBlock(const Worker<T, A>& w, const ColumnTile& tile, int which, int64_t cout_block,
                          int64_t block, const A* sums, int64_t sums_line) {
  const Geometry& g = w.g();
  const RowClass& rows = g.classes[which];
  const int64_t couts = std::min(w.c().cout_block, g.cout - cout_block * w.c().cout_block);
  const int64_t end = std::min((block + 1) * kRows, couts * rows.residues);
  for (int64_t row = block * kRows; row < end; ++row) {
    const int64_t co = cout_block * w.c().cout_block + row / rows.residues;
    EmitRow(g, sums + (row - block * kRows) * sums_line, BiasOf(w, co), rows.first + row % rows.residues,
            tile.segments, w.y + co * g.lout, w.y_sample);
  }
}

template <class T, class A>
HWY_INLINE void DoUnit(const Worker<T, A>& w, const DepthBlock& depth, const ColumnTile& tile, int64_t unit,
                       bool last, A* sums, int64_t sums_line) {
  const Geometry& g = w.g();
  if (w.c().whole) {
    if (last) PrefetchOutputs(w, tile, unit);
    A* to = sums;
    for (int which = 0; which < 2; ++which) {
      for (int64_t block = 0; block < g.classes[which].blocks; ++block, to += kRows * sums_line) {
        ComputeBlock(w, depth, tile, {unit, which, unit, block}, to, sums_line);
      }
    }
    if (last) EmitWhole(w, tile, unit, sums, sums_line);
    return;
  }
  const int64_t blocks0 = g.classes[0].blocks, blocks = blocks0 + g.classes[1].blocks;
  const int which = unit % blocks < blocks0 ? 0 : 1;
  const int64_t block = unit % blocks - (which == 0 ? 0 : blocks0);
  ComputeBlock(w, depth, tile, {unit, which, unit / blocks, block}, sums, sums_line);
  if (last) EmitBlock(w, tile, which, unit / blocks, block, sums, sums_line);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
