// GatheredProduct: the sums of one tile, if x is gathered: packed rows are the rows of wgmma, positions are
// its columns, and both operands are in shared memory. The block's two warpgroups multiply side by side or,
// if the plan says so (sm90_set_turns), by turns.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/each_sum.cuh"
#include "cuda/sm90/row_place.cuh"
#include "cuda/sm90/scaled_tile.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class GatheredProduct {
 public:
  using Mode = typename S::Mode;
  using Sums = float[S::kN / 2];

  using Params = typename S::Params;

  __device__ GatheredProduct(const Params& p, const Block& block, const Rings<S>& rings,
                             unsigned char* shared, int /*warp*/, int /*lane*/)
      : p_(p),
        block_(block),
        rings_(rings),
        tiles_(p, block),
        marks_(reinterpret_cast<const uint2*>(shared + p.source.shared_marks)),
        unscales_(reinterpret_cast<const float*>(shared + p.source.shared_scale) + 16) {
    // The same in all lanes, which the compiler then knows: descriptors stay in uniform registers.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const int row_block = S::kRowBlocks == 2 ? warpgroup : 0, column = S::kRowBlocks == 2 ? 0 : warpgroup;
    weights_ = static_cast<uint32_t>(ptx::matrix_descriptor(
        ptx::shared_address(shared + p.weights.shared) + row_block * Mode::kParts * kSm90PartBytes,
        kSm90Rows * 16, kAlongRows));
    x_ = static_cast<uint32_t>(ptx::matrix_descriptor(ptx::shared_address(shared) + column * S::kN * 16,
                                                      p.source.pitch * 16, kAlongRows));
    if (takes_turns() && warpgroup == 1) give_turn(0);
    if (resident()) {
      for (int slot = 0; slot < p.weights.slots; ++slot) ptx::barrier_wait(rings.weights_full(slot), 0);
    }
  }

  __device__ int next() {
    if (!first_) tiles_.next(p_, block_);
    first_ = false;
    return tiles_.there(p_) ? tiles_.tile : -1;
  }
  __device__ void finish() const {
    if (takes_turns() && threadIdx.x < 128) wait_for_turn(0);  // the other's last turn has been given back
  }
  __device__ void run(Sums& sums, int tile) {
    if (takes_turns()) wait_for_turn(static_cast<int>(threadIdx.x / 128));
    make_sums(sums, tile);
    if (takes_turns()) give_turn(1 - static_cast<int>(threadIdx.x / 128));
  }
  __device__ const Seen& seen() const { return seen_; }

 private:
  __device__ void make_sums(Sums& sums, int tile) {
    if constexpr (kScaledBlocks<S>) {
      run_scaled(sums, tile);
      return;
    }
    seen_ = sums_of_tile(sums);
    if constexpr (kMarksTiles<S>) {
      const uint32_t told = __shfl_sync(0xffffffffu, told_, 0);
      seen_ = {wrong(sums, told & kTiny, tile), __uint_as_float(told & ~kTiny)};
    }
  }

  // Whether all weights of the block's tiles have a slot. Then nothing but x is waited for: where few
  // products make a tile, a warpgroup that multiplies alone is bound by the latencies of its loop.
  __device__ bool resident() const { return S::kMayStay && p_.weights.resident; }
  // Whether one warpgroup multiplies while the other stores.
  __device__ bool takes_turns() const { return S::kStoring.turns && p_.grid.turns; }

  // Sums over the parts of x and, if its scale is wide, over tails (blocked_scale.cuh).
  __device__ void run_scaled(Sums& sums, int tile) {
    const int row_block = block_.run * S::kRowBlocks + (S::kRowBlocks == 2 ? threadIdx.x / 128 : 0);
    bool tails = false;
    if constexpr (Mode::kParts == 1) {
      const ScaledBlocksTile<S> scaled(p_, block_, tile, row_block);  // comes while sums are made
      do {
        sums_of_tile(sums, tails);
      } while (goes_on(sums, scaled.wide(), tails));
      seen_ = scaled.seen();
    } else {
      bool wide = false;
      do {
        sums_of_tile(sums, tails);
        const ScaledBlocksTile<S> scaled(p_, block_, tile, row_block);  // no register is left before
        wide = scaled.wide();
        seen_ = scaled.seen();
      } while (goes_on(sums, wide, tails));
    }
  }
  // After sums over x: whether those over tails are added to them. After these: undoes their scale.
  __device__ static bool goes_on(Sums& sums, bool wide, bool& tails) {
    if (!wide) return false;
    const float by = tails ? kTailDown : kTailUp;
#pragma unroll
    for (int i = 0; i < S::kN / 2; ++i) sums[i] *= by;
    tails = !tails;
    return tails;
  }

  // Calls multiply(first, end) for each of the tile's stages, once it is full: its taps.
  template <class Multiply>
  __device__ __forceinline__ void for_stages(const Multiply& multiply) {
    SlabPhase phase(p_, block_);
    for (int slab = block_.first_slab; slab < block_.end_slab; ++slab) {
      const int first = S::kMayLackTaps && phase.lacks_first_tap(p_) ? 1 : 0;
      if constexpr (S::kMayLackTaps) phase.next(p_);
      for (int group = 0; group < p_.source.tap_groups; ++group) {
        const int taps = min(p_.source.tap_group, p_.sizes.taps - group * p_.source.tap_group);
        ptx::barrier_wait(rings_.full(0, stage_.at), stage_.parity);
        multiply(first, taps);
        stage_.advance(p_.source.stages);
      }
    }
  }

  // A slot or a stage is released once the wgmma that read it are complete, which is waited for after the
  // next ones have been issued. (If a wait is not in every iteration of the loop, ptxas serialises all wgmma,
  // C7520.) Returns what the loading warps saw in the tile. more: adds to what the sums are.
  __device__ Seen sums_of_tile(Sums& sums, bool more = false) {
    if constexpr (kScaledBlocks<S> && Mode::kParts == 2) return promoted_beside(sums, more);
    if constexpr (std::is_same_v<Mode, Fp16Split>) return promoted_scaled(sums);
    if constexpr (Mode::kParts == 2) return promoted(sums);
    told_ = 0;
    int accumulate = more ? 1 : 0, used_stage = -1, used_slot = -1;
    for_stages([&](int first, int taps) {
      if constexpr (kMarksTiles<S>) {
        see();
      }
      uint32_t b = x_ + (stage_.at * p_.source.stage_bytes >> 4) + p_.source.halo - first * p_.sizes.step;
      for (int i = first; i < taps; ++i) {
        if (!resident()) ptx::barrier_wait(rings_.weights_full(slot_.at), slot_.parity);
        const uint32_t a = weights_ + (slot_.at * S::kSlotBytes >> 4);
        ptx::wgmma_fence();
#pragma unroll
        for (int h = 0; h < S::kN / kWide; ++h) {
          auto& part = *reinterpret_cast<float(*)[kWide / 2]>(&sums[h * kWide / 2]);
          multiply<kWide>(part, a, b + h * kWide, accumulate);
          multiply<kWide>(part, a + kStepA, b + h * kWide + p_.source.step_pitch, 1);
        }
        accumulate = 1;
        b -= p_.sizes.step;
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        release(used_stage, used_slot);
        used_stage = i == taps - 1 ? stage_.at : -1;
        used_slot = resident() ? -1 : slot_.at;
        slot_.advance(p_.weights.slots);
      }
    });
    ptx::wgmma_wait<0>(sums);
    release(used_stage, used_slot);
    return {};
  }

  // What the loading warps reported with the stage. Both numbers share a register, of which there are few;
  // and no branch, in which the warp would wait for them before it multiplies.
  __device__ void see() {
    const uint2 tiny = leader_ ? marks_[stage_.at] : uint2{0, 0};
    const float unscale = leader_ ? unscales_[stage_.at] : 0;
    const uint32_t all = __dp4a(tiny.x, 0x01010101u, __dp4a(tiny.y, 0x01010101u, told_ & kTiny));
    told_ = min(all, kSm90Beyond) | __float_as_uint(unscale);
  }

  // Whether some output of the tile may be wrong (fp16_scale.cuh); the same in all threads of the warpgroup.
  __device__ bool wrong(const Sums& sums, uint32_t tiny, int tile) const {
    // A vote, though all lanes have the same number: the compiler then knows that they agree.
    if (!__any_sync(0xffffffffu, tiny != 0)) return false;
    const float least = static_cast<float>(tiny) * p_.marks.least_sum;
    const bool small = sums_that(sums, [least](float sum) { return fabsf(sum) < least; }).any([&](int i) {
      return is_output(tile, i);
    });
    return any_of_warpgroup(threadIdx.x / 128, small || tiny >= kSm90Beyond);
  }
  // Whether this lane's sum i is one of an output.
  __device__ bool is_output(int tile, int i) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, warpgroup = threadIdx.x / 128;
    const int column = (S::kRowBlocks == 2 ? 0 : warpgroup * S::kN) + Registers::column(lane, i);
    const Sm90Columns& columns = p_.columns;
    int64_t u = columns.first_u + column;
    if (columns.folded) {
      const int64_t c = int64_t{tile} * S::kColumns + column;
      const int64_t n = columns.sample_pitch.divide(static_cast<uint32_t>(c));
      if (n >= p_.sizes.samples) return false;
      u = columns.first_u + c - n * columns.sample_columns;
    } else {
      const int n = static_cast<int>(columns.sample_tiles.divide(tile));
      u += int64_t{tile - n * static_cast<int>(columns.sample_tiles.value)} * S::kColumns;
    }
    const int row_block = block_.run * S::kRowBlocks + (S::kRowBlocks == 2 ? warpgroup : 0);
    return has_output(p_, row_block, warp * Registers::kRows + Registers::row(lane, i), u);
  }

  using Registers = WgmmaAccumulator<S::kN>;
  static constexpr uint32_t kTiny = 0xff;
  static_assert(kSm90Beyond <= kTiny);
  static constexpr int kWide = S::kWide;
  static constexpr uint32_t kAlongRows = 128;   // bytes from 8 rows, or columns, to the next ones
  static constexpr int kStepA = 2 * kSm90Rows;  // 16-byte units from a step's weights to the next step's

  __device__ void release(int stage, int slot) const {
    if (!leader_) return;
    if (stage >= 0) ptx::barrier_arrive(rings_.empty(0, stage));
    if (slot >= 0) ptx::barrier_arrive(rings_.weights_empty(slot));
  }

  // Split operands: a tap's products in fresh sums, the small ones first, which are then added up in float32.
  __device__ Seen promoted(Sums& total) {
    uint32_t marked = 0;
#pragma unroll
    for (int i = 0; i < S::kN / 2; ++i) total[i] = 0;
    Sums sums;
    for_stages([&](int /*first*/, int taps) {
      if (leader_) marked |= marks_[stage_.at].x | marks_[stage_.at].y;
      for (int i = 0; i < taps; ++i) {
        ptx::barrier_wait(rings_.weights_full(slot_.at), slot_.parity);
        const uint32_t a = weights_ + (slot_.at * S::kSlotBytes >> 4);
        const uint32_t b = x_ + (stage_.at * p_.source.stage_bytes >> 4) + p_.source.halo - p_.sizes.step * i;
        const uint32_t a_lo = a + (kSm90PartBytes >> 4), b_lo = b + kSm90Blocks * p_.source.pitch;
        ptx::wgmma_fence();
        multiply<S::kN>(sums, a_lo, b, 0);
        multiply<S::kN>(sums, a, b_lo, 1);
        multiply<S::kN>(sums, a_lo + kStepA, b + p_.source.step_pitch, 1);
        multiply<S::kN>(sums, a + kStepA, b_lo + p_.source.step_pitch, 1);
        multiply<S::kN>(sums, a, b, 1);
        multiply<S::kN>(sums, a + kStepA, b + p_.source.step_pitch, 1);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>(sums);
        release(i == taps - 1 ? stage_.at : -1, slot_.at);
        slot_.advance(p_.weights.slots);
#pragma unroll
        for (int k = 0; k < S::kN / 2; ++k) total[k] += sums[k];
      }
    });
    return {__shfl_sync(0xffffffffu, marked != 0, 0) != 0, 1};
  }

  // The same for float16: the small products are 2^11 times larger, so they are added up separately before
  // the others take their registers. There is no room for a third set of sums. Up to 4 taps share the waits,
  // while as many slots are on their way.
  __device__ Seen promoted_scaled(Sums& total) {
    const int together = min(4, p_.weights.slots / 2);
    told_ = 0;
#pragma unroll
    for (int i = 0; i < S::kN / 2; ++i) total[i] = 0;
    Sums sums;
    for_stages([&](int first, int taps) {
      if constexpr (kMarksTiles<S>) {
        see();
      }
      for (int i = first; i < taps;) {
        const int end = min(taps, i + together);
        RingPlace slot = slot_;
        uint32_t b = x_ + (stage_.at * p_.source.stage_bytes >> 4) + p_.source.halo - p_.sizes.step * i;
#pragma unroll 1
        for (int tap = i; tap < end; ++tap) {
          ptx::barrier_wait(rings_.weights_full(slot.at), slot.parity);
          multiply_small(sums, weights_ + (slot.at * S::kSlotBytes >> 4), b, tap > i);
          b -= p_.sizes.step;
          slot.advance(p_.weights.slots);
        }
        ptx::wgmma_wait<0>(sums);
#pragma unroll
        for (int k = 0; k < S::kN / 2; ++k) total[k] = fmaf(sums[k], Fp16Split::kDown, total[k]);
        slot = slot_;
        b += p_.sizes.step * (end - i);
#pragma unroll 1
        for (int tap = i; tap < end; ++tap) {
          multiply_large(sums, weights_ + (slot.at * S::kSlotBytes >> 4), b, tap > i);
          b -= p_.sizes.step;
          slot.advance(p_.weights.slots);
        }
        ptx::wgmma_wait<0>(sums);
        for (; i < end; ++i) {
          release(i == taps - 1 ? stage_.at : -1, slot_.at);
          slot_.advance(p_.weights.slots);
        }
#pragma unroll
        for (int k = 0; k < S::kN / 2; ++k) total[k] += sums[k];
      }
    });
    return {};
  }
  // The same with a third set of sums for the small products, which need not be added up before the end: the
  // tensor cores multiply them while the large ones of a tap are added up.
  __device__ Seen promoted_beside(Sums& total, bool more) {
    int accumulate = 0, used_stage = -1, used_slot = -1;
    Sums sums, small;
    if (!more) {
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) total[i] = 0;
    }
    for_stages([&](int first, int taps) {
      uint32_t b = x_ + (stage_.at * p_.source.stage_bytes >> 4) + p_.source.halo - first * p_.sizes.step;
      for (int i = first; i < taps; ++i) {
        ptx::barrier_wait(rings_.weights_full(slot_.at), slot_.parity);
        const uint32_t a = weights_ + (slot_.at * S::kSlotBytes >> 4);
        multiply_large(sums, a, b, 0);
        multiply_small(small, a, b, accumulate);
        accumulate = 1;
        b -= p_.sizes.step;
        ptx::wgmma_wait<1>(sums);
        release(used_stage, used_slot);
        used_stage = i == taps - 1 ? stage_.at : -1;
        used_slot = slot_.at;
        slot_.advance(p_.weights.slots);
#pragma unroll
        for (int k = 0; k < S::kN / 2; ++k) total[k] += sums[k];
      }
    });
    ptx::wgmma_wait<0>(small);
    release(used_stage, used_slot);
#pragma unroll
    for (int k = 0; k < S::kN / 2; ++k) total[k] = fmaf(small[k], Fp16Split::kDown, total[k]);
    return {};
  }
  // From lower halves of descriptors: the upper ones are all alike, and there are few registers.
  template <int N>
  __device__ static void multiply(float (&sums)[N / 2], uint32_t a, uint32_t b, int accumulate) {
    constexpr uint64_t kUpper = static_cast<uint64_t>(kAlongRows >> 4) << 32;
    ptx::wgmma<kOperand<Mode>, N>(sums, kUpper | a, kUpper | b, accumulate);
  }
  // 32 channels of a tap, from descriptors of both operands' first parts.
  __device__ void multiply_small(Sums& sums, uint32_t a, uint32_t b, int accumulate) const {
    const uint32_t a_lo = a + (kSm90PartBytes >> 4), b_lo = b + kSm90Blocks * p_.source.pitch;
    ptx::wgmma_fence();
    multiply<S::kN>(sums, a_lo, b, accumulate);
    multiply<S::kN>(sums, a, b_lo, 1);
    multiply<S::kN>(sums, a_lo + kStepA, b + p_.source.step_pitch, 1);
    multiply<S::kN>(sums, a + kStepA, b_lo + p_.source.step_pitch, 1);
    ptx::wgmma_commit();
  }
  __device__ void multiply_large(Sums& sums, uint32_t a, uint32_t b, int accumulate) const {
    ptx::wgmma_fence();
    multiply<S::kN>(sums, a, b, accumulate);
    multiply<S::kN>(sums, a + kStepA, b + p_.source.step_pitch, 1);
    ptx::wgmma_commit();
  }

  const Params& p_;
  const Block& block_;
  Rings<S> rings_;
  ColumnTiles tiles_;
  bool first_ = true;
  Seen seen_;
  // In the leader: what undoes the tile's scale, a power of two, and how many of its operands are tiny, in
  // the bits of the mantissa that are zero.
  uint32_t told_ = 0;
  uint32_t weights_, x_;   // lower halves of descriptors
  const uint2* marks_;     // of each stage, a byte a warp that loads
  const float* unscales_;  // of each stage: what undoes its tile's scale
  RingPlace stage_, slot_;
  // In each warp: the lane that releases a stage, and so also reads what is stored beside it.
  const bool leader_ = threadIdx.x % 32 == 0;
};

#endif

}  // namespace tconv::cuda::sm90
