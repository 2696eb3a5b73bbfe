// Parameters of the kernel of bias_alone.cuh.
#pragma once

#include <cstdint>

namespace tconv::cuda {

inline constexpr int kBiasAloneThreads = 256;

// For a strided product, cout and lout are those of its output, dx, and l is the length of dy.
struct BiasAloneParams {
  const void* bias;
  void* y;
  int64_t n, cout, l, lout, k, stride, padding, dilation;
  // With g = gcd(stride, dilation): stride/g, dilation/g, the inverse of dilation/g modulo stride/g.
  int64_t gcd, tap_stride, step, inverse;
};

}  // namespace tconv::cuda
