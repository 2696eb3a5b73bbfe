// Loads of any storage type as a vector of accumulators, and the way back, rounded to nearest even.
// Every NaN is stored as the canonical one. Compiled once per SIMD target.
#include "cpu/common/storage.hpp"
#include "cpu/simd/targets.hpp"
#include "hwy/highway.h"

#if defined(TCONV_CPU_SIMD_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_CONVERT_INL_H
#undef TCONV_CPU_SIMD_CONVERT_INL_H
#else
#define TCONV_CPU_SIMD_CONVERT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const hn::TFromD<D>* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const BF16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const F16* p) {
#if TCONV_HAVE_F16C  // elsewhere Highway converts without infinities and NaN
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d32, 0x7fffu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000u)));
  // 2^112 moves the exponent's bias and makes subnormals normal, exactly.
  const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  const auto special = hn::BitCast(d, hn::Or(magnitude, hn::Set(d32, 0x7f800000u)));
  const hn::RebindToSigned<D> di;
  const auto is_special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x0f7fffff));
  return hn::Or(hn::IfThenElse(hn::RebindMask(d, is_special), special, scaled), hn::BitCast(d, sign));
#endif
}

// The same values, and the canonical NaN for every NaN.
template <class D>
HWY_INLINE hn::Vec<D> Canonical(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> bits;
  using U = hn::TFromD<decltype(bits)>;
  constexpr auto kNan = static_cast<U>(sizeof(U) == 8 ? core::kNanF64 : core::kNanF32);
  return hn::IfThenElse(hn::Eq(v, v), v, hn::BitCast(d, hn::Set(bits, kNan)));
}

// The storage bits of a vector of accumulators: the vector itself, or a half vector of 16-bit lanes. Numbers
// is for vectors that are known to hold no NaN.
template <class T, class D>
struct Narrow {
  static HWY_INLINE hn::Vec<D> Bits(D d, hn::Vec<D> v) { return Canonical(d, v); }
  static HWY_INLINE hn::Vec<D> Numbers(D, hn::Vec<D> v) { return v; }
  static HWY_INLINE D Tag(D d) { return d; }
  using Lane = hn::TFromD<D>;
};

template <class D>
struct Narrow<BF16, D> {
  using D16 = hn::Rebind<uint16_t, D>;
  using Lane = uint16_t;
  static HWY_INLINE D16 Tag(D) { return D16(); }
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Rounded(D, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> d32;
    const auto u = hn::BitCast(d32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 1u));
    return hn::Add(hn::Add(u, hn::Set(d32, 0x7fffu)), odd);
  }
  static HWY_INLINE hn::Vec<D16> Numbers(D d, hn::Vec<D> v) {
    return hn::TruncateTo(D16(), hn::ShiftRight<16>(Rounded(d, v)));
  }
  static HWY_INLINE hn::Vec<D16> Bits(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> d32;
    const auto number = hn::RebindMask(d32, hn::Eq(v, v));  // Ne is false for a NaN on AVX
    const auto bits = hn::IfThenElse(number, Rounded(d, v), hn::Set(d32, core::kNanF32));
    return hn::TruncateTo(D16(), hn::ShiftRight<16>(bits));
  }
};

template <class D>
struct Narrow<F16, D> {
  using D16 = hn::Rebind<uint16_t, D>;
  using Lane = uint16_t;
  static HWY_INLINE D16 Tag(D) { return D16(); }
#if TCONV_HAVE_F16C
  static HWY_INLINE hn::Vec<D16> Numbers(D, hn::Vec<D> v) {
    return hn::BitCast(D16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
  static HWY_INLINE hn::Vec<D16> Bits(D d, hn::Vec<D> v) {
    return Numbers(d, Canonical(d, v));
  }
#else
  static HWY_INLINE hn::Vec<D16> Numbers(D d, hn::Vec<D> v) {
    return Bits(d, v);
  }
  static HWY_INLINE hn::Vec<D16> Bits(D d, hn::Vec<D> v) {
    // As core::float_to_f16, lane by lane.
    const hn::RebindToUnsigned<D> d32;
    const hn::RebindToSigned<D> di;
    const auto u = hn::BitCast(d32, v);
    const auto a = hn::And(u, hn::Set(d32, 0x7fffffffu));
    const auto sign = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 0x8000u));
    const auto rebased = hn::Sub(a, hn::Set(d32, 0x38000000u));
    const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(d32, 1u));
    auto h = hn::ShiftRight<13>(hn::Add(hn::Add(rebased, hn::Set(d32, 0xfffu)), odd));
    const auto half = hn::Add(hn::BitCast(d, a), hn::Set(d, 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(d32, half), hn::Set(d32, 0x3f000000u));
    const auto ai = hn::BitCast(di, a);
    h = hn::IfThenElse(hn::RebindMask(d32, hn::Lt(ai, hn::Set(di, 0x38800000))), subnormal, h);
    h = hn::IfThenElse(hn::RebindMask(d32, hn::Gt(ai, hn::Set(di, 0x477fefff))), hn::Set(d32, 0x7c00u), h);
    const auto is_nan = hn::RebindMask(d32, hn::Gt(ai, hn::Set(di, 0x7f800000)));
    const auto nan = hn::Set(d32, uint32_t{core::kNanF16});
    return hn::TruncateTo(D16(), hn::IfThenElse(is_nan, nan, hn::Or(sign, h)));
  }
#endif
};

template <class T, class D>
HWY_INLINE void StoreAs(D d, hn::Vec<D> v, T* p) {
  using N = Narrow<T, D>;
  hn::StoreU(N::Bits(d, v), N::Tag(d), reinterpret_cast<typename N::Lane*>(p));
}

template <class T, class D>
HWY_INLINE void StoreNumbers(D d, hn::Vec<D> v, T* p) {
  using N = Narrow<T, D>;
  hn::StoreU(N::Numbers(d, v), N::Tag(d), reinterpret_cast<typename N::Lane*>(p));
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
