#pragma once

#include <cstdint>

namespace tconv::cuda {

// Towards minus infinity, b > 0.
__host__ __device__ inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

}  // namespace tconv::cuda
