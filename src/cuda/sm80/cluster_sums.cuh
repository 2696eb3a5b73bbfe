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

// The splits of one sum, in order. kClustered: whether there may be several.
template <bool kClustered>
__device__ __forceinline__ float split_sum(const float* own, int splits) {
  if constexpr (!kClustered) return *own;
  float sum = 0;
#if __CUDA_ARCH__ >= 900
  constexpr int kAtOnce = 4;  // loads on their way
  const uint32_t at = ptx::shared_address(own);
#pragma unroll
  for (int first = 0; first < kMostSplits; first += kAtOnce) {
    if (first >= splits) break;
    float parts[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) parts[i] = first + i < splits ? load_cluster(at, first + i) : 0.f;
#pragma unroll
    for (const float part : parts) sum += part;
  }
#endif
  return sum;
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
