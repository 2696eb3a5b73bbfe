// The only NaN that a kernel writes: quiet, positive, without payload. Processors differ in the sign and
// payload of the NaN that they generate, and in which operand's NaN they propagate; results must not.
#pragma once

#include <bit>
#include <cstdint>

#include "core/problem.hpp"

namespace tconv::core {

constexpr uint64_t kNanF64 = 0x7ff8000000000000u;
constexpr uint32_t kNanF32 = 0x7fc00000u;
constexpr uint16_t kNanF16 = 0x7e00u, kNanBF16 = 0x7fc0u;

// Its bits, as an unsigned integer of the type's size.
constexpr uint64_t canonical_nan(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kNanF32;
    case DType::f64:
      return kNanF64;
    case DType::f16:
      return kNanF16;
    case DType::bf16:
      return kNanBF16;
  }
  return 0;
}

// v, or the canonical NaN if v is any NaN.
inline float canonical(float v) {
  return v == v ? v : std::bit_cast<float>(kNanF32);
}
inline double canonical(double v) {
  return v == v ? v : std::bit_cast<double>(kNanF64);
}

}  // namespace tconv::core
