// Sums over the lanes of many vectors at once. Compiled once per SIMD target.
#include "cpu/simd/targets.hpp"
#include "hwy/highway.h"

#if defined(TCONV_CPU_SIMD_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_LANES_INL_H
#undef TCONV_CPU_SIMD_LANES_INL_H
#else
#define TCONV_CPU_SIMD_LANES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int N>
constexpr int kLog2 = 1 + kLog2<N / 2>;
template <>
inline constexpr int kLog2<1> = 0;

// Adds neighbouring lanes of N vectors, two vectors into one. Two vectors take three instructions, and the
// last turns have few vectors.
template <int kTurns, int N, class D, class V = hn::Vec<D>>
HWY_INLINE void AddLanesIn([[maybe_unused]] D d, [[maybe_unused]] V* HWY_RESTRICT v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kTurns > 0) {
    constexpr int kHalf = (N + 1) / 2;
#pragma GCC unroll 16
    for (int i = 0; i < kHalf; ++i) {
      const V low = v[2 * i], high = 2 * i + 1 < N ? v[2 * i + 1] : low;
      v[i] = hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
    }
    AddLanesIn<kTurns - 1, kHalf>(d, v);
  }
#endif
}

// Afterwards lane i % lanes of vector i / lanes is the sum of all lanes of what was vector i.
template <int N, class D, class V = hn::Vec<D>>
HWY_INLINE void AddLanes(D d, V* HWY_RESTRICT v) {
  AddLanesIn<kLog2<static_cast<int>(hn::MaxLanes(d))>, N>(d, v);
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
