// A warpgroup's sums of its tile.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/shapes.cuh"

namespace tconv::cuda::sm90 {

// For each product of 64 positions, as wgmma has them, for all row blocks.
template <class S>
using TileSums = float[S::kOwn / 2][S::kRowBlocks * 32];

template <class S>
using TileRegisters = WarpgroupTileAccumulator<S::kOwn, S::kApart == 1, S::kRowBlocks * kSm90Rows>;

// A lane's sum for its position i and packed row e (of two) in the group-th 8 rows.
template <class S>
__device__ inline float tile_sum(const TileSums<S>& sums, int group, int i, int e) {
  return sums[TileRegisters<S>::product(i)][TileRegisters<S>::index(group, i, e)];
}

// Whether operands of a tile could not be held in float16, what undoes their scale, and whether packing
// marked its weights.
struct TileSeen {
  bool marked;
  float unscale;
  bool weights_marked;
};

// Where a tap's operands lie in shared memory: low halves of descriptors.
struct TapOperands {
  uint32_t x, w;
};

}  // namespace tconv::cuda::sm90
