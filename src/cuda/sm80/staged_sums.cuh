// A warp's sums on their way to outputs, through shared memory.
#pragma once

#include "cuda/device/accumulator.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/writers.cuh"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// To rows kSumPitch apart, from the warp's first row and column on.
template <class S, class Sums>
__device__ __forceinline__ void stage_sums(float* staged, const Sums& sums, int first_row, int first_column) {
  using Map = MmaAccumulator;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* to = staged + (first_row + i * Map::kRows + Map::row(lane, 2 * half)) * S::kSumPitch +
                  first_column + Map::column(lane, 0);
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) {
        store_pair(to + j * Map::kColumns, sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
    }
  }
}

// Stores four neighbouring outputs at once, on a whole vector.
template <class T>
__device__ __forceinline__ void store_four(T* to, const float* sums, const void* bias, int64_t channel) {
  const float4 sum = *reinterpret_cast<const float4*>(sums);
  const Epilogue<T> finish = epilogue_of_sums<T>(bias, channel);
  alignas(16) const T values[4] = {finish(sum.x + 0.f), finish(sum.y + 0.f), finish(sum.z + 0.f),
                                   finish(sum.w + 0.f)};
  using Words = std::conditional_t<sizeof(T) == 2, uint2, uint4>;
  *reinterpret_cast<Words*>(to) = *reinterpret_cast<const Words*>(values);
}

#endif

}  // namespace tconv::cuda::sm80
