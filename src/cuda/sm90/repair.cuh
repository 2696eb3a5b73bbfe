// Recomputes outputs that became NaN because a zero that stands for no product met an infinity, by fused
// multiply-adds over what exists. Slow, and done only if there are such zeros or weights (Sm90Params::ragged,
// marks). A sum ends as soon as it is NaN: with data that are NaN throughout, nearly every sum at once.
#pragma once

#include "cuda/sm90/each_sum.cuh"
#include "cuda/sm90/row_place.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Calls again(i) for each of some sums that is NaN, or for all of them, row after row. It serves the repair
// of outputs, and reads none of them back: a column that nobody stores may be NaN in every tile, because its
// operands are whatever was in memory.
template <class Sums, class Again>
__device__ inline void for_each_nan(const Sums& sums, bool all, const Again& again) {
  sums_that(sums, [all](float sum) { return all || sum != sum; }).for_each(again);
}

// An output that is made again.
struct OutputSpot {
  int row;
  int64_t n, u;
  int64_t to;  // where it goes; -1: the sum is none of an output
};

// Whether sums of the block's warpgroup may have to be made again; the same in all lanes of a warp.
template <class S>
__device__ inline bool may_need_repairs(const typename S::Params& p, const Block& block) {
  if constexpr (kMarksTiles<S>) {
    return false;
  } else if constexpr (kScaledBlocks<S> || S::Mode::kParts == 2) {
    return true;
  } else {
    const int row_block =
        block.run * S::kRowBlocks + (S::kRowBlocks == 2 ? static_cast<int>(threadIdx.x) / 128 : 0);
    return __any_sync(~0u, p.sizes.ragged || weight_marks(p, block, row_block) != 0);
  }
}

// The sums of a tile to be made again: those that are NaN or, in two parts, all of them where an operand is
// marked. Whether a lane of the warp has one.
template <class S, int Count>
__device__ inline bool find_again(const typename S::Params& p, const float (&sums)[Count], bool marked,
                                  SumSet<1, Count>& found) {
  const bool all = S::Mode::kParts == 2 && marked;
  if (!__any_sync(~0u, all || ((p.sizes.ragged || marked) && any_nan(sums)))) return false;
  found = sums_that(sums, [all](float sum) { return all || sum != sum; });
  return true;
}

// Whether rows of x become channel blocks in shared memory, whose channels are in units (UnitOrder).
template <class S>
concept FromUnits = requires {
  S::kFromUnits;
};

// An operand of an x in channel blocks.
template <class S>
__device__ inline float blocked_operand(const typename S::Params& p, const Block& block, int channel,
                                        int64_t n, int64_t position) {
  using Mode = typename S::Mode;
  const int64_t channel_block = int64_t{block.group} * p.grid.slabs * kSm90Blocks + channel / Mode::kUnit;
  const int64_t unit =
      channel_block * p.sizes.x_step[1] + n * p.sizes.x_step[0] + position - p.columns.first_u;
  auto value = static_cast<const typename Mode::T*>(p.operands.x)[unit * Mode::kUnit + channel % Mode::kUnit];
  if constexpr (std::is_same_v<Mode, Tf32>) {
    return __uint_as_float(__float_as_uint(value) & kTf32Mask);
  } else {
    return widen(value);
  }
}

// The split's share of one output, from x and the packed weights, in the order of the main loop. x passes
// through the prologue, and is rounded as the mode rounds it.
template <class S>
__device__ inline float sum_again(const typename S::Params& p, const Block& block, int row_block, int row,
                                  int64_t n, int64_t u) {
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  const int phase = RowPlace(p.sizes, row_block, row).phase;
  const int group_channel = block.group * (FromUnits<S> ? p.sizes.deep.units.channels : p.sizes.cin_group);
  const T* x = static_cast<const T*>(p.operands.x) + n * p.sizes.x_step[0] +
               int64_t{group_channel} * p.sizes.x_step[1];
  const unsigned char* weights =
      static_cast<const unsigned char*>(p.operands.packed) +
      (int64_t{block.group} * p.sizes.row_blocks + row_block) * p.weights.row_block_bytes + row * 16;
  const bool last = phase + (p.sizes.taps - 1) * p.sizes.tap_stride < p.sizes.k;
  float sum = 0;
  for (int slab = block.first_slab; slab < block.end_slab && sum == sum; ++slab) {
    const int channels = min(Mode::kSlab, p.sizes.cin_group - slab * Mode::kSlab);
    for (int j = 0; j < p.sizes.taps - (last ? 0 : 1) && sum == sum; ++j) {
      const int64_t position = u - int64_t{j} * p.sizes.step;
      if (position < 0 || position >= p.sizes.l) continue;
      const unsigned char* tap = weights + (int64_t{slab} * p.sizes.taps + j) * Mode::kParts * kSm90PartBytes;
      for (int c = 0; c < channels && sum == sum; ++c) {
        DeepTaps::Element from{slab * Mode::kSlab + c, position, true};
        if constexpr (FromUnits<S>) {
          from = p.sizes.deep.element(from.channel, j, position);
        } else {
          from.there = p.sizes.deep.has(from.channel, j, position);
        }
        if (!from.there) continue;
        const unsigned char* at = tap + c / Mode::kUnit * kSm90Rows * 16 + c % Mode::kUnit * sizeof(T);
        float weight = widen(*reinterpret_cast<const T*>(at));
        if constexpr (Mode::kParts == 2) weight += *reinterpret_cast<const float*>(at + kSm90PartBytes);
        float operand = 0;
        if constexpr (FromBlocks<S>) {
          operand = blocked_operand<S>(p, block, slab * Mode::kSlab + c, n, position);
        } else {
          const T value = x[from.channel * p.sizes.x_step[1] + from.position];
          operand = widen(behind(typename S::Prologue{}, value, group_channel + from.channel));
          if constexpr (std::is_same_v<Mode, Tf32>)
            operand = __uint_as_float(to_tf32(__float_as_uint(operand)));
        }
        sum = fmaf(operand, weight, sum);
      }
    }
  }
  return sum;
}

#endif

}  // namespace tconv::cuda::sm90
