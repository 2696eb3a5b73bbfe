// The way of cuda.simt.strided without shared memory: threads read dy where it lies, and the L1 cache serves
// what neighbouring taps and rows share. No thread waits for another.
//
//   for each (n, group, tile of R ci), piece of positions          some threads of a block
//     for co in the group, k                                       registers: R ci x P positions
//       dx[ci, i] += dy[co, stride*i - padding + dilation*k] * w[ci, co, k]
//
// TapStep: from a tap's weight to the next, 1 or, in cuda.simt.flipped, -1.
// Bound: loads (R + P of them for R*P multiply-adds), or memory if there are few taps.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/strided.hpp"

namespace tconv::cuda::simt {

// A thread's R rows x P positions, which lie `lanes` apart.
template <class T, int R, int P, int TapStep>
class DirectSums {
 public:
  using Sum = Accumulator<T>;

  // Weights are w[ci][co][k] or, in reverse, w[co][ci][K-1-k].
  __device__ __forceinline__ static int64_t row_step(const StridedParams& p) {
    return TapStep > 0 ? p.cout_group * p.k : p.k;
  }

  // from: dy of the group's first channel; weight: of the tile's first row. first: where in dy the thread's
  // first position begins; kInside: no tap of the unit lies outside dy.
  template <bool kInside>
  __device__ __forceinline__ void add(const StridedParams& p, const T* from, const T* weight, int rows,
                                      int first) {
    const int dilation = static_cast<int>(p.dilation), k = static_cast<int>(p.k);
    const auto lout = static_cast<unsigned>(p.lout);
    const int step = p.lanes * static_cast<int>(p.stride);
    const int64_t row = row_step(p), next_co = TapStep > 0 ? 0 : (p.cin_group + 1) * p.k;
    for (int64_t co = 0; co < p.cout_group; ++co, from += p.dy_step[1], weight += next_co) {
      int o = first;
#pragma unroll 4
      for (int tap = 0; tap < k; ++tap, o += dilation, weight += TapStep) {
        bool there[P];
        Sum x[P];
#pragma unroll
        for (int i = 0; i < P; ++i) {
          there[i] = kInside || static_cast<unsigned>(o + i * step) < lout;
          x[i] = there[i] ? widen(__ldg(from + (o + i * step))) : Sum(0);
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const Sum by = widen(__ldg(weight + min(r, rows - 1) * row));
#pragma unroll
          for (int i = 0; i < P; ++i) {
            if (there[i]) sums_[r][i] = fma(x[i], by, sums_[r][i]);
          }
        }
      }
    }
  }

  // to: the first row's output of the thread's first position, which is `at`.
  __device__ __forceinline__ void store(const StridedParams& p, T* to, int64_t ci, int rows, int64_t at,
                                        int first) const {
    const int step = p.lanes * static_cast<int>(p.stride);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= rows) break;
      const Epilogue<T> epilogue = epilogue_of<T>(p.bias, ci + r);
#pragma unroll
      for (int i = 0; i < P; ++i) {
        if (at + i * p.lanes >= p.l) break;
        to[r * p.l + i * p.lanes] =
            has_tap(p, first + i * step) ? epilogue(sums_[r][i] + Sum(0)) : epilogue.alone();
      }
    }
  }

 private:
  // Whether any tap of the position whose first is o lies in dy.
  __device__ __forceinline__ static bool has_tap(const StridedParams& p, int o) {
    const int dilation = static_cast<int>(p.dilation);
    const int skipped = o >= 0 ? 0 : (dilation - 1 - o) / dilation;
    return skipped < static_cast<int>(p.k) && o + skipped * dilation < static_cast<int>(p.lout);
  }

  Sum sums_[R][P] = {};
};

template <class T, int R, int P, int TapStep>
__global__ void __launch_bounds__(kStridedThreads)
    strided_direct_kernel(const __grid_constant__ StridedParams p) {
  wait_for_launch_before();
  const int unit_of_block = static_cast<int>(threadIdx.x) / p.lanes;
  const int lane = static_cast<int>(threadIdx.x) - unit_of_block * p.lanes;
  const int64_t block = divide(blockIdx.x, p.parts), part = blockIdx.x - block * p.parts;
  const int64_t unit = block * (kStridedThreads / p.lanes) + unit_of_block;
  if (unit >= p.units) return;
  const int64_t row_group = divide(unit, p.tile_runs);
  const int64_t n = divide(row_group, p.groups), group = row_group - n * p.groups;
  const int64_t row = (unit - row_group * p.tile_runs) * R, ci = group * p.cin_group + row;
  const int rows = static_cast<int>(min(int64_t{R}, p.cin_group - row));
  const int64_t begin = part * p.lanes * P;
  if (begin + lane >= p.l) return;
  const T* from = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
  using Sums = DirectSums<T, R, P, TapStep>;
  const T* weight =
      static_cast<const T*>(p.weight) + group * p.cin_group * p.cout_group * p.k + row * Sums::row_step(p);
  const int64_t least = begin * p.stride - p.padding;
  const int64_t most = least + (int64_t{p.lanes} * P - 1) * p.stride + p.dilation * (p.k - 1);
  const auto first = static_cast<int>(least + lane * p.stride);
  Sums sums;
  if (least >= 0 && most < p.lout) {
    sums.template add<true>(p, from, weight, rows, first);
  } else {
    sums.template add<false>(p, from, weight, rows, first);
  }
  T* to = static_cast<T*>(p.dx) + (n * p.cin + ci) * p.l + begin + lane;
  sums.store(p, to, ci, rows, begin + lane, first);
}

template <class T, int R, int TapStep>
StridedFunction direct_by_positions(int positions) {
  return positions == kStridedFewPositions ? strided_direct_kernel<T, R, kStridedFewPositions, TapStep>
                                           : strided_direct_kernel<T, R, strided_most_positions(R), TapStep>;
}

template <int TapStep>
StridedFunction direct_function(core::DType dtype, int rows, int positions) {
  return by_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    if (rows == 1) return direct_by_positions<T, 1, TapStep>(positions);
    if (rows == 2) return direct_by_positions<T, 2, TapStep>(positions);
    return rows == 4 ? direct_by_positions<T, 4, TapStep>(positions)
                     : direct_by_positions<T, 8, TapStep>(positions);
  });
}

}  // namespace tconv::cuda::simt
