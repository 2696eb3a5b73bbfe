// Products of one tap without padding: strips of columns of a tiled panel, all row blocks of each in turn.
#if defined(TCONV_STRIDED_STRIPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_STRIPS_INL
#undef TCONV_STRIDED_STRIPS_INL
#else
#define TCONV_STRIDED_STRIPS_INL
#endif

#include <algorithm>
#include <type_traits>

#include "cpu/simd/rows-inl.hpp"
#include "cpu/strided/ahead-inl.hpp"
#include "cpu/strided/phases-inl.hpp"
#include "cpu/strided/point-inl.hpp"
#include "cpu/strided/store-inl.hpp"
#include "cpu/strided/worker-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Strip {
  const T* dy;         // of the first channel, in sample 0
  int64_t begin, end;  // columns of the batch
  int64_t channels;
  LinesAhead ahead;  // lines of the next strip
  int64_t a_tile;    // of them with each tile: if all came at once, the panel would evict them from L2 again
};

// `width` columns from `column` of the batch on, where those are not as they should be in memory.
template <class T, class A>
HWY_NOINLINE void LoadTile(const SplitPanel& s, const Strip<T>& strip, int64_t column, int64_t width,
                           A* tile) {
  const T* dy = strip.dy;
  for (int64_t c = 0; c < strip.channels; ++c, dy += s.channel_step, tile += kMaxTile) {
    int64_t sample = column / s.period, place = column % s.period;
    for (int64_t done = 0; done < width; ++sample, place = 0) {
      const int64_t run = std::min(width - done, s.period - place);
      if (sample < s.n) {
        LoadPhase(dy + sample * s.sample_step, s.stride, s.place_step, s.taps.front(), place, run,
                  tile + done);
      } else {
        std::fill_n(tile + done, run, A(0));
      }
      done += run;
    }
  }
}

// The first row block of a strip fills the panel: it copies whole tiles of one sample while it multiplies.
template <class T, class A, class Weights>
HWY_INLINE void FillTile(const SplitPanel& s, const Strip<T>& strip, int64_t column, int64_t vecs, A* tile,
                         PointTile<A>& t) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  if constexpr (std::is_same_v<T, A> && !Weights::kInPlace) {
    const int64_t place = column % s.period;
    if (vecs == 3 && place + 3 * lanes <= s.period && column < s.columns && s.stride == 1 &&
        s.place_step == 1) {
      t.x = strip.dy + column / s.period * s.sample_step + place;
      t.x_line = s.channel_step;
      t.copy = tile;
      return;
    }
  }
  LoadTile(s, strip, column, vecs * lanes, tile);
}

// Whether a tile leaves its sums in dx itself: all of it lies in one sample, and all of its rows exist.
template <class T, class A>
HWY_INLINE bool InDx(const Worker<T, A>& w, int64_t block, int64_t rows, int64_t column, int64_t width,
                     PointTile<A>& t) {
  if constexpr (std::is_same_v<T, A>) {
    const core::Problem& p = w.job.problem;
    const int64_t place = column % p.l;
    if (place + width > p.l || (rows != 8 && rows != 4 && rows != 1)) return false;
    t.out = w.dx + (column / p.l * p.cin + w.task.group * w.job.cin + block * kRows) * p.l + place;
    t.line = p.l;
    return true;
  }
  return false;
}

// All tiles of a row block in a strip. No sum has a product with a zero that is not in dy.
template <class T, class A, class Weights>
HWY_INLINE void DoStripBlock(const Worker<T, A>& w, const Depth& depth, Strip<T>& strip, int64_t block,
                             const Weights& weights, bool last) {
  const Job& job = w.job;
  const bool one = job.one_depth_block();
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t rows = std::min(kRows, job.cin - block * kRows);
  A* sums = w.sums + (one ? 0 : (block - w.task.block_begin) * kRows * w.sums_line);
  A bias[kRows];
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t row = w.task.group * job.cin + block * kRows + std::min(r, rows - 1);
    bias[r] = start_of<T>(w.bias != nullptr, w.bias, row);
  }
  for (int64_t column = strip.begin; column < strip.end;) {
    const int64_t vecs = std::min<int64_t>(3, core::ceil_div(strip.end - column, lanes));
    const int64_t at = column - strip.begin, in_task = column - w.task.column_begin;
    A* tile = w.panel + at / kMaxTile * kMaxTile * strip.channels + at % kMaxTile;
    PointTile<A> t{tile, kMaxTile,           strip.channels, nullptr,     nullptr,
                   0,    depth.co_begin > 0, bias,           strip.a_tile};
    if (block == w.task.block_begin) FillTile<T, A, Weights>(job.split, strip, column, vecs, tile, t);
    const bool direct = InDx(w, block, rows, column, vecs * lanes, t);
    if (!direct) t.out = sums + (one ? 0 : in_task), t.line = w.sums_line;
    MultiplyPointBlock(t, weights, rows, vecs, strip.ahead);
    const int64_t count = std::min(vecs * lanes, strip.end - column);
    if (last && !direct) StoreBlock(job, w.task, w.inside, block, in_task, count, t.out, t.line, w.dx);
    column += count;
  }
}

template <class T, class A>
HWY_INLINE void DoRawStripBlock(const Worker<T, A>& w, const Depth& depth, Strip<T>& strip, int64_t block,
                                bool last) {
  const BlockRows<T> rows = RowsOf(w, depth, block);
  if constexpr (std::is_same_v<T, A>) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
    if (w.job.cin == block * kRows + 1 || strip.end - strip.begin <= 3 * lanes) {
      RawRows<A> in_place{};
      std::copy(rows.at, rows.at + kRows, in_place.at);
      return DoStripBlock(w, depth, strip, block, in_place, last);
    }
  }
  simd::HWY_NAMESPACE::PackRows(rows.at, 1, depth.channels(), 0, 1, w.rows);
  DoStripBlock(w, depth, strip, block, PackedRows<A>{w.rows}, last);
}

// dy: of the group and the first channel of the depth block, in sample 0.
template <class T, class A>
HWY_INLINE void DoStrips(const Worker<T, A>& w, const Depth& depth, const T* dy, bool last) {
  const SplitPanel& s = w.job.split;
  const int64_t width = w.job.config.strip;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  for (int64_t begin = w.task.column_begin; begin < w.task.column_end; begin += width) {
    const int64_t end = std::min(begin + width, w.task.column_end), next = std::min(end + width, s.columns);
    Strip<T> strip{dy, begin, end, depth.channels(), LinesOf(s, dy, depth.channels(), end, next), 0};
    const int64_t tiles = core::ceil_div(end - begin, 3 * lanes) * (w.task.block_end - w.task.block_begin);
    strip.a_tile = core::ceil_div(strip.ahead.left, tiles);
    for (int64_t block = w.task.block_begin; block < w.task.block_end; ++block) {
      if (w.packed == nullptr) {
        DoRawStripBlock(w, depth, strip, block, last);
      } else {
        DoStripBlock(w, depth, strip, block, PackedRows<A>{PackedOf(w, depth, block)}, last);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
