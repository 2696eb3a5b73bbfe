// The stages where x is gathered, element by element: samples of any layout, folded, split; skewed phases.
#pragma once

#include "cuda/sm90/kernel.cuh"
#include "cuda/sm90/product_gathered.cuh"
#include "cuda/sm90/source_gather.cuh"
#include "cuda/sm90/source_packed.cuh"
#include "cuda/sm90/writer_gathered.cuh"

namespace tconv::cuda::sm90 {

// Lines: rows of y are stored line by line.
template <class S, bool Lines>
struct GatherStages {
  using Shape = S;
  using Params = Sm90GatherParams;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Product = GatheredProduct<S>;
  using Writer = GatheredWriter<S, Lines>;

  __device__ static Arrivals arrivals(const Params&) {
    return {kSm90Gatherers, kSm90Consumers / 32, 1, kSm90Consumers / 32};
  }
  // Whether a second launch has nothing to do here, which is the usual case and must cost nothing.
  __device__ static bool idle(const Params& p, const Block& block) {
    if (!p.marks.only) return false;
    const int* marks = block.marks(p);
    int any = 0;
    for (int tile = block.walker + threadIdx.x * p.grid.walkers; tile < p.columns.column_tiles;
         tile += kSm90Threads * p.grid.walkers) {
      any |= marks[2 * tile] | marks[2 * tile + 1];
    }
    return __syncthreads_or(any) == 0;
  }
  __device__ static void prepare(const Params& p, unsigned char* shared) {
    if (threadIdx.x >= 2 * kSm90MaxStages) return;
    reinterpret_cast<int*>(shared + p.source.shared_marks)[threadIdx.x] = 0;
  }
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp < kSm90Gatherers) {
      GatherSource<S>(p, block, shared).run(block, rings);
    } else if (ptx::elect_one()) {
      PackedSource<S, ColumnTiles>::run(p, block, shared, rings);
    }
  }
  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    Writer::prepare_rows(p, block, shared);
  }
#endif
};

}  // namespace tconv::cuda::sm90
