// A warpgroup's sums in the kernels of weight gradients.
#pragma once

namespace tconv::cuda::sm90 {

// S: kRowBlocks of 64 rows, kN columns. Sums lie as wgmma has them.
template <class S>
struct ProductSums {
  float sums[S::kRowBlocks][S::kN / 2];
  int accumulate = 0;  // 0: the next wgmma begins new sums

  // For a split without stages.
  __device__ void clear() {
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) sums[b][i] = 0;
    }
  }
};

}  // namespace tconv::cuda::sm90
