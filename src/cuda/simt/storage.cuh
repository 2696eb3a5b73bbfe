// Small things that the memory-bound simt families share; storage types are in cuda/device/scalar.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/divide.cuh"
#include "cuda/device/divisor.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/floor_div.cuh"

namespace tconv::cuda::simt {

// Takes the lowest of an index's mixed-radix digits off and returns it.
__device__ __forceinline__ int64_t take_digit(int64_t& index, int64_t radix) {
  const int64_t rest = divide(index, radix), digit = index - rest * radix;
  index = rest;
  return digit;
}

// Elements of 16 bits are loaded as integers. Conditional loads of __half and __nv_bfloat16 become branches,
// so that each waits for the one before.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, unsigned short, T>;
template <class T>
__device__ __forceinline__ Bits<T> load_bits(const T* from) {
  return __ldg(reinterpret_cast<const Bits<T>*>(from));
}
template <class T>
__device__ __forceinline__ T of_bits(Bits<T> bits) {
  if constexpr (std::is_same_v<T, __half>) {
    return __ushort_as_half(bits);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __ushort_as_bfloat16(bits);
  } else {
    return bits;
  }
}

// Keeps loads written before this before the stores written after it. Without it the compiler pairs each load
// with its store, and their latencies add up.
__device__ __forceinline__ void loads_before_stores() {
  asm volatile("" ::: "memory");
}

// Keeps the thread's own stores, of any type, before the loads that read them back.
__device__ __forceinline__ void loads_after_stores() {
  asm volatile("" ::: "memory");
}

}  // namespace tconv::cuda::simt
