// The loops of contract.hpp over one task.
#if defined(TCONV_DENSE_COMPUTE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_COMPUTE_INL
#undef TCONV_DENSE_COMPUTE_INL
#else
#define TCONV_DENSE_COMPUTE_INL
#endif

#include "cpu/dense/compute.hpp"
#include "cpu/dense/unit-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// end: of the tile's strip.
template <class T, class A>
HWY_INLINE void PlaceTile(const Worker<T, A>& w, int64_t column, int64_t end, ColumnTile& tile) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t left = core::ceil_div(end - column, lanes);
  tile.column = column;
  tile.vecs = left == 4 ? 2 : std::min<int64_t>(3, left);  // 2 + 2 keeps more sums in flight than 3 + 1
  tile.padded = tile.vecs * lanes;
  tile.columns = std::min(tile.padded, end - column);
  FindSegments(w.g(), w.c(), w.task.column_begin + column, tile.columns, tile.segments);
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

// A range of units over one depth block, all tiles, strip by strip.
template <class T, class A>
HWY_INLINE void DoUnits(Worker<T, A>& w, const DepthBlock& depth, int64_t unit_begin, int64_t unit_end,
                        bool last, Chunk<T, A>* next) {
  const bool one = w.c().one_depth_block;
  const int64_t columns = w.task.column_end - w.task.column_begin;
  const int64_t sums_line = one ? kMaxTile : core::ceil_div(w.c().panel_columns, kMaxTile) * kMaxTile;
  const int64_t tile_columns = 3 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t tiles = core::ceil_div(columns, tile_columns), steps = (unit_end - unit_begin) * tiles;
  // Whole tiles, or two strips would add to the same sums: the plan may be one of another vector's width.
  const int64_t strip = core::ceil_div(w.c().strip, tile_columns) * tile_columns;
  const int64_t lines_per_tile = core::ceil_div(w.ahead.lines_left(), tiles * (w.task.unit_end - unit_begin));
  const int64_t unit_sums = one ? 0 : unit_rows(w.g(), w.c()) * sums_line;
  ColumnTile tile;
  int64_t step = 0;
  for (int64_t begin = 0, end = 0; begin < columns; begin = end) {
    end = columns - begin < strip + kColumnAlign ? columns : begin + strip;  // no strip of a vector alone
    tile.first_strip = begin == 0;
    tile.count = core::ceil_div(end - begin, tile_columns);
    for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
      A* sums = w.sums + (unit - w.task.unit_begin) * unit_sums;
      tile.index = 0;
      for (int64_t column = begin; column < end; ++tile.index, ++step) {
        PlaceTile(w, column, end, tile);
        w.ahead.fetch(lines_per_tile);
        if (next != nullptr) tile.raw_ahead = next->advance(std::min(step, steps - 1), steps);
        DoUnit(w, depth, tile, unit, last, sums + (one ? 0 : column), sums_line);
        column += tile.columns;
      }
    }
  }
}

// after: the depth block that follows, or the first one.
template <class T, class A>
HWY_INLINE void DoDepthBlock(Worker<T, A>& w, const DepthBlock& depth, const DepthBlock& after, const T* x,
                             bool last) {
  LoadPanel(w.g(), w.c(), w.task, depth, x, w.panel);
  if (w.c().chunk_units == 0) {
    for (int64_t unit = w.task.unit_begin; unit < w.task.unit_end; unit += w.c().pass_units) {
      const int64_t end = std::min(w.task.unit_end, unit + w.c().pass_units);
      DoUnits<T, A>(w, depth, unit, end, last, nullptr);
    }
    return;
  }
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

// next: the task that this thread will probably do after this one; null: none.
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
