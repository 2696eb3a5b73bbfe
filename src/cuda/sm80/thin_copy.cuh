// A vector of 16 bytes of a channel that may begin or end within it.
#pragma once

#include "cuda/device/ptx/sm80.cuh"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

template <class T>
__device__ __forceinline__ uint32_t bits_at(const T* from) {
  if constexpr (sizeof(T) == 2) {
    return __ldg(reinterpret_cast<const unsigned short*>(from));
  } else {
    return __ldg(reinterpret_cast<const unsigned*>(from));
  }
}

// Zeros for what does not exist. q: the place of the first element in its channel, of `length` elements.
template <class T>
__device__ __noinline__ void copy_part(uint32_t to, const T* from, int64_t q, int64_t length) {
  constexpr int kWord = 4 / sizeof(T);  // elements
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 4 * kWord; ++i) {
    if (q + i >= 0 && q + i < length) words[i / kWord] |= bits_at(from + i) << i % kWord * 16;
  }
  ptx::store_shared16(to, {words[0], words[1], words[2], words[3]});
}

#endif

}  // namespace tconv::cuda::sm80
