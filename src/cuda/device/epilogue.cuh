// The epilogue (epilogue/epilogue.hpp) on devices: how sums become storage types, and an output channel's
// bias.
#pragma once

#include "cuda/device/scalar.cuh"
#include "epilogue/epilogue.hpp"

namespace tconv::cuda {

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

// Two of them in a word, the first in its lower half, for 16-bit types.
template <class T>
__device__ inline uint32_t rounded_pair(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// A sum as it is stored: rounded once, every NaN canonical. Every store of an output goes through this, or
// does the same for two at a time (canonical_pair).
template <class T>
__device__ inline T narrow(Accumulator<T> v) {
  return canonical(rounded<T>(v));
}

// The same from float64. 16-bit types go through float32 rounded to odd.
template <class T>
__device__ inline T narrow_double(double v) {
  if constexpr (sizeof(T) > 2) {
    return canonical_copy(static_cast<T>(v));
  } else {
    const float toward_zero = __double2float_rz(v);
    const bool exact = static_cast<double>(toward_zero) == v || !isfinite(v) || isinf(toward_zero);
    return narrow<T>(exact ? toward_zero : __uint_as_float(__float_as_uint(toward_zero) | 1u));
  }
}

// Total: the type of the final sums of T; float64 where many partial sums are added.
template <class T, class Total = Accumulator<T>>
struct DeviceRounding {
  using Storage = T;
  using Sum = Total;
  __device__ static T round(Sum v) {
    if constexpr (std::is_same_v<Total, Accumulator<T>>) {
      return narrow<T>(v);
    } else {
      return narrow_double<T>(v);
    }
  }
};

template <class T, class... Slots>
using Epilogue = epilogue::Epilogue<DeviceRounding<T>, Slots...>;
template <class T, class... Slots>
using WideEpilogue = epilogue::Epilogue<DeviceRounding<T, double>, Slots...>;

// The bias of an output channel, or zero if there is none. A NaN may have any bits, and is copied as it is.
template <class T>
__device__ inline Accumulator<T> load_bias(const void* bias, int64_t channel) {
  if (bias == nullptr) return 0;
  return canonical_copy(widen(__ldg(static_cast<const T*>(bias) + channel)));
}

// The same, for adding to a sum: +0.0 in place of -0.0, so that a sum of zeros of any sign is +0.0.
template <class T>
__device__ inline Accumulator<T> load_bias_to_add(const void* bias, int64_t channel) {
  return load_bias<T>(bias, channel) + Accumulator<T>(0);
}

// For outputs that may have no product (alone() returns the bias); and for sums only.
template <class T>
__device__ inline Epilogue<T> epilogue_of(const void* bias, int64_t channel) {
  return {load_bias<T>(bias, channel)};
}
template <class T>
__device__ inline Epilogue<T> epilogue_of_sums(const void* bias, int64_t channel) {
  return {load_bias_to_add<T>(bias, channel)};
}

}  // namespace tconv::cuda
