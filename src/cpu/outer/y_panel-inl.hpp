// Y of a task's chunk: dy where tap k of position i meets it, else 0, in tiles of 48 (co, k).
#if defined(TCONV_OUTER_Y_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_OUTER_Y_PANEL_INL
#undef TCONV_OUTER_Y_PANEL_INL
#else
#define TCONV_OUTER_Y_PANEL_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/outer/y_ahead-inl.hpp"
#include "cpu/outer/y_padded-inl.hpp"
#include "cpu/simd/convert-inl.hpp"
#include "cpu/simd/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Taps [k, k + count) of one channel, side by side in one tile.
template <class T, class A>
struct Segment {
  const T* row;  // of the channel in the sample, at output k*dilation - padding, that of position 0
  int64_t step;  // elements from one tap to the next
  int64_t jump;  // and from one position to the next
  int64_t count;
  int64_t room;  // columns of the tile from the first one on
  A* to;         // of position 0 of the run
};

// Positions [begin, end) for which all taps of a segment meet dy.
struct Range {
  int64_t begin, end;
};
HWY_INLINE Range Inside(const core::Problem& p, int64_t lout, int64_t k, int64_t count) {
  const int64_t low = p.padding - k * p.dilation, last = (k + count - 1) * p.dilation - p.padding;
  const int64_t begin = low > 0 ? core::ceil_div(low, p.stride) : 0;
  const int64_t end = lout - 1 < last ? 0 : (lout - 1 - last) / p.stride + 1;
  return {std::min(begin, p.l), std::clamp(end, std::min(begin, p.l), p.l)};
}

// Position i where some taps miss dy.
template <class T, class A>
HWY_NOINLINE void LoadEdge(const core::Problem& p, int64_t lout, const Segment<T, A>& s, int64_t k, int64_t i,
                           A* to) {
  const int64_t d = p.dilation, o = p.stride * i - p.padding + k * d;
  const int64_t first = o >= 0 ? 0 : std::min(s.count, d == 1 ? -o : core::ceil_div(-o, d));
  const int64_t room = lout - o;  // elements of the row from the first tap's on
  const int64_t last = std::clamp(d == 1 ? room : core::ceil_div(room, d), first, s.count);
  const T* from = s.row + i * s.jump;
  std::fill(to, to + first, A(0));
  for (int64_t c = first; c < last; ++c) to[c] = static_cast<A>(widen(from[c * s.step]));
  std::fill(to + last, to + s.count, A(0));
}

// Vectors of kLanes taps; what overhangs the end of a segment, the next one overwrites.
template <int kLanes, class T, class A>
HWY_INLINE void LoadVectors(const Segment<T, A>& s, int64_t begin, int64_t end, A* to) {
  const hn::CappedTag<A, kLanes> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* row = s.row + begin * s.jump;
  if (s.count <= lanes) {  // without an inner loop
    const int64_t jump = s.jump;
#pragma GCC unroll 4
    for (int64_t i = end - begin; i > 0; --i, row += jump, to += kTile) {
      hn::StoreU(simd::HWY_NAMESPACE::LoadAs(d, row), d, to);
    }
    return;
  }
  for (int64_t i = begin; i < end; ++i, row += s.jump, to += kTile) {
    for (int64_t c = 0; c < s.count; c += lanes) {
      hn::StoreU(simd::HWY_NAMESPACE::LoadAs(d, row + c), d, to + c);
    }
  }
}

template <class T, class A>
HWY_INLINE void LoadScalars(const Segment<T, A>& s, int64_t begin, int64_t end, A* to) {
  const T* row = s.row + begin * s.jump;
  if (s.count == 1) {
    for (int64_t i = 0; i < end - begin; ++i) to[i * kTile] = static_cast<A>(widen(row[i * s.jump]));
    return;
  }
  for (int64_t i = begin; i < end; ++i, row += s.jump, to += kTile) {
    for (int64_t c = 0; c < s.count; ++c) to[c] = static_cast<A>(widen(row[c * s.step]));
  }
}

// Positions [begin, end) of one sample, of which `in` meet dy with all taps. reach: elements of the channel's
// row from s.row on that may be read.
template <class T, class A>
HWY_INLINE void LoadRun(const core::Problem& p, int64_t lout, const Segment<T, A>& s, Range in, int64_t k,
                        int64_t begin, int64_t end, int64_t reach) {
  const int64_t from = std::clamp(in.begin, begin, end), to = std::clamp(in.end, from, end);
  for (int64_t i = begin; i < from; ++i) LoadEdge(p, lout, s, k, i, s.to + (i - begin) * kTile);
  const int64_t lanes = s.count <= 4 ? 4 : s.count <= 8 ? 8 : 16;
  const int64_t whole = (s.count + lanes - 1) & -lanes;
  int64_t vectors = from;  // positions before it are read in whole vectors
  if (s.step == 1 && s.count > 1 && whole <= s.room && reach >= whole) {
    const int64_t left = reach - whole;  // most positions are far from the end of the row
    vectors = left >= to * s.jump ? to : std::clamp(left / s.jump + 1, from, to);
  }
  A* out = s.to + (from - begin) * kTile;
  if (lanes == 4) {
    LoadVectors<4>(s, from, vectors, out);
  } else if (lanes == 8) {
    LoadVectors<8>(s, from, vectors, out);
  } else {
    LoadVectors<16>(s, from, vectors, out);
  }
  LoadScalars(s, vectors, to, s.to + (vectors - begin) * kTile);
  for (int64_t i = to; i < end; ++i) LoadEdge(p, lout, s, k, i, s.to + (i - begin) * kTile);
}

// Four channels of one tap each, side by side in a tile, at `count` positions one element apart.
template <class T, class A>
HWY_INLINE void LoadFourChannels(const T* row, int64_t channel, int64_t count, A* to) {
  const hn::CappedTag<A, 4> d;
  int64_t i = 0;
  if (hn::Lanes(d) == 4) {
    for (; i + 4 <= count; i += 4) {
      using simd::HWY_NAMESPACE::LoadAs;
      const auto a = LoadAs(d, row + i), b = LoadAs(d, row + channel + i);
      const auto c = LoadAs(d, row + 2 * channel + i), e = LoadAs(d, row + 3 * channel + i);
      HWY_ALIGN A square[16];
      hn::StoreInterleaved4(a, b, c, e, d, square);
      for (int64_t j = 0; j < 4; ++j) hn::StoreU(hn::LoadU(d, square + 4 * j), d, to + (i + j) * kTile);
    }
  }
  for (; i < count; ++i) {
    for (int64_t c = 0; c < 4; ++c) to[i * kTile + c] = static_cast<A>(widen(row[c * channel + i]));
  }
}

// For K = 1 and positions that all meet dy, one element apart: four channels at a time.
template <class T, class A>
HWY_INLINE void LoadPointwise(const Job& job, const Task& task, const T* dy, int64_t begin, int64_t end,
                              A* y) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t depth = end - begin, columns = task.column_end - task.column_begin;
  const YAhead<T> ahead(job, task, dy, begin, end);
  for (int64_t column = 0; column < columns; column += 4) {
    for (int64_t c = 0; c < 4; ++c) ahead.fetch(task.column_begin + column + c);
    A* to = y + column / kTile * kTile * depth + column % kTile;
    int64_t n = begin / p.l, i = begin % p.l;
    for (int64_t d = begin; d < end; ++n, i = 0) {
      const int64_t run = std::min(end - d, p.l - i);
      const T* row = dy + n * steps[0] + (task.column_begin + column) * steps[1] + i;
      LoadFourChannels(row, steps[1], run, to + (d - begin) * kTile);
      d += run;
    }
  }
}

// Y for the depth [begin, end). dy: of the group, in sample 0. padded: scratch for a padded row.
template <class T, class A>
HWY_INLINE void LoadY(const Job& job, const Task& task, const T* dy, int64_t begin, int64_t end, A* y,
                      A* padded) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t depth = end - begin, columns = task.column_end - task.column_begin;
  const int64_t last = columns % kTile;  // of the last tile, if it is not whole
  if (last != 0) {
    A* tile = y + columns / kTile * kTile * depth;
    for (int64_t d = 0; d < depth; ++d) std::fill(tile + d * kTile + last, tile + (d + 1) * kTile, A(0));
  }
  if (p.k == 1 && p.padding == 0 && p.stride == 1 && steps[2] == 1 && columns % 4 == 0) {
    return LoadPointwise(job, task, dy, begin, end, y);
  }
  if (job.config.padded_row > 0) return LoadPadded(job, task, dy, begin, end, y, padded);
  const YAhead<T> ahead(job, task, dy, begin, end);
  for (int64_t column = 0, fetched = -1; column < columns;) {
    const int64_t at = task.column_begin + column, co = at / p.k, k = at % p.k, place = column % kTile;
    const int64_t count = std::min({p.k - k, kTile - place, columns - column});
    if (co != fetched) ahead.fetch(co), fetched = co;
    const int64_t first = k * p.dilation - p.padding;  // output of position 0
    const Range in = Inside(p, job.lout, k, count);
    A* to = y + column / kTile * kTile * depth + place;
    int64_t n = begin / p.l, i = begin % p.l;
    for (int64_t d = begin; d < end; ++n, i = 0) {
      const int64_t run = std::min(end - d, p.l - i);
      const T* row = dy + n * steps[0] + co * steps[1];
      const Segment<T, A> s{row + first * steps[2], p.dilation * steps[2],   p.stride * steps[2], count,
                            kTile - place,          to + (d - begin) * kTile};
      LoadRun(p, job.lout, s, in, k, i, i + run, job.lout - first);
      d += run;
    }
    column += count;
  }
}

// Positions where every (co, k) of the task has a product.
HWY_INLINE Range WhereAllMeet(const Job& job, const Task& task) {
  const core::Problem& p = job.problem;
  const int64_t columns = task.column_end - task.column_begin, first = task.column_begin % p.k;
  const bool all = columns + first > p.k;
  return Inside(p, job.lout, all ? 0 : first, all ? p.k : columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
