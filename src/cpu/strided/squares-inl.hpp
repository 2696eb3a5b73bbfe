// Loads neighbouring lines of a panel at once. Read one by one, lines that lie one element apart in a row of
// dy take a load and a store for each element; here a load brings the elements of several lines at one
// position, and squares of lines and positions are transposed in registers.
#if defined(TCONV_STRIDED_SQUARES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_SQUARES_INL
#undef TCONV_STRIDED_SQUARES_INL
#else
#define TCONV_STRIDED_SQUARES_INL
#endif

#include "cpu/simd/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lines of a square: what 16 bytes of accumulators hold.
template <class A>
inline constexpr int64_t kSquareLines = 16 / static_cast<int64_t>(sizeof(A));

// Fetches what lies kFarAhead bytes behind `bytes` that are loaded next, of rows that come from memory
// (panel.cpp).
inline constexpr int64_t kFarAhead = 2048, kCacheLine = 64;
HWY_INLINE void FetchAhead(const void* from, int64_t bytes) {
  const char* const ahead = static_cast<const char*>(from) + kFarAhead;
  for (int64_t b = 0; b < bytes; b += kCacheLine) __builtin_prefetch(ahead + b);
}

#if HWY_TARGET != HWY_SCALAR

// Blocks of 16 bytes, `step` elements apart in memory, side by side.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, int64_t step) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) <= 16) {
    return simd::HWY_NAMESPACE::LoadAs(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kBlocks = static_cast<int64_t>(hn::MaxLanes(half) * sizeof(hn::TFromD<D>) / 16);
    const auto low = LoadBlocks(half, from, step);
    return hn::Combine(d, LoadBlocks(half, from + kBlocks * step, step), low);
  }
}

// to[line*pitch + i] = from[stride*i + line] for one vector of positions i and lines < `lines`. Reads all
// lines of a square.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void LoadSquare(D d, const T* from, int64_t stride, int64_t lines, int64_t pitch, A* to) {
  if constexpr (kSquareLines<A> == 4) {
    const auto a = LoadBlocks(d, from, 4 * stride), b = LoadBlocks(d, from + stride, 4 * stride);
    const auto c = LoadBlocks(d, from + 2 * stride, 4 * stride);
    const auto e = LoadBlocks(d, from + 3 * stride, 4 * stride);
    const hn::RepartitionToWide<D> wide;
    const auto ab = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
    const auto ce = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)), d, to);
    if (lines == 1) return;
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce)), d, to + pitch);
    if (lines == 2) return;
    const auto upper_ab = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
    const auto upper_ce = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, upper_ab, upper_ce)), d, to + 2 * pitch);
    if (lines == 3) return;
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, upper_ab, upper_ce)), d, to + 3 * pitch);
  } else {
    const auto a = LoadBlocks(d, from, 2 * stride), b = LoadBlocks(d, from + stride, 2 * stride);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    if (lines == 1) return;
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + pitch);
  }
}

template <bool kFetch, class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void LoadAllSquares(D d, const T* from, int64_t stride, int64_t lines, int64_t pitch,
                               int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const int64_t at = std::min(i, count - lanes);
    if constexpr (kFetch) FetchAhead(from + at * stride, lanes * stride * static_cast<int64_t>(sizeof(T)));
    LoadSquare(d, from + at * stride, stride, lines, pitch, to + at);
  }
}

// The same for `count` positions; returns how many it loaded: all, or none if they do not fill a vector. The
// last vector overlaps the one before it. fetch: rows come from memory (panel.cpp).
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE int64_t LoadSquares(D d, const T* from, int64_t stride, int64_t lines, int64_t pitch,
                               int64_t count, bool fetch, A* to) {
  if (count < static_cast<int64_t>(hn::Lanes(d))) return 0;
  if (fetch) {
    LoadAllSquares<true>(d, from, stride, lines, pitch, count, to);
  } else {
    LoadAllSquares<false>(d, from, stride, lines, pitch, count, to);
  }
  return count;
}

#else  // vectors of one lane hold no square

template <class D, class T, class A>
HWY_INLINE int64_t LoadSquares(D, const T*, int64_t, int64_t, int64_t, int64_t, bool, A*) {
  return 0;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
