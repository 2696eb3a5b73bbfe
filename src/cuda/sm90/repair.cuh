// Outputs that became NaN where a zero that stands for no product met an infinity: computed again, by fused
// multiply-adds over what is there. Slow, and only where such zeros or weights are (Sm90Params::ragged,
// marks).
#pragma once

#include "cuda/sm90/shape.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The split's share of one output, from x and the packed weights, in the order of the main loop. x is rounded
// as the mode rounds it.
template <class S>
__device__ inline float sum_again(const Sm90Params& p, const Share& share, int row_block, int row, int64_t n,
                                  int64_t u) {
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  const int phase = row % p.phases;
  const T* x =
      static_cast<const T*>(p.x) + n * p.x_step[0] + int64_t{share.group} * p.cin_group * p.x_step[1];
  const unsigned char* weights = static_cast<const unsigned char*>(p.packed) +
                                 (int64_t{share.group} * p.row_blocks + row_block) * p.row_block_bytes +
                                 row * 16;
  const bool last = phase + (p.taps - 1) * p.tap_stride < p.k;
  float sum = 0;
  for (int slab = share.first_slab; slab < share.end_slab; ++slab) {
    const int channels = min(Mode::kSlab, p.cin_group - slab * Mode::kSlab);
    for (int j = 0; j < p.taps - (last ? 0 : 1); ++j) {
      const int64_t position = u - int64_t{j} * p.step;
      if (position < 0 || position >= p.l) continue;
      const unsigned char* block = weights + (int64_t{slab} * p.taps + j) * Mode::kParts * kSm90BlockBytes;
      for (int c = 0; c < channels; ++c) {
        if (!p.deep.has(slab * Mode::kSlab + c, j, position)) continue;
        const T value = x[(int64_t{slab} * Mode::kSlab + c) * p.x_step[1] + position];
        const unsigned char* at = block + c / Mode::kUnit * kSm90Rows * 16 + c % Mode::kUnit * sizeof(T);
        float weight = widen(*reinterpret_cast<const T*>(at));
        if constexpr (Mode::kParts == 2) weight += *reinterpret_cast<const float*>(at + kSm90BlockBytes);
        float operand = widen(value);
        if constexpr (std::is_same_v<Mode, Tf32>) {
          operand = __uint_as_float(sm80::to_tf32(__float_as_uint(operand)));
        }
        sum = fmaf(operand, weight, sum);
      }
    }
  }
  return sum;
}

#endif

}  // namespace tconv::cuda::sm90
