// Moves between tensors and tiles of accumulators: rows of x into padded tiles, rows of a tile interleaved
// into y. Compiled once per SIMD target.
#include <algorithm>
#include <cstring>

#include "cpu/simd/convert-inl.hpp"
#include "cpu/simd/interleave-inl.hpp"

#if defined(TCONV_CPU_SIMD_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_TILES_INL_H
#undef TCONV_CPU_SIMD_TILES_INL_H
#else
#define TCONV_CPU_SIMD_TILES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = x[i*step], widened, for i in [0, count).
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void WidenRow(D d, const T* x, int64_t step, int64_t count, A* HWY_RESTRICT out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(LoadAs(d, x + i), d, out + i);
  }
  for (; i < count; ++i) out[i] = widen(x[i * step]);
}

// to[i] = from[i], by vectors of `kLanes`, the last two of which overlap. count: kLanes or more.
template <int kLanes, class T, class A>
HWY_INLINE void CopyOverlapped(const T* from, int64_t count, A* to) {
  const hn::CappedTag<A, kLanes> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), last = count - lanes;
  for (int64_t i = 0; i < last; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
  hn::StoreU(LoadAs(d, from + last), d, to + last);
}

// to[i] = from[i*step], widened: for short runs, whose rest would take longer than their vectors.
template <class T, class A>
HWY_INLINE void CopyShort(const T* from, int64_t step, int64_t count, A* to) {
  if (step == 1 && count >= 16) return CopyOverlapped<16>(from, count, to);
  if (step == 1 && count >= 8) return CopyOverlapped<8>(from, count, to);
  if (step == 1 && count >= 4) return CopyOverlapped<4>(from, count, to);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<A>(widen(from[i * step]));
}

// out[i] = x at position first + i of a row of l positions; zero outside the row.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void StageRow(D d, const T* row, int64_t step, int64_t l, int64_t first, int64_t count,
                         A* HWY_RESTRICT out) {
  const int64_t from = std::clamp<int64_t>(-first, 0, count);
  const int64_t to = std::clamp<int64_t>(l - first, from, count);
  std::fill(out, out + from, A{0});
  if (to > from) WidenRow(d, row + (first + from) * step, step, to - from, out + from);
  std::fill(out + to, out + count, A{0});
}

// out[i] = narrowed tile[i].
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void NarrowRow(D d, const A* tile, int64_t count, T* HWY_RESTRICT out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreAs(d, hn::LoadU(d, tile + i), out + i);
#if HWY_TARGET <= HWY_AVX3  // whose masked stores are as quick as whole ones
  if constexpr (std::is_same_v<T, A>) {
    if (i == count) return;
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
    hn::BlendedStore(Canonical(d, hn::MaskedLoad(rest, d, tile + i)), rest, d, out + i);
    return;
  }
#endif
  for (; i < count; ++i) out[i] = round_to<T>(tile[i]);
}

// out[S*t + s] = lane t of v[s]. kNumbers: no lane is NaN.
template <int S, bool kNumbers = false, class D, class T>
HWY_INLINE void StoreInterleaved(D d, const hn::Vec<D> (&v)[S], T* out) {
  static_assert(S >= 1 && S <= 4);
  using N = Narrow<T, D>;
  const auto bits = [&](int s) HWY_ATTR {
    if constexpr (kNumbers) return N::Numbers(d, v[s]);
    return N::Bits(d, v[s]);
  };
  const auto tag = N::Tag(d);
  auto* p = reinterpret_cast<typename N::Lane*>(out);
  if constexpr (S == 1) {
    hn::StoreU(bits(0), tag, p);
  } else if constexpr (S == 2) {
    StorePairs(tag, bits(0), bits(1), p);
  } else if constexpr (S == 3) {
    StoreTriples(tag, bits(0), bits(1), bits(2), p);
  } else {
    StoreQuads(tag, bits(0), bits(1), bits(2), bits(3), p);
  }
}

// The same for the elements [from, to) of the S*lanes only.
template <int S, class D, class T>
HWY_NOINLINE void StoreInterleavedPart(D d, const hn::Vec<D> (&v)[S], int64_t from, int64_t to, T* out) {
  T buffer[S * hn::MaxLanes(D())];
  StoreInterleaved<S>(d, v, buffer);
#if HWY_TARGET <= HWY_AVX3  // a call of memcpy takes longer than a short row
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; from < to; from += lanes) {
      const auto part = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, to - from)));
      hn::BlendedStore(hn::MaskedLoad(part, d, buffer + from), part, d, out + from);
    }
    return;
  }
#endif
  if (to > from) std::memcpy(out + from, buffer + from, static_cast<std::size_t>(to - from) * sizeof(T));
}

template <int S, class D, class T, class A = hn::TFromD<D>>
HWY_INLINE int64_t InterleaveWhole(D d, const A* HWY_RESTRICT tile, int64_t pitch, int64_t t, int64_t end,
                                   T* HWY_RESTRICT y, int64_t o) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; t + lanes <= end; t += lanes) {
    hn::Vec<D> v[S];
    for (int r = 0; r < S; ++r) v[r] = hn::LoadU(d, tile + r * pitch + t);
    StoreInterleaved<S>(d, v, y + (o + S * t));
  }
  return t;
}

// Element by element; through a line of accumulators, so that narrowing is done by vectors.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void InterleaveAny(D d, const A* HWY_RESTRICT tile, int64_t pitch, int64_t s, int64_t from,
                              int64_t to, T* HWY_RESTRICT y, int64_t o) {
  constexpr int64_t kLine = 512;
  A line[kLine];
  int64_t t = from / s, r = from % s;
  for (int64_t e = from; e < to; e += kLine) {
    const int64_t count = std::min(kLine, to - e);
    for (int64_t i = 0; i < count;) {
      const A* column = tile + t;
      for (; r < s && i < count; ++r, ++i) line[i] = column[r * pitch];
      if (r == s) {
        r = 0;
        ++t;
      }
    }
    NarrowRow(d, line, count, y + (o + e));
  }
}

// y[o + e] = narrowed tile[r*pitch + t] for e = s*t + r in [from, to): rows r of a tile into one row of y.
template <class D, class T, class A = hn::TFromD<D>>
HWY_NOINLINE void InterleaveRows(D d, const A* HWY_RESTRICT tile, int64_t pitch, int64_t s, int64_t from,
                                 int64_t to, T* HWY_RESTRICT y, int64_t o) {
  if (from >= to) return;
  const int64_t first = (from + s - 1) / s, end = to / s;
  int64_t t = first;
  if (s == 1) t = InterleaveWhole<1>(d, tile, pitch, t, end, y, o);
  if (s == 2) t = InterleaveWhole<2>(d, tile, pitch, t, end, y, o);
  if (s == 3) t = InterleaveWhole<3>(d, tile, pitch, t, end, y, o);
  if (s == 4) t = InterleaveWhole<4>(d, tile, pitch, t, end, y, o);
  if (t == first) return InterleaveAny(d, tile, pitch, s, from, to, y, o);
  InterleaveAny(d, tile, pitch, s, from, s * first, y, o);
  InterleaveAny(d, tile, pitch, s, s * t, to, y, o);
}

// Whether no element is infinite or NaN. A kernel may pad x with zeros only if the weights are finite.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE bool AllFinite(D d, const A* w, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  auto a = zero, b = zero, c = zero, e = zero;  // stay zero, or become NaN for good
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, w + i), zero, a);
    b = hn::MulAdd(hn::LoadU(d, w + i + lanes), zero, b);
    c = hn::MulAdd(hn::LoadU(d, w + i + 2 * lanes), zero, c);
    e = hn::MulAdd(hn::LoadU(d, w + i + 3 * lanes), zero, e);
  }
  for (; i + lanes <= count; i += lanes) a = hn::MulAdd(hn::LoadU(d, w + i), zero, a);
  A rest = 0;
  for (; i < count; ++i) rest += w[i] * A{0};
  return rest == A{0} && hn::AllTrue(d, hn::Eq(hn::Add(hn::Add(a, b), hn::Add(c, e)), zero));
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
