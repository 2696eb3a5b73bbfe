// Interleaves and stores rows of one vector each. Compiled once per SIMD target.
#include <cstdint>
#include <type_traits>

#include "cpu/simd/targets.hpp"
#include "hwy/highway.h"

#if defined(TCONV_CPU_SIMD_INTERLEAVE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_INTERLEAVE_INL_H
#undef TCONV_CPU_SIMD_INTERLEAVE_INL_H
#else
#define TCONV_CPU_SIMD_INTERLEAVE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// Highway interleaves with shuffles within and between blocks, three per vector, and Intel's cores do one
// shuffle of 512 bits per cycle. The permutation of two vectors, which takes one, has no name in Highway.
constexpr bool kPairsByPermutation = true;

HWY_INLINE void InterleavePair(hn::Full512<float>, hn::Vec512<float> a, hn::Vec512<float> b,
                               hn::Vec512<float>& low, hn::Vec512<float>& high) {
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i upper = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  low = hn::Vec512<float>{_mm512_permutex2var_ps(a.raw, lower, b.raw)};
  high = hn::Vec512<float>{_mm512_permutex2var_ps(a.raw, upper, b.raw)};
}
HWY_INLINE void InterleavePair(hn::Full512<double>, hn::Vec512<double> a, hn::Vec512<double> b,
                               hn::Vec512<double>& low, hn::Vec512<double>& high) {
  const __m512i lower = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i upper = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  low = hn::Vec512<double>{_mm512_permutex2var_pd(a.raw, lower, b.raw)};
  high = hn::Vec512<double>{_mm512_permutex2var_pd(a.raw, upper, b.raw)};
}
#else
constexpr bool kPairsByPermutation = false;
#endif

template <class D>
constexpr bool kPermutes = kPairsByPermutation && sizeof(hn::TFromD<D>) >= 4 && sizeof(hn::Vec<D>) == 64;

// out[2*i] = lane i of a, out[2*i + 1] of b.
template <class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StorePairs(D d, hn::Vec<D> a, hn::Vec<D> b, Lane* out) {
  if constexpr (kPermutes<D>) {
    hn::Vec<D> low, high;
    InterleavePair(d, a, b, low, high);
    hn::StoreU(low, d, out);
    hn::StoreU(high, d, out + hn::MaxLanes(d));
  } else {
    hn::StoreInterleaved2(a, b, d, out);
  }
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// Where element i of the j-th of S interleaved vectors comes from, source after source: step m chooses
// between what steps before it chose and source m + 1.
template <class Lane, int S>
struct InterleaveIndices {
  using Index = std::conditional_t<sizeof(Lane) == 4, int32_t, int64_t>;
  static constexpr int kLanes = 64 / sizeof(Lane);
  alignas(64) Index at[S][S - 1][kLanes];
  constexpr InterleaveIndices() : at() {
    for (int e = 0; e < S * kLanes; ++e) {
      for (int m = 0; m + 1 < S; ++m) {
        const int kept = m == 0 ? e / S : e % kLanes;
        at[e / kLanes][m][e % kLanes] = static_cast<Index>(e % S == m + 1 ? kLanes + e / S : kept);
      }
    }
  }
};
template <class Lane, int S>
inline constexpr InterleaveIndices<Lane, S> kIndices{};

HWY_INLINE hn::Vec512<float> PermuteTwo(hn::Vec512<float> a, const int32_t* indices, hn::Vec512<float> b) {
  return hn::Vec512<float>{_mm512_permutex2var_ps(a.raw, _mm512_load_si512(indices), b.raw)};
}
HWY_INLINE hn::Vec512<double> PermuteTwo(hn::Vec512<double> a, const int64_t* indices, hn::Vec512<double> b) {
  return hn::Vec512<double>{_mm512_permutex2var_pd(a.raw, _mm512_load_si512(indices), b.raw)};
}
#endif

// Whether StoreStep has vectors of this type.
template <class D>
constexpr bool kStoresSteps = kPermutes<D>&& std::is_floating_point_v<hn::TFromD<D>>;

// out[S*i + r] = lane i of v[r], S odd. By permutations of two vectors, cpu.dense at stride 3 is 1.17 times
// as fast (40 drawn layers, 0.92 to 2.09; a Zen 5) as by squares of four rows, which spill into the next
// position and so take a copy.
template <int S, class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StoreStep(D d, const hn::Vec<D> (&v)[S], Lane* out) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  static_assert(S % 2 == 1);
#pragma GCC unroll 5
  for (int j = 0; j < S; ++j) {
    auto all = v[0];
#pragma GCC unroll 4
    for (int m = 0; m + 1 < S; ++m) all = PermuteTwo(all, kIndices<Lane, S>.at[j][m], v[m + 1]);
    hn::StoreU(all, d, out + j * InterleaveIndices<Lane, S>::kLanes);
  }
#else
  (void)d, (void)v, (void)out;  // not called
#endif
}

// The same for 2*S rows: those S apart become pairs first.
template <int S, class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StoreTwoSteps(D d, const hn::Vec<D> (&v)[2 * S], Lane* out) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  hn::Vec<D> low[S], high[S];
#pragma GCC unroll 5
  for (int r = 0; r < S; ++r) InterleavePair(d, v[r], v[r + S], low[r], high[r]);
  StoreStep<S>(d, low, out);
  StoreStep<S>(d, high, out + S * hn::MaxLanes(d));
#else
  (void)d, (void)v, (void)out;  // not called
#endif
}

template <class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StoreTriples(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, Lane* out) {
  if constexpr (kStoresSteps<D>) {
    const hn::Vec<D> v[3] = {a, b, c};
    StoreStep<3>(d, v, out);
  } else {
    hn::StoreInterleaved3(a, b, c, d, out);
  }
}

#if HWY_TARGET != HWY_SCALAR
// out[step*i + 4*b + j] = lane i of block b of 16 bytes, of the j-th of a, b, c, e: four rows of 4-byte
// lanes, transposed square by square.
template <class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StoreSquares(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e, Lane* out,
                             int64_t step) {
  static_assert(sizeof(Lane) == 4);
  const hn::RepartitionToWide<D> pairs;
  const auto low_ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto high_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto low_ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto high_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low_ab, low_ce)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low_ab, low_ce)), d, out + step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high_ab, high_ce)), d, out + 2 * step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high_ab, high_ce)), d, out + 3 * step);
}
#endif

// out[4*i], [4*i + 1], [4*i + 2], [4*i + 3] = lane i of a, b, c, e.
template <class D, class Lane = hn::TFromD<D>>
HWY_INLINE void StoreQuads(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e, Lane* out) {
  if constexpr (kPermutes<D>) {
    hn::Vec<D> ac_low, ac_high, be_low, be_high;
    InterleavePair(d, a, c, ac_low, ac_high);
    InterleavePair(d, b, e, be_low, be_high);
    StorePairs(d, ac_low, be_low, out);
    StorePairs(d, ac_high, be_high, out + 2 * hn::MaxLanes(d));
  } else {
    hn::StoreInterleaved4(a, b, c, e, d, out);
  }
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
