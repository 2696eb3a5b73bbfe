// Sums that the blocks of a cluster share: each has the sums of one split in its shared memory, at the same
// address.
#pragma once

#include <type_traits>

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/sm80/splits.hpp"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}
// The address in the shared memory of the cluster's block `rank` that `own` is in this block's.
__device__ inline uint32_t cluster_address(uint32_t own, int rank) {
  uint32_t at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(at) : "r"(own), "r"(rank));
  return at;
}
// Volatile keeps it between the barriers. Other memory is not named, so that stores need not wait for it.
__device__ inline float load_cluster(uint32_t at) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];\n" : "=f"(v) : "r"(at));
  return v;
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// The splits of the sums at own[0], own[step], ... own[(count - 1) * step], each in order; 0 beyond. Loads of
// all the sums are under way together. kClustered: whether there may be several splits.
template <bool kClustered, int kSums>
__device__ __forceinline__ void split_sums(const float* own, int step, int count, int splits,
                                           float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 0;
  if constexpr (!kClustered) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if (i < count) sums[i] = own[i * step];
    }
    return;
  }
#if __CUDA_ARCH__ >= 900
  constexpr int kAtOnce = 4;  // splits
  const uint32_t at = ptx::shared_address(own);
#pragma unroll
  for (int first = 0; first < kMostSplits; first += kAtOnce) {
    if (first >= splits) break;
    float parts[kAtOnce][kSums] = {};
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      if (first + s >= splits) break;
      const uint32_t there = cluster_address(at, first + s);
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (i < count) parts[s][i] = load_cluster(there + static_cast<uint32_t>(i * step) * sizeof(float));
      }
    }
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] += parts[s][i];
    }
  }
#endif
}

template <bool kClustered>
__device__ __forceinline__ float split_sum(const float* own, int splits) {
  float sum[1];
  split_sums<kClustered>(own, 0, 1, splits, sum);
  return sum[0];
}

// Calls store(std::bool_constant<splits > 1>) once the sums of all splits are there to be read.
template <class Store>
__device__ __forceinline__ void store_splits(int splits, const Store& store) {
  if (splits == 1) {
    store(std::false_type{});
    return;
  }
#if __CUDA_ARCH__ >= 900
  cluster_barrier();
  store(std::true_type{});
  __syncwarp();
  cluster_barrier();  // no block leaves while others read its sums
#endif
}

#endif

}  // namespace tconv::cuda::sm80
