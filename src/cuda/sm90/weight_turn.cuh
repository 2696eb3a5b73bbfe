// What a warp of cuda.sm90.weight_turned does to 8 channels at 32 positions, in each mode: it loads, stores
// and sums them.
#pragma once

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/device/ptx/sm90_operands.cuh"
#include "cuda/device/ptx/stmatrix.cuh"
#include "cuda/sm90/weight_blocked_pass.cuh"

namespace tconv::cuda::sm90::weight_turned {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// 32 positions of 8 channels. load: from a unit's rows; `row` is lane_row() of the first position. store:
// position `lane` to `to`, of the first part. drop: makes zeros of the positions before `count`.
//
// Sums: of a piece's units, at most 4, in float32. add: the first `count` positions of both, a multiple of
// 16, to those of a unit. each: calls function(unit, channel, sum) by the one lane that has it.
template <class Mode>
struct Turn;

// Of 8 channels over 16 positions.
__device__ inline void sum_positions(const weight_blocked::HalfMode<__half>*, float (&sums)[4],
                                     uint32_t first, uint32_t second) {
  constexpr uint32_t kOnes = 0x3c003c00;
  ptx::mma_f16(sums, {kOnes, kOnes, kOnes, kOnes}, first, second);
}
__device__ inline void sum_positions(const weight_blocked::HalfMode<__nv_bfloat16>*, float (&sums)[4],
                                     uint32_t first, uint32_t second) {
  constexpr uint32_t kOnes = 0x3f803f80;
  ptx::mma_bf16(sums, {kOnes, kOnes, kOnes, kOnes}, first, second);
}

template <class Storage>
struct Turn<weight_blocked::HalfMode<Storage>> {
  static constexpr int kBytes = 64;  // of a row
  uint4 v;
  __device__ static uint32_t lane_row(int lane, int row_bytes) {
    return lane % 8 * row_bytes + lane / 8 * 16;
  }
  __device__ void load(uint32_t row) { v = ptx::load_matrices(row); }
  __device__ void store(uint32_t to, uint32_t) const { ptx::store_matrices_transposed(to, v); }
  __device__ void drop(int count) {
    uint32_t* const words[4] = {&v.x, &v.y, &v.z, &v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = 8 * i + threadIdx.x % 4 * 2;
      if (position < count) *words[i] &= 0xffff0000u;
      if (position + 1 < count) *words[i] = 0;
    }
  }

  // The words of a lane are those that an mma reads as its second operand; the first one is ones. The sums of
  // all rows are the same, and lanes of row `unit` keep them. One step late: an mma takes long.
  struct Sums {
    float2 sum = {0, 0};
    float even[4] = {}, odd[4] = {};
    int late = 0;  // their unit
    __device__ void keep() {
      if (threadIdx.x % 32 / 4 != late) return;
      sum.x += even[0] + odd[0];
      sum.y += even[1] + odd[1];
    }
    __device__ void add(const Turn (&v)[2], int count, int unit) {
      const weight_blocked::HalfMode<Storage>* const mode = nullptr;
      keep();
#pragma unroll
      for (int i = 0; i < 4; ++i) even[i] = odd[i] = 0;
      if (count > 0) sum_positions(mode, even, v[0].v.x, v[0].v.y);
      if (count > 16) sum_positions(mode, odd, v[0].v.z, v[0].v.w);
      if (count > 32) sum_positions(mode, even, v[1].v.x, v[1].v.y);
      if (count > 48) sum_positions(mode, odd, v[1].v.z, v[1].v.w);
      late = unit;
    }
    template <class Function>
    __device__ void each(int units, const Function& function) {
      keep();
      const int lane = threadIdx.x % 32;
      if (lane / 4 >= units) return;
      function(lane / 4, lane % 4 * 2, sum.x);
      function(lane / 4, lane % 4 * 2 + 1, sum.y);
    }
  };
};

template <>
struct Turn<weight_blocked::IeeeMode> {
  using Mode = weight_blocked::IeeeMode;
  static constexpr int kBytes = 128;
  float2 v[4];
  __device__ static uint32_t lane_row(int lane, int row_bytes) { return lane / 4 * row_bytes + lane % 4 * 8; }
  __device__ void load(uint32_t row) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n" : "=f"(v[i].x), "=f"(v[i].y) : "r"(row + 32 * i));
    }
  }
  __device__ void store(uint32_t to, uint32_t part_step) const {
    uint32_t words[4][3];
#pragma unroll
    for (int i = 0; i < 4; ++i) Mode::split(v[i].x, v[i].y, words[i]);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      ptx::store_matrices_transposed(to + part * part_step,
                                     {words[0][part], words[1][part], words[2][part], words[3][part]});
    }
  }
  __device__ void drop(int count) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = 8 * i + threadIdx.x % 4 * 2;
      if (position < count) v[i].x = 0;
      if (position + 1 < count) v[i].y = 0;
    }
  }

  // The four lanes of a channel keep one unit each.
  struct Sums {
    float sum = 0;
    __device__ void add(const Turn (&v)[2], int count, int unit) {
      float all = 0;
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const float2 a = v[i / 4].v[i % 4], b = v[i / 4].v[i % 4 + 1];
        if (count > 8 * i) all += (a.x + a.y) + (b.x + b.y);
      }
#pragma unroll
      for (int apart = 1; apart < 4; apart *= 2) all += __shfl_xor_sync(~0u, all, apart);
      if (threadIdx.x % 4 == unit) sum += all;
    }
    template <class Function>
    __device__ void each(int units, const Function& function) {
      const int lane = threadIdx.x % 32;
      if (lane % 4 < units) function(lane % 4, lane / 4, sum);
    }
  };
};

#endif

}  // namespace tconv::cuda::sm90::weight_turned
