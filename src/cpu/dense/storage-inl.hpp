// Storage types to and from the float or double that is computed with; one copy a SIMD target.
#if defined(TCONV_DENSE_STORAGE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_STORAGE_INL
#undef TCONV_DENSE_STORAGE_INL
#else
#define TCONV_DENSE_STORAGE_INL
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/float16.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bits of the 16-bit formats; a type each, so that overloads tell them apart.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// Whether f16 conversions are instructions that round as core/float16.hpp does.
#undef TCONV_NATIVE_F16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TCONV_NATIVE_F16 1
#else
#define TCONV_NATIVE_F16 0
#endif

HWY_INLINE float Widen(float v) {
  return v;
}
HWY_INLINE double Widen(double v) {
  return v;
}
HWY_INLINE float Widen(Half v) {
  return core::f16_to_float(v.bits);
}
HWY_INLINE float Widen(Bfloat v) {
  return core::bf16_to_float(v.bits);
}
HWY_INLINE void Narrow(float v, float& out) {
  out = v;
}
HWY_INLINE void Narrow(double v, double& out) {
  out = v;
}
HWY_INLINE void Narrow(float v, Half& out) {
  out.bits = core::float_to_f16(v);
}
HWY_INLINE void Narrow(float v, Bfloat& out) {
  out.bits = core::float_to_bf16(v);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadWide(D d, const T* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const Bfloat* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}
#if TCONV_NATIVE_F16
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const Half* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
#endif

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreNarrow(D d, hn::Vec<D> v, T* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void StoreNarrow(D d, hn::Vec<D> v, Bfloat* p) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1u));
  const auto even = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(high, hn::Set(d32, 0x40u));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const hn::RebindToSigned<decltype(d32)> i32;  // demotion saturates from signed; 0..0xffff passes
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(i32, hn::IfThenElse(nan, quiet, even))), d16, &p->bits);
}
#if TCONV_NATIVE_F16
template <class D>
HWY_INLINE void StoreNarrow(D, hn::Vec<D> v, Half* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
}
#endif

template <class T>
inline constexpr bool kVectorConverts = TCONV_NATIVE_F16 || !std::is_same_v<T, Half>;

// to[i] = from[i], contiguous.
template <class T, class A>
HWY_INLINE void WidenRun(const T* from, A* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kVectorConverts<T>) {
    const hn::ScalableTag<A> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) hn::StoreU(LoadWide(d, from + i), d, to + i);
  }
  for (; i < count; ++i) to[i] = Widen(from[i]);
}

template <class A, class T>
HWY_INLINE void NarrowRun(const A* from, T* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kVectorConverts<T>) {
    const hn::ScalableTag<A> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) StoreNarrow(d, hn::LoadU(d, from + i), to + i);
  }
  for (; i < count; ++i) Narrow(from[i], to[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
