// Small things that the memory-bound simt families share; storage types are in cuda/device/scalar.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "cuda/device/epilogue.cuh"

namespace tconv::cuda::simt {

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

// Loads written before this stay before the stores written after it. Without it the compiler pairs each load
// with its store, and their latencies add up.
__device__ __forceinline__ void loads_before_stores() {
  asm volatile("" ::: "memory");
}

// The thread's own stores, of whatever type, before it reads them back.
__device__ __forceinline__ void loads_after_stores() {
  asm volatile("" ::: "memory");
}

// kN neighbours in the widest pieces that their address allows (the same for all lanes of a warp).
template <class T, int kN>
__device__ __forceinline__ void store_span(T* to, const T (&values)[kN]) {
  constexpr int kBytes = kN * sizeof(T);
  alignas(16) T v[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) v[i] = values[i];
  const auto address = reinterpret_cast<uintptr_t>(to);
  if (kBytes >= 16 && address % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(v)[i];
  } else if (kBytes >= 8 && address % 8 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 8; ++i)
      reinterpret_cast<uint2*>(to)[i] = reinterpret_cast<const uint2*>(v)[i];
  } else if (kBytes >= 4 && sizeof(T) <= 4 && address % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(v)[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) to[i] = v[i];
  }
}

}  // namespace tconv::cuda::simt
