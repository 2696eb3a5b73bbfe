// The one NaN that leaves a kernel: quiet, positive, without payload. Processors differ in the sign and
// payload of the NaN that they make, and in which operand's NaN they hand on; results must not.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace tconv::core {

// Its bits, as an unsigned integer of the type's size.
constexpr uint64_t canonical_nan(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7fc00000u;
    case DType::f64:
      return 0x7ff8000000000000u;
    case DType::f16:
      return 0x7e00u;
    case DType::bf16:
      return 0x7fc0u;
  }
  return 0;
}

}  // namespace tconv::core
