// The products of strided_sliding.cuh.
#pragma once

#include <utility>

#include "cuda/simt/strided_sliding_copy.cuh"

namespace tconv::cuda::simt {

// A thread's R rows x 8 positions, whose taps lie S elements apart in a row of a window.
template <int R, int S>
class SlidingSums {
 public:
  static constexpr int kP = kSlidingPositions;
  static constexpr int kWindow = sliding_window(S);

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < kP; ++i) sums_[r][i] = 0;
    }
  }

  // One channel. row: of the window; first: the element of the thread's first position in it.
  __device__ __forceinline__ void add(const float* row, int first, const StridedWeights<float, R>* weights,
                                      int taps) {
    float x[kWindow];
#pragma unroll
    for (int i = 0; i < kWindow - 4; i += 4) load4(x + i, row + sliding_place(first + i));
    int at = first + kWindow - 4, left = taps;
    while (!turns(row, at, x, weights, left, std::make_integer_sequence<int, kWindow / 4>{})) {
    }
  }

  // The same, without products that dy has no element for.
  __device__ __forceinline__ void add_inside(const SlidingPart& part, const float* row, int first,
                                             const StridedWeights<float, R>* weights, int taps) {
    for (int k = 0; k < taps; ++k) {
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        const int at = first + k + S * i;
        if (!part.has(at)) continue;
        const float x = row[sliding_place(at)];
#pragma unroll
        for (int r = 0; r < R; ++r) sums_[r][i] = fmaf(x, weights[k].row[r], sums_[r][i]);
      }
    }
  }

  __device__ __forceinline__ const float (&row(int r) const)[kP] {
    return sums_[r];
  }

 private:
  __device__ __forceinline__ static void load4(float* to, const float* from) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }

  // A full turn of the window through x, 4 elements at once. Returns whether no tap is left.
  template <int... kTurn>
  __device__ __forceinline__ bool turns(const float* row, int& next, float (&x)[kWindow],
                                        const StridedWeights<float, R>*& weights, int& left,
                                        std::integer_sequence<int, kTurn...>) {
    return (four_taps<4 * kTurn>(row, next, x, weights, left) || ...);
  }
  template <int kTurned>
  __device__ __forceinline__ bool four_taps(const float* row, int& next, float (&x)[kWindow],
                                            const StridedWeights<float, R>*& weights, int& left) {
    load4(x + (kTurned + kWindow - 4) % kWindow, row + sliding_place(next));
    StridedWeights<float, R> by[4];
    load_weights(by, weights);
    multiply(x, kTurned, by[0]);
    if (R > 1 && left >= 4) {  // without branches, so that products need not wait for one another
      multiply(x, kTurned + 1, by[1]);
      multiply(x, kTurned + 2, by[2]);
      multiply(x, kTurned + 3, by[3]);
    } else {
      if (left > 1) multiply(x, kTurned + 1, by[1]);
      if (left > 2) multiply(x, kTurned + 2, by[2]);
      if (R == 1 && left > 3) multiply(x, kTurned + 3, by[3]);
    }
    next += 4, weights += 4, left -= 4;
    return left <= 0;
  }

  // Of four taps; there may be fewer.
  __device__ __forceinline__ static void load_weights(StridedWeights<float, R> (&by)[4],
                                                      const StridedWeights<float, R>* from) {
    if constexpr (R == 1) {
      load4(&by[0].row[0], &from->row[0]);
    } else {
#pragma unroll
      for (int tap = 0; tap < 4; ++tap) by[tap] = from[tap];
    }
  }

  // turned: how far the window's first element lies behind x[0].
  __device__ __forceinline__ void multiply(const float (&x)[kWindow], int turned,
                                           const StridedWeights<float, R>& by) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        sums_[r][i] = fmaf(x[(turned + S * i) % kWindow], by.row[r], sums_[r][i]);
      }
    }
  }

  float sums_[R][kP];
};

}  // namespace tconv::cuda::simt
