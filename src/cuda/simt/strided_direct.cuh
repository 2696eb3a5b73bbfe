// cuda.simt.strided without shared memory, for a row or two of short kernels (depthwise layers):
//
//   for each (n, group, tile of R ci), piece of positions                    some threads of a block
//     for co in the group, k                                                 registers: R ci x 4 positions
//       dx[ci, i] += dy[co, stride*i - padding + dilation*k] * w[ci, co, k]  dy through L1, taps under way
//                                                                            together
//
// Neighbouring threads take neighbouring positions, and what their taps share is in L1. Nothing waits for a
// barrier, so that memory is kept busy: bound by memory where K and the stride are small.
#pragma once

#include "cuda/simt/strided.cuh"

namespace tconv::cuda::simt {

// A thread's positions: first + i*lanes, as far as the row goes.
template <class T, int R>
class DirectSums {
 public:
  using Sum = Accumulator<T>;
  static constexpr int kP = kStridedPositions;

  // o[i]: place in dy of the position's first tap. kInside: every tap is in dy.
  template <bool kInside>
  __device__ __forceinline__ void add(const StridedParams& p, const T* dy, const T* weight,
                                      const int64_t (&o)[kP]) {
    constexpr int kTaps = 4;  // under way together
    const int64_t row = p.cout_group * p.k;
    const auto taps = static_cast<int>(p.k);
#pragma unroll 1
    for (int64_t co = 0; co < p.cout_group; ++co, dy += p.dy_step[1], weight += p.k) {
#pragma unroll 1
      for (int first = 0; first < taps; first += kTaps) {
        T x[kTaps][kP];
        Sum w[kTaps][R];
        bool there[kTaps][kP];
#pragma unroll
        for (int t = 0; t < kTaps; ++t) {
          const int k = first + t;
          const int64_t ahead = k * p.dilation;
#pragma unroll
          for (int i = 0; i < kP; ++i) {
            const int64_t at = o[i] + ahead;
            there[t][i] = k < taps && (kInside || (at >= 0 && at < p.lout));
            x[t][i] = there[t][i] ? __ldg(dy + at * p.dy_step[2]) : T(0.f);
          }
#pragma unroll
          for (int r = 0; r < R; ++r) w[t][r] = k < taps ? widen(__ldg(weight + r * row + k)) : Sum(0);
        }
#pragma unroll
        for (int t = 0; t < kTaps; ++t) {
#pragma unroll
          for (int i = 0; i < kP; ++i) {
            if (!there[t][i]) continue;
            any_[i] = true;
#pragma unroll
            for (int r = 0; r < R; ++r) sums_[r][i] = fma(widen(x[t][i]), w[t][r], sums_[r][i]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store(const StridedParams& p, T* to, int64_t ci, int rows,
                                        int64_t at) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= rows) break;
      const Epilogue<T> epilogue = epilogue_of<T>(p.bias, ci + r);
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        if (at + i * p.lanes >= p.l) break;
        to[r * p.l + i * p.lanes] = any_[i] ? epilogue(sums_[r][i] + Sum(0)) : epilogue.alone();
      }
    }
  }

 private:
  Sum sums_[R][kP] = {};
  bool any_[kP] = {};
};

template <class T, int R>
__global__ void __launch_bounds__(kStridedThreads)
    strided_direct_kernel(const __grid_constant__ StridedParams p) {
  const int unit_of_block = static_cast<int>(threadIdx.x) / p.lanes;
  const int lane = static_cast<int>(threadIdx.x) - unit_of_block * p.lanes;
  const int64_t block = divide(blockIdx.x, p.parts), part = blockIdx.x - block * p.parts;
  const int64_t unit = block * (kStridedThreads / p.lanes) + unit_of_block;
  if (unit >= p.units) return;
  const int64_t row_group = divide(unit, p.tile_runs), row = (unit - row_group * p.tile_runs) * R;
  const int64_t n = divide(row_group, p.groups), group = row_group - n * p.groups;
  const int64_t first = part * p.lanes * kStridedPositions, at = first + lane;
  const int rows = static_cast<int>(min(int64_t{R}, p.cin_group - row));
  const int64_t ci = group * p.cin_group + row;
  const T* dy = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
  const T* weight = static_cast<const T*>(p.weight) + ci * p.cout_group * p.k;
  int64_t o[kStridedPositions];
#pragma unroll
  for (int i = 0; i < kStridedPositions; ++i) {
    o[i] = min(at + i * p.lanes, p.l - 1) * p.stride - p.padding;
  }
  const int64_t last = min(first + int64_t{p.lanes} * kStridedPositions, p.l) - 1;
  const bool inside =
      first * p.stride >= p.padding && last * p.stride - p.padding + (p.k - 1) * p.dilation < p.lout;
  T* const to = static_cast<T*>(p.dx) + (n * p.cin + ci) * p.l + at;
  if (rows < R) {
    DirectSums<T, 1> sums;
    inside ? sums.template add<true>(p, dy, weight, o) : sums.template add<false>(p, dy, weight, o);
    sums.store(p, to, ci, 1, at);
  } else {
    DirectSums<T, R> sums;
    inside ? sums.template add<true>(p, dy, weight, o) : sums.template add<false>(p, dy, weight, o);
    sums.store(p, to, ci, R, at);
  }
}

}  // namespace tconv::cuda::simt
