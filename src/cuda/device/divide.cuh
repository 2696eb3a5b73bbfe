#pragma once

#include <cstdint>

namespace tconv::cuda {

// a / b for numbers that are not negative. A 64-bit division takes a hundred instructions, and most numbers
// are small.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

}  // namespace tconv::cuda
