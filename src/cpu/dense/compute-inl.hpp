// The loops of contract.hpp over one task.
#if defined(TCONV_DENSE_COMPUTE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_COMPUTE_INL
#undef TCONV_DENSE_COMPUTE_INL
#else
#define TCONV_DENSE_COMPUTE_INL
#endif

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
  int64_t padded;  // columns in whole vectors
  Segments segments;
};

template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const A* weights;  // of the group
  const T* bias;     // of the group, or null
  T* y;              // of the group in sample 0
  A *panel, *sums, *run;
  int64_t y_sample;
  Ahead ahead;  // x of the next panel

  const Geometry& g() const { return job.geometry; }
  const Config& c() const { return job.config; }
};

template <class T, class A>
HWY_INLINE A BiasOf(const Worker<T, A>& w, int64_t cout) {
  return w.bias == nullptr ? A(0) : static_cast<A>(widen(w.bias[cout]));
}

// Row block `block` of class `which` of a cout block, one depth block, one tile.
template <class T, class A>
HWY_INLINE void ComputeBlock(const Worker<T, A>& w, const DepthBlock& depth, const ColumnTile& tile,
                             int which, int64_t cout_block, int64_t block, A* sums, int64_t sums_line) {
  const Geometry& g = w.g();
  const Config& c = w.c();
  const RowClass& rows = g.classes[which];
  const int64_t couts = std::min(c.cout_block, g.cout - cout_block * c.cout_block);
  const int64_t valid = std::min(kRows, couts * rows.residues - block * kRows);
  const int64_t tap_end = std::min(depth.tap_end, rows.taps);
  if (valid <= 0) return;
  const int64_t block_taps = tap_end - depth.tap_begin;
  const bool first = depth.ci_begin == 0 && depth.tap_begin == 0;
  const int64_t aligned =
      core::ceil_div(w.task.column_end - w.task.column_begin, kColumnAlign) * kColumnAlign;
  Tile<A> t;
  t.weights = w.weights + rows.weight_offset + (cout_block * rows.blocks + block) * block_elements(g, rows) +
              (depth.tap_begin * g.cin + depth.ci_begin * block_taps) * kRows;
  t.panel = w.panel + tile.column + c.halo;
  t.line = c.line;
  t.tap_stride = c.expanded ? aligned : -g.delta;
  t.channels = block_taps > 0 ? depth.ci_end - depth.ci_begin : 0;
  t.taps = block_taps;
  t.sums = sums;
  t.sums_line = sums_line;
  t.add = !first;
  MultiplyBlock(t, valid, tile.vecs);
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

// The lines of y that EmitWhole will write, on their way while the sums are made.
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
        ComputeBlock(w, depth, tile, which, unit, block, to, sums_line);
      }
    }
    if (last) EmitWhole(w, tile, unit, sums, sums_line);
    return;
  }
  const int64_t blocks0 = g.classes[0].blocks, blocks = blocks0 + g.classes[1].blocks;
  const int which = unit % blocks < blocks0 ? 0 : 1;
  const int64_t block = unit % blocks - (which == 0 ? 0 : blocks0);
  ComputeBlock(w, depth, tile, which, unit / blocks, block, sums, sums_line);
  if (last) EmitBlock(w, tile, which, unit / blocks, block, sums, sums_line);
}

template <class T, class A>
HWY_INLINE ColumnTile TileAt(const Worker<T, A>& w, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t all = w.task.column_end - w.task.column_begin;
  const int64_t left = core::ceil_div(all - column, lanes);
  ColumnTile tile;
  tile.column = column;
  tile.vecs = left == 4 ? 2 : std::min<int64_t>(3, left);  // 2 + 2 keeps more sums in flight than 3 + 1
  tile.padded = tile.vecs * lanes;
  tile.columns = std::min(tile.padded, all - column);
  tile.segments = SegmentsOf(w.g(), w.c(), w.task.column_begin + column, tile.columns);
  return tile;
}

template <class T, class A>
HWY_INLINE void DoDepthBlock(Worker<T, A>& w, const DepthBlock& depth, const T* x, bool last) {
  LoadPanel(w.g(), w.c(), w.task, depth, x, w.panel);
  const bool one = w.c().one_depth_block;
  const int64_t columns = w.task.column_end - w.task.column_begin;
  const int64_t sums_line = one ? kMaxTile : core::ceil_div(w.c().panel_columns, kMaxTile) * kMaxTile;
  const int64_t tiles = core::ceil_div(columns, kMaxTile) * (w.task.unit_end - w.task.unit_begin);
  const int64_t lines_per_tile = core::ceil_div(w.ahead.lines_left(), tiles);
  const int64_t unit_sums = one ? 0 : unit_rows(w.g(), w.c()) * sums_line;
  for (int64_t unit = w.task.unit_begin; unit < w.task.unit_end; ++unit) {
    A* sums = w.sums + (unit - w.task.unit_begin) * unit_sums;
    for (int64_t column = 0; column < columns;) {
      const ColumnTile tile = TileAt(w, column);
      w.ahead.fetch(lines_per_tile);
      DoUnit(w, depth, tile, unit, last, sums + (one ? 0 : column), sums_line);
      column += tile.columns;
    }
  }
}

// The depth block after this one; at the end of the task, the first one.
HWY_INLINE DepthBlock NextDepth(const Geometry& g, const Config& c, DepthBlock at) {
  const bool more_ci = at.ci_end < g.cin;
  if (!more_ci) at.tap_begin = at.tap_end < g.taps ? at.tap_end : 0;
  at.tap_end = std::min(g.taps, at.tap_begin + c.tap_block);
  at.ci_begin = more_ci ? at.ci_end : 0;
  at.ci_end = std::min(g.cin, at.ci_begin + c.cin_block);
  return at;
}

// next: the task that this thread probably does after this one; null: none.
template <class T, class A>
HWY_NOINLINE void Compute(const Job& job, const Task& task, const Task* next, const Buffers& b,
                          void* scratch) {
  const Geometry& g = job.geometry;
  const Config& c = job.config;
  Worker<T, A> w{job, task, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, g.groups * g.cout * g.lout,
                 {}};
  w.weights = static_cast<const A*>(b.packed) + task.group * packed_group_elements(g, c);
  if (g.has_bias) w.bias = static_cast<const T*>(b.bias) + task.group * g.cout;
  w.y = static_cast<T*>(b.y) + task.group * g.cout * g.lout;
  w.panel = static_cast<A*>(scratch);
  w.sums = w.panel + job.scratch.panel;
  w.run = w.sums + job.scratch.sums;
  const T* x = static_cast<const T*>(b.x);
  DepthBlock depth{0, std::min(g.cin, c.cin_block), 0, std::min(g.taps, c.tap_block)};
  for (bool last = false; !last;) {
    last = depth.ci_end == g.cin && depth.tap_end == g.taps;
    const DepthBlock after = NextDepth(g, c, depth);
    const Task* reader = last ? next : &task;
    w.ahead = reader == nullptr ? Ahead() : AheadOf(g, c, *reader, after, x);
    DoDepthBlock(w, depth, x, last);
    depth = after;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
