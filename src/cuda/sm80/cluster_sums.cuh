// Sums that the blocks of a cluster share: each has the sums of one split in its shared memory, at the same
// address.
#pragma once

#include <type_traits>

#include "cuda/device/ptx/sm80.cuh"

namespace tconv::cuda::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}
// From the shared memory of the cluster's block `rank`, at the address that `own` has in this block's.
__device__ inline float load_cluster(uint32_t own, int rank) {
  float v;
  asm volatile("{.reg .b32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.f32 %0, [at];\n}\n"
               : "=f"(v)
               : "r"(own), "r"(rank)
               : "memory");
  return v;
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// One sum's splits, in order.
template <int kSplits>
__device__ __forceinline__ float split_sum(const float* own) {
  if constexpr (kSplits == 1) return *own;
  float sum = 0;
#if __CUDA_ARCH__ >= 900
  const uint32_t at = ptx::shared_address(own);
  float parts[kSplits];
#pragma unroll
  for (int rank = 0; rank < kSplits; ++rank) parts[rank] = load_cluster(at, rank);
#pragma unroll
  for (int rank = 0; rank < kSplits; ++rank) sum += parts[rank];
#endif
  return sum;
}

// Calls store(std::integral_constant<int, splits>) once the sums of all splits are there to be read.
template <class Store>
__device__ __forceinline__ void store_splits(int splits, const Store& store) {
  if (splits == 1) {
    store(std::integral_constant<int, 1>{});
    return;
  }
#if __CUDA_ARCH__ >= 900
  cluster_barrier();
  if (splits == 2) {
    store(std::integral_constant<int, 2>{});
  } else if (splits == 4) {
    store(std::integral_constant<int, 4>{});
  } else {
    store(std::integral_constant<int, 8>{});
  }
  __syncwarp();
  cluster_barrier();  // no block leaves while others read its sums
#endif
}

#endif

}  // namespace tconv::cuda::sm80
