// The loops of contract.hpp over one task.
#if defined(TCONV_DENSE_COMPUTE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_COMPUTE_INL
#undef TCONV_DENSE_COMPUTE_INL
#else
#define TCONV_DENSE_COMPUTE_INL
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
  int64_t index, count;  // of the tiles of a unit
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

// Its packed weights of a depth block.
template <class T, class A>
HWY_INLINE const A* WeightsOf(const Worker<T, A>& w, const DepthBlock& depth, const RowBlock& at) {
  if (w.c().chunk_units > 0) return w.chunk.block(at.unit, at.which, at.block);
  const Geometry& g = w.g();
  const RowClass& rows = g.classes[at.which];
  const int64_t taps = std::min(depth.tap_end, rows.taps) - depth.tap_begin;
  return w.weights + rows.weight_offset + (at.cout_block * rows.blocks + at.block) * block_elements(g, rows) +
         (depth.tap_begin * g.cin + depth.ci_begin * taps) * kRows;
}

// What a row block's tile fetches for later: raw weights of the next chunk; of packed ones, its share of the
// same row block in the next unit. Without that each page of the weights begins with a wait for memory.
template <class T, class A>
HWY_INLINE LinesAhead AheadOfBlock(const Worker<T, A>& w, const ColumnTile& tile, const RowBlock& at,
                                   const Tile<A>& t, const A* weights) {
  LinesAhead lines;
  if (w.c().chunk_units > 0) {
    const bool first_of_unit = !w.c().whole || (at.which == 0 && at.block == 0);
    return first_of_unit ? tile.raw_ahead : lines;
  }
  if (at.unit + 1 >= w.task.unit_end) return lines;
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

// The depth block after this one; at the end of the task, the first one.
HWY_INLINE DepthBlock NextDepth(const Geometry& g, const Config& c, DepthBlock at) {
  const bool more_ci = at.ci_end < g.cin;
  if (!more_ci) at.tap_begin = at.tap_end < g.taps ? at.tap_end : 0;
  at.tap_end = std::min(g.taps, at.tap_begin + c.tap_block);
  at.ci_begin = more_ci ? at.ci_end : 0;
  at.ci_end = std::min(g.cin, at.ci_begin + c.cin_block);
  return at;
}

// The chunk after this one in the task; false: there is none.
template <class T, class A>
HWY_INLINE bool NextChunk(const Worker<T, A>& w, const DepthBlock& after, bool last, int64_t unit, A* to,
                          Chunk<T, A>& chunk) {
  const bool more = unit < w.task.unit_end;
  if (!more && last) return false;
  const int64_t begin = more ? unit : w.task.unit_begin;
  const int64_t end = std::min(w.task.unit_end, begin + w.c().chunk_units);
  chunk = Chunk<T, A>(w.g(), w.c(), more ? w.chunk.depth() : after, begin, end, w.raw, to);
  return true;
}

// A range of units over one depth block, all tiles.
template <class T, class A>
HWY_INLINE void DoUnits(Worker<T, A>& w, const DepthBlock& depth, int64_t unit_begin, int64_t unit_end,
                        bool last, Chunk<T, A>* next) {
  const bool one = w.c().one_depth_block;
  const int64_t columns = w.task.column_end - w.task.column_begin;
  const int64_t sums_line = one ? kMaxTile : core::ceil_div(w.c().panel_columns, kMaxTile) * kMaxTile;
  const int64_t tile_columns = 3 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t tiles = core::ceil_div(columns, tile_columns);
  const int64_t lines_per_tile = core::ceil_div(w.ahead.lines_left(), tiles * (w.task.unit_end - unit_begin));
  const int64_t unit_sums = one ? 0 : unit_rows(w.g(), w.c()) * sums_line;
  for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
    A* sums = w.sums + (unit - w.task.unit_begin) * unit_sums;
    int64_t index = 0;
    for (int64_t column = 0; column < columns; ++index) {
      ColumnTile tile = TileAt(w, column);
      tile.index = index;
      tile.count = tiles;
      w.ahead.fetch(lines_per_tile);
      if (next != nullptr) {
        const int64_t step =
            std::min((unit - unit_begin) * tiles + index, (unit_end - unit_begin) * tiles - 1);
        tile.raw_ahead = next->advance(step, (unit_end - unit_begin) * tiles);
      }
      DoUnit(w, depth, tile, unit, last, sums + (one ? 0 : column), sums_line);
      column += tile.columns;
    }
  }
}

// after: the depth block that follows, or the first one.
template <class T, class A>
HWY_INLINE void DoDepthBlock(Worker<T, A>& w, const DepthBlock& depth, const DepthBlock& after, const T* x,
                             bool last) {
  LoadPanel(w.g(), w.c(), w.task, depth, x, w.panel);
  if (w.c().chunk_units == 0)
    return DoUnits<T, A>(w, depth, w.task.unit_begin, w.task.unit_end, last, nullptr);
  for (int64_t unit = w.task.unit_begin; unit < w.task.unit_end;) {
    const int64_t end = w.chunk.unit_end();
    Chunk<T, A> next;
    const bool more = NextChunk(w, after, last, end, w.chunks[w.packed_chunks % 2], next);
    DoUnits(w, depth, unit, end, last, more ? &next : nullptr);
    if (!more) return;
    next.finish();
    w.special = w.special || next.special();
    w.chunk = next;
    ++w.packed_chunks;
    unit = end;
  }
}

// next: the task that this thread probably does after this one; null: none.
template <class T, class A>
HWY_NOINLINE void Compute(const Job& job, const Task& task, const Task* next, const Buffers& b,
                          void* scratch) {
  const Geometry& g = job.geometry;
  const Config& c = job.config;
  Worker<T, A> w{job, task};
  w.y_sample = g.groups * g.cout * g.lout;
  if (g.has_bias) w.bias = static_cast<const T*>(b.bias) + task.group * g.cout;
  w.y = static_cast<T*>(b.y) + task.group * g.cout * g.lout;
  w.panel = static_cast<A*>(scratch);
  w.sums = w.panel + job.scratch.panel;
  w.run = w.sums + job.scratch.sums;
  w.chunks[0] = w.run + job.scratch.run;
  w.chunks[1] = w.chunks[0] + job.scratch.chunk;
  const T* x = static_cast<const T*>(b.x);
  DepthBlock depth{0, std::min(g.cin, c.cin_block), 0, std::min(g.taps, c.tap_block)};
  if (c.chunk_units > 0) {
    w.raw = static_cast<const T*>(b.weight) + task.group * g.cin * g.cout * g.k;
    const int64_t end = std::min(task.unit_end, task.unit_begin + c.chunk_units);
    w.chunk = Chunk<T, A>(g, c, depth, task.unit_begin, end, w.raw, w.chunks[0]);
    w.chunk.finish();
    w.special = w.chunk.special();
    w.packed_chunks = 1;
  } else {
    w.weights = static_cast<const A*>(b.weight) + task.group * packed_group_elements(g, c);
  }
  for (bool last = false; !last;) {
    last = depth.ci_end == g.cin && depth.tap_end == g.taps;
    const DepthBlock after = NextDepth(g, c, depth);
    const Task* reader = last ? next : &task;
    w.ahead = reader == nullptr ? Ahead() : AheadOf(g, c, *reader, after, x);
    DoDepthBlock(w, depth, after, x, last);
    depth = after;
  }
  if (w.special) b.special->store(true, std::memory_order_relaxed);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
