// Sums of cuda.sm90.blocked where channel blocks hold float32 in float16 (blocked_scale.cuh): which of them
// may be wrong, and the same from x and weights as the caller has them.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/each_sum.cuh"
#include "cuda/sm90/row_place.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A thread's sums of the first `columns` columns that are too small, infinite or NaN. (The operands of other
// columns are whatever was in memory, so their sums may be NaN in every tile.) Found before outputs are
// stored, so that sums need no registers after that.
template <int Count>
class WrongSums {
 public:
  WrongSums() = default;
  __device__ WrongSums(const float (&sums)[Count], float least, int columns) : columns_(columns) {
    // Hardly ever is there one, so one instruction a sum finds that there is none.
    float zeros[4] = {}, lowest = __uint_as_float(kInfBits);
    if (columns >= 2 * Count) {
#pragma unroll
      for (int i = 0; i < Count; ++i) zeros[i % 4] = fmaf(sums[i], 0.f, zeros[i % 4]);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) zeros[i % 4] = fmaf(inside(i) ? sums[i] : 0.f, 0.f, zeros[i % 4]);
    }
    if (least > 0) {
#pragma unroll
      for (int i = 0; i < Count; ++i) lowest = fminf(lowest, inside(i) ? fabsf(sums[i]) : lowest);
    }
    any_ = __any_sync(~0u, !(zeros[0] + zeros[1] + (zeros[2] + zeros[3]) == 0) || lowest < least);
    if (!any_) return;
    set_ = sums_that(sums, [least](float sum) {
      return !(fabsf(sum) >= least) || fabsf(sum) >= __uint_as_float(kInfBits);
    });
  }

  // The same in all lanes of a warp.
  __device__ bool any() const {
    return any_;
  }

  // Calls again(i, lane), by all lanes of a warp together, for each of its sums if exists(i): whether it is
  // one of an output.
  template <class Exists, class Again>
  __device__ void for_each(const Exists& exists, const Again& again) {
    if (any_) set_.for_each_of_warp([&](int i) { return inside(i) && exists(i); }, again);
  }

 private:
  __device__ bool inside(int i) const {
    return WgmmaAccumulator<2 * Count>::column(static_cast<int>(threadIdx.x % 32), i) < columns_;
  }

  SumSet<1, Count> set_;
  int columns_ = 0;
  bool any_ = false;
};

// What a writer of gathered tiles leaves to be made again.
template <class S>
using LaterSums = std::conditional_t<kScaledBlocks<S>, WrongSums<S::kN / 2>, SumSet<1, S::kN / 2>>;

// A product of a packed row's sum.
template <class S>
struct ExactProduct {
  bool there;
  float x, weight;

  // ci: of the form's channels. j: tap.
  __device__ ExactProduct(const typename S::Params& p, const Block& block, const RowPlace& at, int64_t n,
                          int64_t u, int ci, int j) {
    const DeepTaps& deep = p.sizes.deep;
    const int64_t position = u - int64_t{j} * p.sizes.step;
    there = j < p.sizes.taps && ci < p.sizes.cin_group && position >= 0 && position < p.sizes.l;
    int64_t place = -1;
    DeepTaps::Element from{ci, position, true};
    if (there) {
      place = p.raw.weights.template place<true>(block.group, ci, at.cout, at.phase + j * p.sizes.tap_stride);
      if (deep.phases > 0) from = deep.element_of_phases(ci, j, position);
    }
    there = there && place >= 0 && from.there;
    const int64_t channel = block.group * p.raw.channels + from.channel;
    const int64_t element = n * p.raw.x_step[0] + channel * p.raw.x_step[1] + from.position * p.raw.x_step[2];
    x = there ? __ldg(static_cast<const float*>(p.raw.x) + element) : 0;
    weight = there ? __ldg(static_cast<const float*>(p.raw.weight) + place) : 0;
  }
  // Operands as the mode rounds them.
  __device__ float add_to(float sum) const { return there ? fmaf(operand(x), operand(weight), sum) : sum; }

 private:
  __device__ static float operand(float v) {
    return S::Mode::kParts == 1 ? __uint_as_float(to_tf32(__float_as_uint(v))) : v;
  }
};

// Whether the split's first product of an output is NaN: then so is the sum, whatever comes, and it is
// stored as it should be. If everything is NaN, this is all that is asked of an output.
template <class S>
__device__ inline bool begins_with_nan(const typename S::Params& p, const Block& block, int row_block,
                                       int row, int64_t n, int64_t u) {
  const RowPlace at(p.sizes, row_block, row);
#pragma unroll 1
  for (int j = 0; j < p.sizes.taps; ++j) {
    const ExactProduct<S> product(p, block, at, n, u, block.first_slab * S::Mode::kSlab, j);
    if (!product.there) continue;
    const float v = product.add_to(0);
    return v != v;
  }
  return false;
}

// The split's share of one output, by all lanes of a warp: each has a channel of every slab.
template <class S>
__device__ __noinline__ float exact_sum(const typename S::Params& p, const Block& block, int row_block,
                                        int row, int64_t n, int64_t u) {
  static_assert(S::Mode::kSlab == 32);
  constexpr int kAtOnce = 4;  // loads of either operand that are under way
  const RowPlace at(p.sizes, row_block, row);
  float sum = 0;
#pragma unroll 1
  for (int slab = block.first_slab; slab < block.end_slab && !__any_sync(~0u, sum != sum); ++slab) {
    const int ci = slab * S::Mode::kSlab + static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int first = 0; first < p.sizes.taps; first += kAtOnce) {
      const ExactProduct<S> products[kAtOnce] = {{p, block, at, n, u, ci, first},
                                                 {p, block, at, n, u, ci, first + 1},
                                                 {p, block, at, n, u, ci, first + 2},
                                                 {p, block, at, n, u, ci, first + 3}};
#pragma unroll
      for (const ExactProduct<S>& product : products) sum = product.add_to(sum);
    }
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  return sum;
}

#endif

}  // namespace tconv::cuda::sm90
