// Eight rows, each contiguous along the depth, side by side: [depth][8].
#if defined(TCONV_CPU_SIMD_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_ROWS_INL
#undef TCONV_CPU_SIMD_ROWS_INL
#else
#define TCONV_CPU_SIMD_ROWS_INL
#endif

#include "cpu/simd/convert-inl.hpp"
#include "cpu/simd/interleave-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kPackedRows = 8;  // side by side

// Depths that 16 bytes of accumulators hold.
template <class A>
inline constexpr int64_t kDepths = 16 / static_cast<int64_t>(sizeof(A));

#if HWY_TARGET != HWY_SCALAR

// One block of 16 bytes of rows[0], rows[kDepths], rows[2*kDepths] ... at depth `at`, side by side.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadRowBlocks(D d, const T* const* rows, int64_t at) {
  using A = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(d) == kDepths<A>) {
    return LoadAs(d, rows[0] + at);
  } else {
    const hn::Half<D> half;
    const auto low = LoadRowBlocks(half, rows, at);
    return hn::Combine(d, LoadRowBlocks(half, rows + hn::MaxLanes(half), at), low);
  }
}

// to[8*j + r] = rows[r][at + j] for as many rows as a vector has lanes, and j < kDepths.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void InterleaveRows(D d, const T* const* rows, int64_t at, A* to) {
  const auto a = LoadRowBlocks(d, rows, at), b = LoadRowBlocks(d, rows + 1, at);
  if constexpr (kDepths<A> == 2) {
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + kPackedRows);
  } else {
    const auto c = LoadRowBlocks(d, rows + 2, at), e = LoadRowBlocks(d, rows + 3, at);
    StoreSquares(d, a, b, c, e, to, kPackedRows);
  }
}

// The depths [at, at + count) of the eight rows, as far as they fill whole blocks; returns where those end.
template <class T, class A>
HWY_INLINE int64_t InterleaveBlocks(const T* const* rows, int64_t at, int64_t count, A* to) {
  const hn::CappedTag<A, kPackedRows> d;
  const int64_t end = at + count;
  for (; at + kDepths<A> <= end; at += kDepths<A>, to += kDepths<A> * kPackedRows) {
    for (int64_t row = 0; row < kPackedRows; row += static_cast<int64_t>(hn::MaxLanes(d))) {
      InterleaveRows(d, rows + row, at, to + row);
    }
  }
  return at;
}

#else  // vectors of one lane hold no block

template <class T, class A>
HWY_INLINE int64_t InterleaveBlocks(const T* const*, int64_t at, int64_t, A*) {
  return at;
}

#endif

// to[8*j + r] = rows[r][at + j], j < count.
template <class T, class A>
HWY_INLINE void PackRun(const T* const* rows, int64_t at, int64_t count, A* to) {
  const int64_t done = InterleaveBlocks(rows, at, count, to) - at;
  if (done == count) return;
  if (done > 0) {  // the last block ends with the run: it overlaps the one before
    const int64_t last = count - kDepths<A>;
    InterleaveBlocks(rows, at + last, kDepths<A>, to + last * kPackedRows);
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t r = 0; r < kPackedRows; ++r)
      to[j * kPackedRows + r] = static_cast<A>(widen(rows[r][at + j]));
  }
}

// Taps [tap, tap + taps) of some channels, k weights apart.
template <class T, class A>
HWY_NOINLINE void PackRows(const T* const* rows, int64_t k, int64_t channels, int64_t tap, int64_t taps,
                           A* to) {
  if (taps == k) return PackRun(rows, 0, channels * k, to);
  for (int64_t co = 0; co < channels; ++co, to += taps * kPackedRows) {
    PackRun(rows, co * k + tap, taps, to);
  }
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
