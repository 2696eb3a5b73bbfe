// PromotedProduct: the sums of split operands (arithmetic.cuh, Fp16Split), in three sets:
//
//   for each slab of 32 channels, up to 4 taps:
//     for each tap j:  fresh[u][row] += hi[u - j*step] * hi[row]
//                      small[u][row] += hi[u - j*step] * lo[row] + lo[u - j*step] * hi[row]           3 wgmma
//     sums += fresh, in float32 registers
//   sums += small / 2^11
//
// The tensor core truncates when it accumulates: fresh has at most 8 steps of 16 channels, small is 2^-11 of
// it. One fragment and three sets of sums fill the registers: while a warpgroup makes a fragment, the others
// multiply.
#pragma once

#include "cuda/sm90/operand_register.cuh"
#include "cuda/sm90/tile_readers.cuh"
#include "cuda/sm90/tile_sums.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class PromotedProduct {
  using Slabs = PackedSlabs<S>;
  static constexpr ptx::Operand kType = kOperand<typename S::Mode>;
  using Set = float[Slabs::kN / 2];

 public:
  using Sums = TileSums<S>;
  static constexpr bool kPending = false;
  static constexpr int kTaps = 4;  // between waits

  __device__ explicit PromotedProduct(Sums& sums) : total_(sums[0]) {
#pragma unroll
    for (float& v : total_) v = 0;
  }

  // x in registers, 16 channels of all taps.
  __device__ void multiply(const SplitFragment<S::kGroup>& f, uint64_t w, bool first_half) {
    const int more = first_half ? 0 : 1;
    ptx::wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < S::kGroup; ++tap) {
      const uint64_t hi = w + tap * Slabs::kTapUnits, lo = hi + Slabs::kPartUnits;
      const auto &x_hi = f.hi[S::kGroup - 1 - tap], &x_lo = f.lo[S::kGroup - 1 - tap];
      ptx::wgmma<kType, Slabs::kN>(fresh_, x_hi, hi, tap > 0 ? 1 : more);
      ptx::wgmma<kType, Slabs::kN>(small_, x_hi, lo, tap > 0 ? 1 : accumulate_);
      ptx::wgmma<kType, Slabs::kN>(small_, x_lo, hi, 1);
    }
    ptx::wgmma_commit();
    accumulate_ = 1;
  }
  // x in shared memory, 32 channels of a tap.
  template <class Operand>
  __device__ void multiply(const Operand& x, const TapOperands& at, bool first) {
    const int more = first ? 0 : 1;
    ptx::wgmma_fence();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t w = at.w + half * (Slabs::kPartUnits / 2);
      const uint64_t x_hi = x.descriptor(at.x, half, 0, 0), x_lo = x.descriptor(at.x, half, 0, 1);
      const uint64_t w_hi = Operand::weights(w), w_lo = Operand::weights(w + Slabs::kPartUnits);
      ptx::wgmma<kType, Slabs::kN>(fresh_, x_hi, w_hi, half > 0 ? 1 : more);
      ptx::wgmma<kType, Slabs::kN>(small_, x_hi, w_lo, half > 0 ? 1 : accumulate_);
      ptx::wgmma<kType, Slabs::kN>(small_, x_lo, w_hi, 1);
    }
    accumulate_ = 1;
    ptx::wgmma_commit();
  }
  // Waits until all products are over. The sums of a slab are added up in float32.
  __device__ void wait() {
    ptx::wgmma_wait<0>(fresh_, small_);
  }
  __device__ void promote() {
#pragma unroll
    for (int i = 0; i < Slabs::kN / 2; ++i) total_[i] += fresh_[i];
  }
  __device__ void finish() {
#pragma unroll
    for (int i = 0; i < Slabs::kN / 2; ++i) total_[i] = fmaf(small_[i], Fp16Split::kDown, total_[i]);
  }

 private:
  Set& total_;
  Set fresh_, small_;
  int accumulate_ = 0;
};

#endif

}  // namespace tconv::cuda::sm90
