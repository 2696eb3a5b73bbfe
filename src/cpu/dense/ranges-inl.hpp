// Converts runs of values from storage to accumulators and back. Compiled once per SIMD target.
#include "cpu/simd/convert-inl.hpp"

#if defined(TCONV_DENSE_RANGES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_RANGES_INL
#undef TCONV_DENSE_RANGES_INL
#else
#define TCONV_DENSE_RANGES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using simd::HWY_NAMESPACE::Canonical;
using simd::HWY_NAMESPACE::LoadAs;
using simd::HWY_NAMESPACE::StoreAs;

// to[i] = from[i], contiguous.
template <class T, class A>
HWY_INLINE void WidenRange(const T* from, A* to, int64_t count) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = widen(from[i]);
}

template <class A, class T>
HWY_INLINE void NarrowRange(const A* from, T* to, int64_t count) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreAs(d, hn::LoadU(d, from + i), to + i);
  for (; i < count; ++i) to[i] = round_to<T>(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
