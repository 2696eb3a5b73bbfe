// GatheredWriter: of sums of which packed rows are the rows of wgmma. A kernel has one of two writers, so
// that it has the registers and the code of one.
#pragma once

#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/writer_line.cuh"
#include "cuda/sm90/writer_pass.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S, bool Lines>
class GatheredWriter : public std::conditional_t<Lines, LineWriter<S>, PassWriter<S>> {
 public:
  using Base = std::conditional_t<Lines, LineWriter<S>, PassWriter<S>>;
  using Base::Base;
  using typename Base::Later, typename Base::Params;

  __device__ static bool repairs(const Params& p, const Block& block) {
    return may_need_repairs<S>(p, block);
  }
  // Apart from the loop over tiles, not inline: calls of it are rare.
  __device__ __noinline__ static void make_again(const Params& p, const Block block, unsigned char* shared,
                                                 int tile, Later later) {
    const GatheredWriter w(p, block, shared);
    const int own = static_cast<int>(threadIdx.x % 32);
    if constexpr (kScaledBlocks<S>) {
      const auto exists = [&](int i) {
        const OutputSpot at = w.spot(tile, i, own);
        return at.to >= 0 && !begins_with_nan<S>(p, block, w.row_block(), at.row, at.n, at.u);
      };
      later.for_each(exists, [&](int i, int lane) {
        const OutputSpot at = w.spot(tile, i, lane);
        const float sum = exact_sum<S>(p, block, w.row_block(), at.row, at.n, at.u);
        if (own == 0) w.store_again(at, sum);
      });
    } else {
      later.for_each([&](int i) {
        const OutputSpot at = w.spot(tile, i, own);
        if (at.to >= 0) w.store_again(at, sum_again<S>(p, block, w.row_block(), at.row, at.n, at.u));
      });
    }
  }
};

#endif

}  // namespace tconv::cuda::sm90
