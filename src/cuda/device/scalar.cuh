// Storage types, the types of their sums, and 16-byte vectors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/nan.cuh"

namespace tconv::cuda {

// float16 and bfloat16 are multiplied and summed in float32, where their products are exact.
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

// Elements from the last 16-byte boundary to p.
template <class T>
__device__ inline int misalignment(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T));
}

}  // namespace tconv::cuda
