// SingleProduct: all of a tile's products in one set of sums.
#pragma once

#include "cuda/sm90/operand_register.cuh"
#include "cuda/sm90/tile_readers.cuh"
#include "cuda/sm90/tile_sums.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class SingleProduct {
  using Slabs = PackedSlabs<S>;
  static constexpr ptx::Operand kType = kOperand<typename S::Mode>;

 public:
  using Sums = TileSums<S>;
  static constexpr bool kPending = true;  // operands may be made while products are under way
  static constexpr int kTaps = 0;         // between waits: any

  __device__ explicit SingleProduct(Sums& sums) : sums_(sums) {}

  // x in registers, 16 channels of all taps.
  __device__ void multiply(const Fragment<S::kGroup>& f, uint64_t w, bool /*first_half*/) {
    ptx::wgmma_fence();
#pragma unroll
    for (int tap = 0; tap < S::kGroup; ++tap) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::wgmma<kType, Slabs::kN>(sums_[m], f.rows[2 * m + S::kGroup - 1 - tap],
                                     w + tap * Slabs::kTapUnits, tap > 0 ? 1 : accumulate_);
      }
    }
    ptx::wgmma_commit();
    accumulate_ = 1;
  }
  // x in shared memory, 32 channels of a tap.
  template <class Operand>
  __device__ void multiply(const Operand& x, const TapOperands& at, bool /*first*/) {
    ptx::wgmma_fence();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::wgmma<kType, Slabs::kN>(sums_[m], x.descriptor(at.x, half, m, 0),
                                     Operand::weights(at.w + half * Slabs::kTapUnits / 2),
                                     half > 0 ? 1 : accumulate_);
      }
    }
    accumulate_ = 1;
    ptx::wgmma_commit();
  }
  // Waits until all products are over.
  __device__ void wait() {
    ptx::wgmma_wait<0>(sums_);
  }
  __device__ void promote() {}
  __device__ void finish() {}

 private:
  Sums& sums_;
  int accumulate_ = 0;
};

#endif

}  // namespace tconv::cuda::sm90
