// The operand of cuda.sm90.weight that comes from registers: where a lane's rows of dy are in a slot, and how
// they are read.
#pragma once

#include "cuda/device/ptx/sm90_tf32.cuh"
#include "cuda/sm80/weight_stage.cuh"
#include "cuda/sm90/weight.hpp"

namespace tconv::cuda::sm90::weight {

template <class M, int RowBlocks, int N>
struct Shape {
  using Mode = M;
  static constexpr int kRowBlocks = RowBlocks, kN = N;
  // The names are those of cuda/sm80/weight.cuh: there, rows are ci.
  static constexpr int kRows = N, kColumns = 64 * kSm90WeightWarpgroups * RowBlocks;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using sm80::weight::Skew;

// The row of dy in a slot for a row of the product: bytes, and above them its skew.
template <class S>
struct LaneRows {
  using T = typename S::Mode::T;
  static constexpr int kSkewAt = 24;
  uint32_t of[S::kRowBlocks][2];

  __device__ static int row(int warpgroup, int block, int half) {
    return (warpgroup * S::kRowBlocks + block) * 64 + threadIdx.x / 32 % 4 * 16 + half * 8 +
           threadIdx.x % 32 / 4;
  }
  __device__ LaneRows(const Sm90WeightParams& params, int warpgroup) {
    const WeightParams& p = params.k;
    const int position = threadIdx.x % 4 * (sizeof(T) == 2 ? 2 : 1);
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int c = row(warpgroup, b, half);
        if (c >= p.rows * p.block_taps) c = 0;  // a row without an element of dw
        const int tap = c / p.rows, rest = c - tap * p.rows;
        const int cout = rest / p.block_phases, phase = rest - cout * p.block_phases;
        const uint32_t place = params.x_bytes + cout * p.y_pitch +
                               ((position + tap * p.step) * p.stride + phase * p.dilation) * sizeof(T);
        const uint32_t skew = static_cast<uint32_t>(cout) * static_cast<uint32_t>(p.y_step[1]);
        of[b][half] = place | (skew & Skew<T>::kUnit - 1) << kSkewAt;
      }
    }
  }
  // Its address in a piece: `slot` is the piece's, `sample` the skew of its sample's first cout.
  __device__ uint32_t address(int b, int half, uint32_t slot, uint32_t sample) const {
    const uint32_t v = of[b][half];
    return slot + (v & (1u << kSkewAt) - 1) + ((sample + (v >> kSkewAt)) & Skew<T>::kUnit - 1) * sizeof(T);
  }
};

// 64 rows by 32 bytes of positions, of which a lane has 2 rows' at `at`, and 16*stride bytes on: as they lie,
// and as an operand. Computed after the wait for the wgmma before, and the compiler must not move it to
// before that: ptxas serialises wgmma if the operands of one are written while another is under way.
template <class Mode>
struct RawOperand {
  static constexpr bool kHalf = sizeof(typename Mode::T) == 2;
  uint32_t words[kHalf ? 8 : 4];

  __device__ void load(const uint32_t (&at)[2], uint32_t on, int stride) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t from = at[i % 2] + on + i / 2 * 16 * stride;
      if constexpr (kHalf) {
        words[2 * i] = ptx::load_shared2(from);
        words[2 * i + 1] = ptx::load_shared2(from + 2 * stride);
      } else {
        words[i] = ptx::load_shared4(from);
      }
    }
  }
  __device__ void convert(uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kHalf) {
        asm volatile("prmt.b32 %0, %1, %2, 0x5410;\n"
                     : "=r"(a[i])
                     : "r"(words[2 * i]), "r"(words[2 * i + 1]));
      } else {
        asm volatile("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(a[i]) : "f"(__uint_as_float(words[i])));
      }
    }
  }
};

#endif

}  // namespace tconv::cuda::sm90::weight
