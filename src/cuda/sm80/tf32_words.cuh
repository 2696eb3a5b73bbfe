// Words of float32 as operands of mma in tf32, in few instructions. What is not finite, or becomes infinite
// as it is rounded, makes sums that are not finite: a kernel that uses these computes such sums again.
#pragma once

#include <cstdint>

namespace tconv::cuda::sm80 {

// Rounds to 10 mantissa bits, to nearest, ties away from zero. Finite numbers beyond the largest overflow.
__device__ inline uint32_t tf32_word(uint32_t u) {
  uint32_t r = u;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(__uint_as_float(u)));
#endif
  return r;
}

// The rest of a split operand is multiplied by 2^13 until its products are added, so that it keeps all its
// bits whenever the operand itself is a number, subnormal or not. Both parts are rounded as by tf32_word(),
// in five instructions instead of thirteen: an mma reads the upper 19 bits of lo alone, and a number that
// rounds to infinity, an infinity or a NaN makes lo a NaN.
constexpr float kUp = 8192.0f, kDown = 1 / kUp;
__device__ inline void split_word(uint32_t u, uint32_t& hi, uint32_t& lo) {
  constexpr uint32_t kHalf = 0x1000, kUpper = 0xffffe000;
  hi = u + kHalf & kUpper;
  lo = __float_as_uint((__uint_as_float(u) - __uint_as_float(hi)) * kUp) + kHalf;
}

}  // namespace tconv::cuda::sm80
