// The kernels of cuda.simt.weight; weight.hpp has their loop nest.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/weight.hpp"

namespace tconv::cuda::simt {

// The warp's sum of a value, in lane 0.
template <class Sum>
__device__ inline Sum warp_sum(Sum v) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) v += __shfl_down_sync(0xffffffffu, v, apart);
  return v;
}

template <class T, int Ci, int Co, int Taps>
__global__ void __launch_bounds__(kWeightThreads) weight_kernel(const __grid_constant__ WeightParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  constexpr int kSums = Ci * Co * Taps, kWarps = kWeightThreads / 32;
  __shared__ Sum of_warps[kWarps][kSums];

  const int64_t split = blockIdx.x / p.tiles;
  int64_t rest = blockIdx.x - split * p.tiles;
  const int64_t k0 = rest % p.tap_tiles * Taps;
  rest /= p.tap_tiles;
  const int64_t co0 = rest % p.column_tiles * Co;
  rest /= p.column_tiles;
  const int64_t ci0 = rest % p.row_tiles * Ci, group = rest / p.row_tiles;
  const T* x = static_cast<const T*>(p.x) + (group * p.cin_group + ci0) * p.x_step[1];
  const T* y = static_cast<const T*>(p.y) + (group * p.cout_group + co0) * p.y_step[1];
  const int rows = static_cast<int>(min(int64_t{Ci}, p.cin_group - ci0));
  const int columns = static_cast<int>(min(int64_t{Co}, p.cout_group - co0));
  const int taps = static_cast<int>(min(int64_t{Taps}, p.k - k0));
  const int64_t origin = k0 * p.dilation - p.padding;

  Sum sums[Ci][Co][Taps] = {};
  const int64_t first = split * p.split_positions + threadIdx.x;
  const int64_t end = min(p.positions, (split + 1) * p.split_positions);
  int64_t n = first / p.l, i = first - n * p.l;
  const int64_t n_step = kWeightThreads / p.l, i_step = kWeightThreads % p.l;
#pragma unroll 2
  for (int64_t at = first; at < end; at += kWeightThreads) {
    const T* x_at = x + n * p.x_step[0] + i * p.x_step[2];
    const T* y_at = y + n * p.y_step[0];
    const int64_t o = p.stride * i + origin;
    Sum a[Ci], b[Co][Taps];
    bool there[Taps];
#pragma unroll
    for (int r = 0; r < Ci; ++r) a[r] = r < rows ? widen(__ldg(x_at + r * p.x_step[1])) : Sum(0);
#pragma unroll
    for (int t = 0; t < Taps; ++t) {
      const int64_t place = o + t * p.dilation;
      there[t] = t < taps && place >= 0 && place < p.lout;
#pragma unroll
      for (int c = 0; c < Co; ++c) {
        b[c][t] =
            there[t] && c < columns ? widen(__ldg(y_at + c * p.y_step[1] + place * p.y_step[2])) : Sum(0);
      }
    }
    // What lies outside is no product: zero times an infinite x would be NaN.
#pragma unroll
    for (int t = 0; t < Taps; ++t) {
#pragma unroll
      for (int r = 0; r < Ci; ++r) {
        const Sum operand = there[t] ? a[r] : Sum(0);
#pragma unroll
        for (int c = 0; c < Co; ++c) sums[r][c][t] = fma(operand, b[c][t], sums[r][c][t]);
      }
    }
    n += n_step;
    i += i_step;
    if (i >= p.l) {
      i -= p.l;
      ++n;
    }
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const Sum v = warp_sum(sums[s / Taps / Co][s / Taps % Co][s % Taps]);
    if (lane == 0) of_warps[warp][s] = v;
  }
  __syncthreads();
  for (int s = threadIdx.x; s < kSums; s += kWeightThreads) {
    const int r = s / Taps / Co, c = s / Taps % Co, t = s % Taps;
    if (r >= rows || c >= columns || t >= taps) continue;
    Sum v = of_warps[0][s];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) v += of_warps[w][s];
    const int64_t place = ((group * p.cin_group + ci0 + r) * p.cout_group + co0 + c) * p.k + k0 + t;
    if (p.parts != nullptr) {
      static_cast<Sum*>(p.parts)[split * p.elements + place] = v;
    } else {
      static_cast<T*>(p.output)[place] = narrow<T>(v);
    }
  }
}

template <class T>
WeightFunctions weight_functions() {
  return {{weight_kernel<T, 1, 1, 4>, weight_kernel<T, 1, 1, 8>, weight_kernel<T, 2, 2, 4>,
           weight_kernel<T, 4, 4, 2>}};
}

}  // namespace tconv::cuda::simt
