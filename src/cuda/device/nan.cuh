// The one NaN that leaves a kernel: quiet, positive, without payload (core/nan.hpp has its bits).
//
// What arithmetic, conversions and tensor cores make of a NaN is positive in every type below float64, with
// all bits of the mantissa set. As a signed integer it is above the canonical one, and all numbers are below:
// a minimum makes it canonical, and leaves numbers of either sign alone. A NaN that is merely copied (a bias)
// may have any sign and payload, and so may a NaN of float64: those need a comparison.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tconv::cuda {

inline constexpr int kNanF32 = 0x7fc00000;
inline constexpr int kNanF16 = 0x7e00, kNanBf16 = 0x7fc0;
inline constexpr long long kNanF64 = 0x7ff8000000000000;

// For results of arithmetic.
__device__ inline float canonical(float v) {
  return __int_as_float(min(__float_as_int(v), kNanF32));
}
__device__ inline double canonical(double v) {
  return v != v ? __longlong_as_double(kNanF64) : v;
}

template <class T>
inline constexpr int kNan16 = std::is_same_v<T, __half> ? kNanF16 : kNanBf16;

// For 16-bit elements: two in a word, or one in its lower half.
template <class T>
__device__ inline uint32_t canonical_pair(uint32_t both) {
  return __vmins2(both, static_cast<uint32_t>(kNan16<T>) * 0x10001u);
}
template <class T>
__device__ inline T canonical16(T v) {
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(&v);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto made = static_cast<uint16_t>(canonical_pair<T>(bits));
#else
  const auto made = static_cast<uint16_t>(min(static_cast<int>(static_cast<int16_t>(bits)), kNan16<T>));
#endif
  return *reinterpret_cast<const T*>(&made);
}
__device__ inline __half canonical(__half v) {
  return canonical16(v);
}
__device__ inline __nv_bfloat16 canonical(__nv_bfloat16 v) {
  return canonical16(v);
}

// For numbers that were copied.
__device__ inline float canonical_copy(float v) {
  return v != v ? __int_as_float(kNanF32) : v;
}
__device__ inline double canonical_copy(double v) {
  return canonical(v);
}

// Neither infinite nor NaN.
template <class Number>
__device__ inline bool is_finite(Number v) {
  return v - v == 0;
}

// Whether any of some sums is NaN.
template <int Count>
__device__ inline bool any_nan(const float (&sums)[Count]) {
  int most = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#pragma unroll
  for (int i = 0; i + 1 < Count; i += 2) {
    most = __vimax3_s32(most, __float_as_int(sums[i]), __float_as_int(sums[i + 1]));
  }
  if constexpr (Count % 2 == 1) most = max(most, __float_as_int(sums[Count - 1]));
#else
#pragma unroll
  for (int i = 0; i < Count; ++i) most = max(most, __float_as_int(sums[i]));
#endif
  return most > 0x7f800000;
}
template <int Count>
__device__ inline bool any_nan(const double (&sums)[Count]) {
  bool any = false;
#pragma unroll
  for (int i = 0; i < Count; ++i) any = any || sums[i] != sums[i];
  return any;
}
template <class Sum, int Rows, int Count>
__device__ inline bool any_nan(const Sum (&sums)[Rows][Count]) {
  bool any = false;
#pragma unroll
  for (int i = 0; i < Rows; ++i) any = any | any_nan(sums[i]);
  return any;
}

}  // namespace tconv::cuda
