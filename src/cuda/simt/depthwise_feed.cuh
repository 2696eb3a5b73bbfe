// How x gets into shared memory for cuda.simt.depthwise: words of 4 bytes fetched ahead, or elements.
#pragma once

#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// A word's elements as floats, lower address first.
__device__ __forceinline__ float2 unpack(uint32_t word, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
__device__ __forceinline__ float2 unpack(uint32_t word, __nv_bfloat16) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

// Elements from the word that holds *p to p.
template <class T>
__device__ __forceinline__ int shift_of(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 4 / sizeof(T));
}

// The word at a position, zero outside [0, l).
template <class T>
__device__ __forceinline__ uint32_t edge_word(const T* row, int64_t position, int64_t l) {
  const auto inside = [&](int64_t at) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(l); };
  if constexpr (sizeof(T) == 4) {
    return inside(position) ? reinterpret_cast<const uint32_t*>(row)[position] : 0;
  } else {
    const auto* from = reinterpret_cast<const uint16_t*>(row) + position;
    if (inside(position) && inside(position + 1)) return *reinterpret_cast<const uint32_t*>(from);
    const uint32_t low = inside(position) ? from[0] : 0, high = inside(position + 1) ? from[1] : 0;
    return low | high << 16;
  }
}

template <class T>
__device__ __forceinline__ void put_word(float* to, uint32_t word) {
  if constexpr (sizeof(T) == 4) {
    *to = __uint_as_float(word);
  } else {
    const float2 v = unpack(word, T());
    to[0] = v.x, to[1] = v.y;
  }
}

// This thread's words of a window. The window's first word begins at `position` of the row; `from` points at
// the first word of this thread.
template <class T, int kThreads, int kWords>
__device__ __forceinline__ void fetch_words(uint32_t (&held)[kWords], const uint32_t* from, const T* row,
                                            int64_t position, const DepthwiseParams& a) {
  constexpr int kPack = 4 / sizeof(T);
  if (position >= 0 && position + a.words * kPack <= a.l) {
#pragma unroll
    for (int i = 0; i < kWords - 1; ++i) held[i] = from[i * kThreads];
    if (static_cast<int>(threadIdx.x) < a.words - (kWords - 1) * kThreads) {
      held[kWords - 1] = from[(kWords - 1) * kThreads];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      held[i] = edge_word(row, position + (i * kThreads + static_cast<int>(threadIdx.x)) * kPack, a.l);
    }
  }
}

// Stores the words to shared memory; the element at `position` goes to shared[0].
template <class T, int kThreads, int kWords>
__device__ __forceinline__ void put_words(float* shared, const uint32_t (&held)[kWords], const T* row,
                                          int64_t position, const DepthwiseParams& a) {
  constexpr int kPack = 4 / sizeof(T);
  const int thread = threadIdx.x;
  float* to = shared + thread * kPack;
#pragma unroll
  for (int i = 0; i < kWords - 1; ++i) put_word<T>(to + i * kThreads * kPack, held[i]);  // there are as many
  if (thread < a.words - (kWords - 1) * kThreads) {
    put_word<T>(to + (kWords - 1) * kThreads * kPack, held[kWords - 1]);
  }
  for (int i = kWords * kThreads + thread; i < a.words; i += kThreads) {  // long halos
    put_word<T>(shared + i * kPack, edge_word(row, position + i * kPack, a.l));
  }
}

// One channel of a window, element by element, with any strides; value 0 is position `start`.
template <class T, int kThreads, int kEach>
__device__ __forceinline__ void fill_elements(float* shared, const T* row, int64_t start,
                                              const DepthwiseParams& a) {
  for (int first = threadIdx.x; first < a.values; first += kEach * kThreads) {
    T held[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t at = start + first + i * kThreads;
      const bool there = static_cast<uint64_t>(at) < static_cast<uint64_t>(a.l);
      held[i] = there ? row[at * a.x_position] : T{};
    }
    loads_before_stores();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i * kThreads < a.values) shared[first + i * kThreads] = widen(held[i]);
    }
  }
}

}  // namespace tconv::cuda::simt
