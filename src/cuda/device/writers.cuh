// Writers: how outputs that a thread holds, in registers or staged in shared memory, get to memory.
//
//   store_pair        two neighbours at an even place
//   store_vectors     neighbours in the widest pieces that they make, where the address allows
//   store_span        neighbours in the widest pieces that the address allows
//   store_clipped     those neighbours that exist, one by one
//   copy_clipped      the same from shared memory
//   store_partial     an mma warp tile's sums as rows of partial sums
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/accumulator.hpp"

namespace tconv::cuda {

template <class V>
__device__ inline void store_pair(V* at, V left, V right) {
  struct alignas(2 * sizeof(V)) Pair {
    V left, right;
  };
  *reinterpret_cast<Pair*>(at) = {left, right};
}

// In pieces of 16, 8 or 4 bytes, the widest that kN makes; one by one if the address does not allow such
// pieces (the same for all lanes of a warp).
template <class T, int kN>
__device__ __forceinline__ void store_vectors(T* to, const T (&values)[kN]) {
  constexpr int kBytes = kN * sizeof(T);
  using Piece =
      std::conditional_t<kBytes % 16 == 0, uint4, std::conditional_t<kBytes % 8 == 0, uint2, uint32_t>>;
  if constexpr (kBytes % 4 == 0 && sizeof(Piece) > sizeof(T)) {
    if (reinterpret_cast<uintptr_t>(to) % sizeof(Piece) == 0) {
      alignas(16) T v[kN];
#pragma unroll
      for (int i = 0; i < kN; ++i) v[i] = values[i];
#pragma unroll
      for (int i = 0; i < kBytes / static_cast<int>(sizeof(Piece)); ++i) {
        reinterpret_cast<Piece*>(to)[i] = reinterpret_cast<const Piece*>(v)[i];
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) to[i] = values[i];
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

// Stores those of to[0..kN) whose index lies in [begin, end).
template <class T, int kN, class Index>
__device__ __forceinline__ void store_clipped(T* to, const T (&values)[kN], Index begin, Index end) {
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    if (i >= begin && i < end) to[i] = values[i];
  }
}

// Elements [from, end) of a row's vector, those that are outputs; o: the output that element 0 is.
template <class T>
__device__ inline void copy_clipped(T* to, const T* staged, int64_t o, int from, int end, int64_t lout) {
#pragma unroll 1
  for (int k = from; k < end; ++k) {
    if (o + k >= 0 && o + k < lout) to[k] = staged[k];
  }
}

// Row 16*i + r, column 8*j + c of the warp's tile goes to rows[i] + r*pitch + 8*j + c; a null row does not
// exist.
template <class Sum, int kMi, int kNi>
__device__ __forceinline__ void store_partial(Sum* const (&rows)[kMi], int64_t pitch,
                                              const Sum (&sums)[kMi][kNi][MmaAccumulator::kRegisters],
                                              int lane) {
  using Map = MmaAccumulator;
#pragma unroll
  for (int i = 0; i < kMi; ++i) {
    if (rows[i] == nullptr) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Sum* to = rows[i] + Map::row(lane, 2 * half) * pitch + Map::column(lane, 0);
#pragma unroll
      for (int j = 0; j < kNi; ++j) {
        store_pair(to + Map::kColumns * j, sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
    }
  }
}

}  // namespace tconv::cuda
