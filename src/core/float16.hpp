// Scalar conversions of the 16-bit storage types, rounding to nearest even; every NaN becomes the canonical
// one. Vector code has its own conversions; tests check that both give the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/nan.hpp"

namespace tconv::core {

inline float bf16_to_float(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

inline uint16_t float_to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return kNanBF16;
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

inline float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero and subnormals, exact
  return sign != 0 ? -magnitude : magnitude;
}

inline uint16_t float_to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return kNanF16;
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (a < 0x38800000u) {  // below 2^-14: the sum with 0.5 puts the rounded subnormal into the low bits
    const float rounded = std::bit_cast<float>(a) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
  }
  const uint32_t rebased = a - 0x38000000u;  // exponent bias 127 -> 15
  return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

// Rounding from double goes through float with the sticky bit kept (round to odd), so that it rounds once.
inline float double_to_float_odd(double d) {
  const float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || std::isnan(d) || std::isinf(f)) return f;
  uint32_t u = std::bit_cast<uint32_t>(f);
  const bool away = std::fabs(static_cast<double>(f)) > std::fabs(d);
  if (away) u -= 1;  // back towards zero, then set the last bit
  return std::bit_cast<float>(u | 1u);
}
inline uint16_t double_to_bf16(double d) {
  return float_to_bf16(double_to_float_odd(d));
}
inline uint16_t double_to_f16(double d) {
  return float_to_f16(double_to_float_odd(d));
}

}  // namespace tconv::core
