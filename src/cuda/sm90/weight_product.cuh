// A warpgroup's sums in the kernels of weight gradients.
#pragma once

namespace tconv::cuda::sm90 {

// S: kRowBlocks of 64 rows, kN columns. Sums lie as wgmma has them.
template <class S>
struct ProductSums {
  float sums[S::kRowBlocks][S::kN / 2];
  int accumulate = 0;  // 0: the next wgmma begins new sums

  template <class Function>
  __device__ void each(const Function& function) {
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) function(b, i);
    }
  }

  // For a split without stages.
  __device__ void clear() {
    each([&](int b, int i) { sums[b][i] = 0; });
  }
  __device__ void scale(float by) {
    each([&](int b, int i) { sums[b][i] *= by; });
  }
  __device__ void add(const ProductSums& other) {
    each([&](int b, int i) { sums[b][i] += other.sums[b][i]; });
  }
};

}  // namespace tconv::cuda::sm90
