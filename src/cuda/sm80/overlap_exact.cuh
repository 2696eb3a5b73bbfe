// Split operands of cuda.sm80.overlap, and the outputs that they cannot compute.
//
// float32 as hi + lo, both rounded to tf32, keeps 22 bits from 2^-100 up to where rounding leaves the range.
// A block that sees a smaller number marks its tile, whose outputs are then computed by fused multiply-adds
// of the raw operands; so is every output whose sum is not finite.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/overlap.hpp"

namespace tconv::cuda::sm80::overlap {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// The tensor core drops the lower 13 bits of lo; the factor centres the loss on zero. An Inf or NaN makes lo
// a NaN; adding to its bits instead could make it a number.
__device__ __forceinline__ void split_quickly(uint32_t u, uint32_t& hi, uint32_t& lo) {
  constexpr float kCentre = 1.0f + 0x1.7p-12f;
  hi = (u + 0x1000u) & kTf32Mask;
  lo = __float_as_uint((__uint_as_float(u) - __uint_as_float(hi)) * kCentre);
}

// The least magnitude of numbers that are not zero, less one.
struct Smallest {
  uint32_t value = 0xffffffffu;
  __device__ __forceinline__ void see(uint32_t u) { value = min(value, (u & 0x7fffffffu) - 1u); }
  __device__ bool too_small() const { return value < 0x0d800000u - 1u; }
};

#endif

// An output's o + padding = u*stride + slot, in sample n.
struct Turn {
  int n, u, slot;
};

// One output, in the order of taps and channels. It ends at its first NaN; otherwise data that are NaN
// throughout would take as long as a scalar loop.
__device__ inline float exact_sum(const OverlapParams& p, int group, int cout, const Turn& turn,
                                  int first_tap, int end_tap) {
  const float* x =
      static_cast<const float*>(p.x) + turn.n * p.x_step[0] + int64_t{group} * p.cin_group * p.x_step[1];
  const float* w = static_cast<const float*>(p.weight) + int64_t{group} * p.cin_group * p.weight_step +
                   int64_t{cout} * p.k;
  float sum = 0;
  for (int tap = first_tap; tap < end_tap && sum == sum; ++tap) {
    const float* x_at = x + turn.u - int64_t{tap} * p.step;
    const float* w_at = w + turn.slot + int64_t{tap} * p.tap_stride;
    for (int channel = 0; channel < p.cin_group && sum == sum; ++channel) {
      sum = fmaf(__ldg(x_at), __ldg(w_at), sum);
      x_at += p.x_step[1];
      w_at += p.weight_step;
    }
  }
  return sum;
}

}  // namespace tconv::cuda::sm80::overlap
