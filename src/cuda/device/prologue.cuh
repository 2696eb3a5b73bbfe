// The prologue (epilogue/prologue.hpp) on devices: what becomes of an element of x before the product.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "epilogue/prologue.hpp"

namespace tconv::cuda {

template <class P>
inline constexpr bool kHasPrologue = !std::is_same_v<P, epilogue::NoPrologue>;

template <class P, class T>
__device__ inline T behind(const P& prologue, T v, int channel) {
  if constexpr (kHasPrologue<P>) return narrow<T>(prologue(widen(v), channel));
  return v;
}

// The same for 4 bytes of one channel: one float32, or two elements of a 16-bit type. The upper half of a
// word may be no element at all; then it is zero.
template <class T, class P>
__device__ inline uint32_t word_behind(const P& prologue, uint32_t word, int channel) {
  if constexpr (kHasPrologue<P>) {
    struct alignas(4) Elements {
      T v[4 / sizeof(T)];
    } elements = *reinterpret_cast<const Elements*>(&word);
    for (T& v : elements.v) v = behind(prologue, v, channel);
    return *reinterpret_cast<const uint32_t*>(&elements);
  }
  return word;
}

}  // namespace tconv::cuda
