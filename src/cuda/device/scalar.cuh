// Storage types, the type that sums are held in, 16-byte vectors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/nan.cuh"

namespace tconv::cuda {

// float16 and bfloat16 are multiplied and summed in float32: their products are exact there.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float widen(float v) {
  return v;
}
__device__ inline double widen(double v) {
  return v;
}
__device__ inline float widen(__half v) {
  return __half2float(v);
}
__device__ inline float widen(__nv_bfloat16 v) {
  return __bfloat162float(v);
}

// One rounding, to nearest even.
template <class T>
__device__ inline T rounded(Accumulator<T> v) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(v);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(v);
  } else {
    return v;
  }
}

// What a sum becomes in memory: rounded once, NaN the canonical one. Every store of an output goes through
// this, or does the same for two at a time (canonical_pair).
template <class T>
__device__ inline T narrow(Accumulator<T> v) {
  return canonical(rounded<T>(v));
}

// An output channel's bias; none: zero. Its NaN may have any bits, and outputs without taps copy it.
template <class T>
__device__ inline Accumulator<T> load_bias(const void* bias, int64_t channel) {
  if (bias == nullptr) return 0;
  return canonical_copy(widen(__ldg(static_cast<const T*>(bias) + channel)));
}

// The same to be added to a sum: +0.0 where it is -0.0, so that a sum of zeros, whatever their sign, is +0.0.
template <class T>
__device__ inline Accumulator<T> load_bias_to_add(const void* bias, int64_t channel) {
  return load_bias<T>(bias, channel) + Accumulator<T>(0);
}

// Sixteen bytes of a type, moved by one instruction. The address must be a multiple of 16.
template <class T>
struct alignas(16) Vector16 {
  static constexpr int kSize = 16 / sizeof(T);
  T v[kSize];
};

template <class T>
__device__ inline Vector16<T> load_vector(const T* p) {
  Vector16<T> out;
  *reinterpret_cast<uint4*>(&out) = __ldg(reinterpret_cast<const uint4*>(p));
  return out;
}

// Elements from p down to the last 16-byte boundary.
template <class T>
__device__ inline int misalignment(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T));
}

}  // namespace tconv::cuda
