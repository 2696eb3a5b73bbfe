// The kernel of cuda.sm90.dense; dense.hpp has its loop nest and layouts.
#pragma once

#include "cuda/sm90/direct_kernel.cuh"
#include "cuda/sm90/load.cuh"
#include "cuda/sm90/multiply.cuh"
#include "cuda/sm90/pack.cuh"
#include "cuda/sm90/store.cuh"
#include "cuda/sm90/weights.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Whether a second launch has anything to do here: mostly not, and then it must cost nothing.
__device__ inline bool any_marked(const Sm90Params& p, const Share& share) {
  const int* marks = share.marks(p);
  int any = 0;
  for (int tile = share.walker + threadIdx.x * p.walkers; tile < p.column_tiles;
       tile += kSm90Threads * p.walkers) {
    any |= marks[2 * tile] | marks[2 * tile + 1];
  }
  return __syncthreads_or(any) != 0;
}
#endif

template <class S>
__global__ void __launch_bounds__(kSm90Threads, 1) dense_kernel(const __grid_constant__ Sm90Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char shared[];
  const Share share(p);
  if (p.second && !any_marked(p, share)) return;
  const Barriers barriers(p, shared);
  if (threadIdx.x == 0) barriers.init();
  if (threadIdx.x < 2 * kSm90MaxStages) reinterpret_cast<int*>(shared + p.shared_small)[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x >= kSm90Consumers) {
    ptx::fewer_registers<S::kProducer>();
    const int warp = (threadIdx.x - kSm90Consumers) / 32;
    if (warp == kSm90Gatherers) {
      if (threadIdx.x % 32 == 0) load_weights<S>(p, share, barriers, shared);
    } else {
      Input<S>(p, share, shared).run(share, barriers);
    }
  } else {
    ptx::more_registers<S::kConsumer>();
    prepare_rows<S>(p, share, shared);
    sync_warps(NamedBarrier::rows, kSm90Consumers);
    Multiply<S> multiply(p, share, shared);
    for (int tile = share.next_tile(p, share.walker); tile < p.column_tiles;
         tile = share.next_tile(p, tile + p.walkers)) {
      float sums[S::kN / 2];
      const Seen seen = multiply.tile(sums);
      Output<S>(p, share, shared).store(sums, tile, seen);
    }
  }
#endif
}

template <class Mode, int RowBlocks, int Group = 0>
void set_direct(Sm90Functions& f) {
  f.direct[RowBlocks - 1][Group] = direct_kernel<DirectShape<Mode, RowBlocks, Group>>;
  constexpr int kMost = Mode::kParts == 2 ? kSm90MaxSplitGroup : kSm90MaxTapGroup;
  if constexpr (Group < kMost) set_direct<Mode, RowBlocks, Group + 1>(f);
}

// The tiles of each mode, in the order of dense_plan.cpp. What is split or held
// takes the registers of 256 columns a warpgroup for a second set of sums, or for x on its way.
template <class Mode>
Sm90Functions functions_of() {
  Sm90Functions f{};
  if constexpr (Mode::kParts == 1 && !std::is_same_v<Mode, Held>) {
    f.tiles[0] = dense_kernel<Shape<Mode, 2, 256>>;
    f.tiles[1] = dense_kernel<Shape<Mode, 1, 256>>;
  }
  f.tiles[2] = dense_kernel<Shape<Mode, 2, 128>>;
  f.tiles[3] = dense_kernel<Shape<Mode, 1, 128>>;
  f.tiles[4] = dense_kernel<Shape<Mode, 1, 64>>;
  if constexpr (std::is_same_v<Mode, Held> || sizeof(typename Mode::T) == 2) {
    set_direct<Mode, 1>(f);
    set_direct<Mode, 2>(f);
  }
  if constexpr (!std::is_same_v<Mode, Held>) f.pack = pack_kernel<Mode>;
  return f;
}

}  // namespace tconv::cuda::sm90
