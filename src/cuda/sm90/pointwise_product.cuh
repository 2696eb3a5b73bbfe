// The product of cuda.sm90.pointwise (pointwise.hpp): a warpgroup's sums.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm80/raw_operands.cuh"
#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/pointwise_source.cuh"

namespace tconv::cuda::sm90::pointwise {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// 64 positions by kProducts times kN rows.
template <class S>
class Group {
 public:
  using A = typename S::A;
  using Sums = float[S::kProducts][S::kN / 2];
  static constexpr bool kFloat = S::kElement == 4;

  __device__ Group() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int group = warp / 4;
    first_column_ = group / S::kTile.row_groups() * 64 + warp % 4 * 16;
    first_row_ = group % S::kTile.row_groups() * S::kTile.group_rows();
    const int box = first_column_ / S::kWide, inside = first_column_ % S::kWide;
    if constexpr (kFloat) {
      const int c = lane % 4, i = inside + lane / 4;
      x_ = S::kXAt + box * S::kBoxBytes + c * 128 + (i / 4 ^ c) * 16 + i % 4 * 4;
    } else {
      // Of matrices of 8 rows x 16 bytes, a lane addresses row lane%8 of matrix lane/8.
      const int c = lane / 16 * 8 + lane % 8, unit = inside / 8 + lane / 8 % 2;
      x_ = S::kXAt + box * S::kBoxBytes + c * 128 + (unit ^ lane % 8) * 16;
    }
  }

  // x of a slab, as operands in registers.
  __device__ __forceinline__ void load(uint32_t stage) {
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) load_step(stage + step * A::kDepth * 128, a_[step]);
  }

  // Begins the products of a slab: all its channels, of which those that do not exist are zeros.
  __device__ __forceinline__ void multiply(uint32_t weights, Sums& sums) const {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
      for (int t = 0; t < S::kProducts; ++t) {
        multiply_step(weights, step, first_row_ + t * S::kN, a_[step], sums[t]);
      }
    }
    ptx::wgmma_commit();
  }

  __device__ bool has_unfit() const {
    return unfit_.any();
  }

  // Sums become rows of positions.
  __device__ __forceinline__ void stage_sums(float* staged, const Sums& sums) const {
    using Map = WgmmaAccumulator<S::kN>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int t = 0; t < S::kProducts; ++t) {
#pragma unroll
      for (int e = 0; e < S::kN / 2; ++e) {
        const int row = first_row_ + t * S::kN + Map::column(lane, e);
        staged[row * S::kSumPitch + first_column_ + Map::row(lane, e)] = sums[t][e];
      }
    }
  }

 private:
  __device__ static __forceinline__ void multiply_step(uint32_t weights, int step, int row,
                                                       const uint32_t (&a)[4], float (&sums)[S::kN / 2]) {
    const uint64_t rows = ptx::swizzled_descriptor(weights + row * 128 + step * 32);
    if constexpr (kFloat) {
      ptx::wgmma_tf32<S::kN>(sums, a, rows, 1);
    } else if constexpr (S::kTurned) {
      const uint32_t at = weights + row / S::kWide * S::kBoxBytes + step * A::kDepth * 128;
      ptx::wgmma<kOperand<A>, S::kN, true>(sums, a, ptx::swizzled_descriptor(at, S::kBoxBytes), 1);
    } else {
      ptx::wgmma<kOperand<A>, S::kN>(sums, a, rows, 1);
    }
  }

  __device__ __forceinline__ void load_step(uint32_t at, uint32_t (&a)[4]) {
    at += x_;
    if constexpr (kFloat) {
      // Eight positions further are two units further, four channels further change bit 2 of the unit.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t v = ptx::load_shared4((at ^ (i % 2 * 32 | i / 2 * 64)) + i / 2 * 512);
        uint32_t parts[1];
        unfit_.note(v, i % 2);
        sm80::prepare<A>(v, parts);
        a[i] = parts[0];
      }
    } else {
      const uint4 v = ptx::load_matrices_transposed(at);
      a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    }
  }

  int first_row_, first_column_;
  uint32_t x_;
  uint32_t a_[S::kSteps][4];
  sm80::Unfit<A> unfit_;
};

#endif

}  // namespace tconv::cuda::sm90::pointwise
