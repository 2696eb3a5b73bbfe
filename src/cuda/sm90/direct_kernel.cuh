// The kernel of direct.cuh.
#pragma once

#include "cuda/sm90/direct_split.cuh"
#include "cuda/sm90/direct_store.cuh"

namespace tconv::cuda::sm90 {

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) direct_kernel(const __grid_constant__ Sm90Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char shared[];
  const Share share(p);
  const DirectBarriers<S> barriers(p, shared);
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (threadIdx.x >= S::kConsumers) {
    ptx::fewer_registers<S::kProducer>();
    const int warp = (threadIdx.x - S::kConsumers) / 32;
    if (p.by_elements && warp < S::kWarpgroups) {
      ElementFeed<S>(p, share, shared, warp).run(barriers, warp);
      return;
    }
    if (threadIdx.x % 32 != 0) return;
    if (warp < S::kWarpgroups) {
      feed_direct<S>(p, share, barriers, shared, warp);
    } else if (warp - S::kWarpgroups < S::kRowBlocks) {
      feed_weights<S>(p, share, barriers, shared, warp - S::kWarpgroups);
    }
    return;
  }
  ptx::more_registers<S::kConsumer>();
  prepare_direct_rows<S>(p, share, shared);
  sync_warps(NamedBarrier::rows, S::kConsumers);
  // The same in all lanes, which the compiler then knows: descriptors stay in uniform registers.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const bool marked = weights_marked<S>(p, share);
  DirectProducts<S> multiply(p, share, barriers, shared, warp, lane);
  for (int tile = multiply.next(); tile >= 0; tile = multiply.next()) {
    DirectSums<S> sums;
    multiply.run(sums, tile);
    DirectOutput<S>(p, share, shared, warp, lane, marked)
        .store(sums, tile, multiply.marked(), multiply.unscale());
  }
  multiply.finish();
#endif
}

}  // namespace tconv::cuda::sm90
