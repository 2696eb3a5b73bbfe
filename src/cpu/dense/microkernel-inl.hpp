// C[rows][3 vectors] = (C or 0) + A * panel over one depth block: a plain outer-product tile.
#if defined(TCONV_DENSE_MICROKERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_MICROKERNEL_INL
#undef TCONV_DENSE_MICROKERNEL_INL
#else
#define TCONV_DENSE_MICROKERNEL_INL
#endif

#include <algorithm>

#include "cpu/dense/contract.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kLineBytes = 64;  // of a cache

// Cache lines that a later tile reads: runs of lines, run_step bytes from one to the next.
struct LinesAhead {
  const char* at = nullptr;
  int64_t of_run = 1, place = 0, run_step = 0;
  int64_t left = 0;

  HWY_INLINE void fetch(int64_t count) {
    for (count = std::min(count, left); count > 0; --count, --left) {
      __builtin_prefetch(at, 0, 2);
      at += kLineBytes;
      if (++place < of_run) continue;
      place = 0;
      at += run_step - of_run * kLineBytes;
    }
  }
  // Past lines that another fetches. count <= left
  HWY_INLINE void skip(int64_t count) {
    const int64_t to = place + count, runs = to / of_run;
    at += runs * run_step + (to - runs * of_run - place) * kLineBytes;
    place = to - runs * of_run, left -= count;
  }
};

// Where the weights of a step's eight rows lie. Packed: [ci][tap][8].
template <class A>
struct PackedRows {
  static constexpr bool kInPlace = false;
  const A* at;
  HWY_INLINE const A* row(int r) const { return at + r; }
  HWY_INLINE void next_tap() { at += kRows; }
  HWY_INLINE void next_channel() {}
  HWY_INLINE void skip(int rows) { at += rows; }
};

// Raw: a row's weights of all steps lie side by side.
template <class A>
struct RawRows {
  static constexpr bool kInPlace = true;
  const A* at[kRows];
  int64_t gap;  // weights of a channel that belong to other depth blocks
  HWY_INLINE const A* row(int r) const { return at[r] + step; }
  HWY_INLINE void next_tap() { ++step; }
  HWY_INLINE void next_channel() { step += gap; }
  HWY_INLINE void skip(int rows) {
    for (int r = 0; r + rows < kRows; ++r) at[r] = at[r + rows];
  }
  int64_t step = 0;
};

template <class A>
struct Tile {
  const A* panel;  // at the first column and the first tap
  int64_t line, tap_stride, channels, taps;
  A* sums;
  int64_t sums_line;
  bool add;                              // to the values in sums
  const int64_t* tap_offsets = nullptr;  // of taps from `panel` on, if not tap_stride apart
  LinesAhead ahead = {};                 // to fetch meanwhile
};

// Whether the columns of the channel after the next are fetched into L1. The panel lies in L2: multiply-adds
// that wait for it fill the scheduler, and keep later loads from being issued. On a Xeon with AVX-512 it
// gains 8 to 12% from 128 channels on. Vectors of half a line would fetch each line twice: with AVX2, one tap
// loses 9%.
template <class D>
constexpr bool kFetchColumns = sizeof(hn::Vec<D>) == kLineBytes;

// Channels between two fetches of other lines, with a table and packed weights. On that Xeon gradients and
// Conv1d of several taps gain up to 17% with 32. Weights read in place would lose 15%.
inline constexpr int64_t kTableChannels = 32;

// Where those columns begin; the last tap reads the lowest ones.
template <class A>
HWY_INLINE const A* ColumnsAhead(const Tile<A>& t) {
  const int64_t reach = t.tap_stride < 0 ? -t.tap_stride * (t.taps - 1) : 0;
  return t.panel + 2 * t.line - std::min<int64_t>(reach, kLineBytes / sizeof(A));
}

// Named rows rather than an array: compilers keep these in registers. The constructors are written out: an
// implicit one would not be compiled for the SIMD target, and NEON's vectors cannot be made outside of it.
template <class D>
struct RowVectors {
  using V = hn::Vec<D>;
  V v0, v1, v2;
  HWY_INLINE RowVectors() {}
  HWY_INLINE RowVectors(V a, V b, V c) : v0(a), v1(b), v2(c) {}
};

template <int kVecs, class D, class A>
HWY_INLINE RowVectors<D> Begin(D d, const Tile<A>& t, int64_t row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  RowVectors<D> r{zero, zero, zero};
  if (!t.add) return r;
  const A* from = t.sums + row * t.sums_line;
  r.v0 = hn::LoadU(d, from);
  if constexpr (kVecs > 1) r.v1 = hn::LoadU(d, from + lanes);
  if constexpr (kVecs > 2) r.v2 = hn::LoadU(d, from + 2 * lanes);
  return r;
}

template <int kVecs, class D, class A>
HWY_INLINE void End(D d, const Tile<A>& t, int64_t row, const RowVectors<D>& r) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  A* to = t.sums + row * t.sums_line;
  hn::StoreU(r.v0, d, to);
  if constexpr (kVecs > 1) hn::StoreU(r.v1, d, to + lanes);
  if constexpr (kVecs > 2) hn::StoreU(r.v2, d, to + 2 * lanes);
}

template <int kVecs, class D, class A>
HWY_INLINE void Step(D d, RowVectors<D>& r, const A* weight, const RowVectors<D>& x) {
  const auto w = hn::Set(d, *weight);
  r.v0 = hn::MulAdd(w, x.v0, r.v0);
  if constexpr (kVecs > 1) r.v1 = hn::MulAdd(w, x.v1, r.v1);
  if constexpr (kVecs > 2) r.v2 = hn::MulAdd(w, x.v2, r.v2);
}

template <int kTileRows, int kVecs, bool kTable, class A, class Weights>
HWY_NOINLINE void Multiply(const Tile<A>& t, Weights weights) {
  using D = hn::ScalableTag<A>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr bool kEight = kTileRows == 8, kFour = kTileRows >= 4;
  RowVectors<D> r0 = Begin<kVecs>(d, t, 0), r1, r2, r3, r4, r5, r6, r7;
  if constexpr (kFour) {
    r1 = Begin<kVecs>(d, t, 1), r2 = Begin<kVecs>(d, t, 2), r3 = Begin<kVecs>(d, t, 3);
  }
  if constexpr (kEight) {
    r4 = Begin<kVecs>(d, t, 4), r5 = Begin<kVecs>(d, t, 5);
    r6 = Begin<kVecs>(d, t, 6), r7 = Begin<kVecs>(d, t, 7);
  }
  const A* HWY_RESTRICT line = t.panel;
  const int64_t tap_stride = t.tap_stride, taps = t.taps;
  const auto add_channel = [&]() HWY_ATTR {
    const A* HWY_RESTRICT x = line;
    for (int64_t tap = 0; tap < taps; ++tap, weights.next_tap()) {
      if constexpr (kTable) x = line + t.tap_offsets[tap];
      RowVectors<D> in;
      in.v0 = hn::LoadU(d, x);
      if constexpr (kVecs > 1) in.v1 = hn::LoadU(d, x + lanes);
      if constexpr (kVecs > 2) in.v2 = hn::LoadU(d, x + 2 * lanes);
      Step<kVecs>(d, r0, weights.row(0), in);
      if constexpr (kFour) {
        Step<kVecs>(d, r1, weights.row(1), in);
        Step<kVecs>(d, r2, weights.row(2), in);
        Step<kVecs>(d, r3, weights.row(3), in);
      }
      if constexpr (kEight) {
        Step<kVecs>(d, r4, weights.row(4), in);
        Step<kVecs>(d, r5, weights.row(5), in);
        Step<kVecs>(d, r6, weights.row(6), in);
        Step<kVecs>(d, r7, weights.row(7), in);
      }
      if constexpr (!kTable) x += tap_stride;
    }
    line += t.line;
    weights.next_channel();
  };
  LinesAhead ahead = t.ahead;
  constexpr int64_t kChannels = kTable && kFetchColumns<D> && !Weights::kInPlace ? kTableChannels : 1;
  const int64_t fetches = (t.channels + kChannels - 1) / kChannels;
  const int64_t of_fetch = fetches > 0 ? (ahead.left + fetches - 1) / fetches : 0;
  if constexpr (kChannels > 1) {
    for (int64_t ci = 0; ci < t.channels;) {
      ahead.fetch(of_fetch);
      for (const int64_t end = std::min(t.channels, ci + kChannels); ci < end; ++ci) add_channel();
    }
  } else {
    const A* next = ColumnsAhead(t);
    for (int64_t ci = 0; ci < t.channels; ++ci) {
      ahead.fetch(of_fetch);
      if constexpr (kFetchColumns<D>) {
#pragma GCC unroll 4
        for (int i = 0; i <= kVecs; ++i) __builtin_prefetch(next + i * lanes, 0, 3);
        next += t.line;
      }
      add_channel();
    }
  }
  End<kVecs>(d, t, 0, r0);
  if constexpr (kFour) End<kVecs>(d, t, 1, r1), End<kVecs>(d, t, 2, r2), End<kVecs>(d, t, 3, r3);
  if constexpr (kEight) {
    End<kVecs>(d, t, 4, r4), End<kVecs>(d, t, 5, r5), End<kVecs>(d, t, 6, r6), End<kVecs>(d, t, 7, r7);
  }
}

template <int kTileRows, bool kTable, class A, class Weights>
HWY_INLINE void MultiplyVecs(const Tile<A>& t, const Weights& weights, int64_t vecs) {
  if (vecs == 3) return Multiply<kTileRows, 3, kTable>(t, weights);
  if (vecs == 2) return Multiply<kTileRows, 2, kTable>(t, weights);
  Multiply<kTileRows, 1, kTable>(t, weights);
}

// rows: those of the block's eight that exist. kTable: taps lie where tap_offsets says.
template <bool kTable = false, class A, class Weights>
HWY_INLINE void MultiplyBlock(Tile<A> t, Weights weights, int64_t rows, int64_t vecs) {
  if (rows == 1) return MultiplyVecs<1, kTable>(t, weights, vecs);
#if TCONV_32_REGISTERS
  if (rows > 4) return MultiplyVecs<8, kTable>(t, weights, vecs);
  MultiplyVecs<4, kTable>(t, weights, vecs);
#else
  MultiplyVecs<4, kTable>(t, weights, vecs);
  if (rows <= 4) return;
  t.ahead.left = 0;
  weights.skip(4);
  t.sums += 4 * t.sums_line;
  MultiplyVecs<4, kTable>(t, weights, vecs);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
