// How sums of cuda.simt.depthwise become 16-byte vectors of y.
#pragma once

#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// Two sums as a word, lower address first, with one rounding and the canonical NaN.
__device__ __forceinline__ uint32_t pack(float low, float high, __half) {
  const __half2 both = __floats2half2_rn(low, high);
  return canonical_pair<__half>(*reinterpret_cast<const uint32_t*>(&both));
}
__device__ __forceinline__ uint32_t pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return canonical_pair<__nv_bfloat16>(*reinterpret_cast<const uint32_t*>(&both));
}

// R sums, which began at their bias, to an address that is aligned to 16 bytes.
template <class T, int R>
__device__ __forceinline__ void store_vectors(T* to, const float (&sum)[R], const Epilogue<T>& finish) {
  constexpr int kPack = 4 / sizeof(T), kWords = R / kPack;
  uint32_t word[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(T) == 4) {
      word[i] = __float_as_uint(finish.begun(sum[i]));
    } else {
      word[i] = pack(finish.value_begun(sum[2 * i]), finish.value_begun(sum[2 * i + 1]), T());
    }
  }
#pragma unroll
  for (int i = 0; i < kWords; i += 4) {
    const uint4 vector = make_uint4(word[i], word[i + 1], word[i + 2], word[i + 3]);
    *reinterpret_cast<uint4*>(to + i * kPack) = vector;
  }
}

}  // namespace tconv::cuda::simt
