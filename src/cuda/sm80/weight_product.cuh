// What a warp of cuda.sm80.weight multiplies: its sums, its fragments in a slot, and a stage's products.
#pragma once

#include "cuda/sm80/weight_stage.cuh"

namespace tconv::cuda::sm80::weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

template <class S>
struct Sums {
  using Sum = typename S::Mode::Sum;
  static constexpr bool kCross = S::Mode::kCross;
  Sum main[S::kMi][S::kNi][4];
  Sum cross[kCross ? S::kMi : 1][kCross ? S::kNi : 1][4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          main[i][j][e] = 0;
          if constexpr (kCross) cross[i][j][e] = 0;
        }
      }
    }
  }
  __device__ Sum total(int i, int j, int e) const {
    if constexpr (kCross) return fma(cross[i][j][e], kDown, main[i][j][e]);
    return main[i][j][e];
  }
};

// Where a lane's fragments are in a slot, in bytes: of x, and its columns of dy without their rows' skew.
template <class S>
struct Lane {
  using T = typename S::Mode::T;
  int x, y[S::kNi];
  uint32_t skew[S::kNi];  // that a column's cout adds

  __device__ explicit Lane(const WeightParams& p) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / S::kWarpColumns * S::kMi * 16, column = warp % S::kWarpColumns * S::kNi * 8;
    constexpr int kElement = sizeof(T);
    if constexpr (kElement == 8) {
      x = (row + lane / 4) * p.x_pitch + lane % 4 * 8;
    } else {
      x = (row + lane % 16) * p.x_pitch + lane / 16 * 16;
    }
    const int position = kElement == 2 ? lane % 4 * 2 : lane % 4;
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      int c = column + j * 8 + lane / 4;
      if (c >= p.rows * p.block_taps) c = 0;  // a column without an element of dw
      const int tap = c / p.rows, row_of = c - tap * p.rows;
      const int cout = row_of / p.block_phases, phase = row_of - cout * p.block_phases;
      y[j] = S::kRows * p.x_pitch + cout * p.y_pitch +
             ((position + tap * p.step) * p.stride + phase * p.dilation) * kElement;
      skew[j] = static_cast<uint32_t>(cout) * static_cast<uint32_t>(p.y_step[1]);
    }
  }
};

template <class S>
__device__ inline void multiply_stage(Sums<S>& sums, const WeightParams& p, const Lane<S>& lane,
                                      const Skew<typename S::Mode::T>& skew, int64_t stage, uint32_t slot) {
  using Mode = typename S::Mode;
  constexpr int kElement = sizeof(typename Mode::T);
  const int steps = p.piece * kElement / kWeightStepBytes, y_step = p.stride * kWeightStepBytes;
  for (int piece = 0; piece < p.stage_pieces; ++piece) {
    const uint32_t sample = skew.of_sample(Piece(p, (stage << p.pieces_shift) + piece).n);
    uint32_t x = slot + lane.x + piece * p.piece * kElement;
    uint32_t y[S::kNi];
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      y[j] = slot + lane.y[j] +
             (piece * p.piece_pitch + (sample + lane.skew[j] & Skew<typename Mode::T>::kUnit - 1)) * kElement;
    }
    int at = 0;
#pragma unroll 2
    for (int step = 0; step < steps; ++step) {
      typename Mode::A a[S::kMi];
      typename Mode::B b[S::kNi];
#pragma unroll
      for (int i = 0; i < S::kMi; ++i) Mode::load(a[i], x + i * 16 * p.x_pitch, 8 * p.x_pitch);
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) Mode::load(b[j], y[j] + at, p.stride);
#pragma unroll
      for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
        for (int j = 0; j < S::kNi; ++j) {
          Mode::multiply(sums.main[i][j], sums.cross[Mode::kCross ? i : 0][Mode::kCross ? j : 0], a[i], b[j]);
        }
      }
      x += kWeightStepBytes;
      at += y_step;
    }
  }
}

#endif

}  // namespace tconv::cuda::sm80::weight
