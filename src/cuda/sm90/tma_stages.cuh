// The stages if x comes by tensor copies. Positions are the rows of wgmma, packed weights are its columns:
//
//   for each group, run of row blocks, and, as they are free, tile of 128 positions:         one warpgroup
//     for each 16 channels (of 16-bit types and split operands 32):                           one raw stage
//       1 lane issues copies of boxes of x, 128 + halo positions, zeros where there is no x
//       they become operands: in registers or, for any taps and rows, in shared memory
//       for each tap j:  sums[u][row] += x[u - j][channels] * packed[row][channels, j]        wgmma
//     y[n, cout, stride*u + a*dilation - padding] = sums[u][cout, a] + bias[cout]
//
// Split operands: tiles of 64 positions, 2 for each lane, one row block, three sets of sums.
//
// A lane has 4 neighbouring positions u, as rows 8 apart of two wgmma: the operands of neighbouring taps are
// then the same registers in another order. If all weights fit in shared memory, the two or three warpgroups
// of a block go from tile to tile independently, and one multiplies while another stores; otherwise they take
// neighbouring tiles together and share a ring of slabs.
//
// A stage's rows are no longer than necessary, because L2 delivers 64 bytes at a time.
#pragma once

#include "cuda/sm90/kernel.cuh"
#include "cuda/sm90/main_loop.cuh"
#include "cuda/sm90/source_packed.cuh"
#include "cuda/sm90/source_tma.cuh"
#include "cuda/sm90/writer_tile.cuh"

namespace tconv::cuda::sm90 {

template <class S>
struct TmaStages {
  using Shape = S;
  using Params = Sm90TmaParams;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Product = TileLoop<S>;
  using Writer = TileWriter<S>;

  // In a warp that loads elements one by one, all lanes arrive; so they do where they read them.
  __device__ static Arrivals arrivals(const Params& p) {
    const int lanes = p.source.by_elements ? 32 : 1;
    return {lanes, S::kReaders * lanes, 1, S::kConsumers / 32};
  }
  __device__ static bool idle(const Params&, const Block&) {
    return false;
  }
  __device__ static void prepare(const Params& p, unsigned char*) {
    const int map = static_cast<int>(threadIdx.x) - S::kConsumers;
    if (!p.source.by_elements && map >= 0 && map < p.source.row_classes) {
      ptx::prefetch_tensor_map(&p.source.maps[map]);
    }
  }
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (p.source.by_elements && warp < S::kWarpgroups) {
      ElementSource<S>(p, block, shared, warp).run(rings);
      return;
    }
    if (warp > S::kWarpgroups || !ptx::elect_one()) return;
    if (warp < S::kWarpgroups) {
      TmaSource<S>(p, block, shared, warp).run(rings);
    } else {
      PackedSource<S, TileRounds>::run(p, block, shared, rings);
    }
  }
  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    Writer::prepare_rows(p, block, shared);
  }
#endif
};

}  // namespace tconv::cuda::sm90
