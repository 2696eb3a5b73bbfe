// Storage types of the simt kernels. float32 and float64 are themselves; float16 and bfloat16 are 16-bit
// words whose kind is a run-time argument, so that one kernel serves both: the test is uniform and these
// kernels wait for memory, not for arithmetic.
#pragma once

#include <cstdint>

#include "cuda/device/scalar.cuh"
#include "cuda/simt/types.hpp"

namespace tconv::cuda::simt {

__device__ __forceinline__ float widen(float v, Half) {
  return v;
}
__device__ __forceinline__ double widen(double v, Half) {
  return v;
}
__device__ __forceinline__ float widen(uint16_t v, Half kind) {
  return kind == Half::bf16 ? __uint_as_float(static_cast<uint32_t>(v) << 16)
                            : __half2float(__ushort_as_half(v));
}

// Rounds once, to nearest even.
template <class T, class Sum>
__device__ __forceinline__ T narrowed(Sum v, Half) {
  return v;
}
template <>
__device__ __forceinline__ uint16_t narrowed<uint16_t, float>(float v, Half kind) {
  if (kind == Half::f16) return __half_as_ushort(__float2half_rn(v));
  const uint32_t u = __float_as_uint(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);  // NaN stays NaN
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Towards minus infinity, b > 0.
__host__ __device__ inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

// Of numbers that are not negative. A 64-bit division takes some 100 instructions, four times a 32-bit one;
// the test is uniform where the operands are.
__device__ __forceinline__ int64_t quotient(int64_t n, int64_t d) {
  if (((n | d) >> 32) == 0) return static_cast<uint32_t>(n) / static_cast<uint32_t>(d);
  return n / d;
}

// Cuts the lowest of mixed-radix digits off an index and returns it.
__device__ __forceinline__ int64_t take_digit(int64_t& index, int64_t radix) {
  const int64_t rest = quotient(index, radix), digit = index - rest * radix;
  index = rest;
  return digit;
}

}  // namespace tconv::cuda::simt
