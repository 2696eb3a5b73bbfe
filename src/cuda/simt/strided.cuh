// cuda.simt.strided: the strided product of few channels, by multiply-adds.
//
//   dy (N, Cout, Lout)   w (Cin, Cout/groups, K)   dx (N, Cin, L)   o = stride*i - padding + dilation*k
//   for each (n, group, tiles of R ci), piece of positions     some threads of a block
//     for co in the group, `channels` at once                  staged: their window of dy, their weights
//       for k                                                  registers: R ci x 4 positions
//         dx[ci, i] += dy[co, stride*i - padding + dilation*k] * w[ci, co, k]
//
// Bound: memory if K and R are small. Every dy is read once (except for the window's halo) and every dx
// written once. A window lies in shared memory as numbers of the sums' type, with the gaps of strided_place.
// Where it reaches beyond dy it holds zeros, which add nothing to a sum. With a weight that is not finite
// they would: then products are left out one by one.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/strided.hpp"

namespace tconv::cuda::simt {

__device__ __forceinline__ int place(int e) {
  return e + (e >> 5);  // strided_place in 32 bits
}

// The part of a window that lies in dy: elements [begin, begin + count).
struct StridedWindow {
  int64_t first;  // place in dy of the window's first element
  int begin, count;

  __device__ StridedWindow(const StridedParams& p, int64_t first) : first(first) {
    const int64_t before = min(max(-first, int64_t{0}), int64_t{p.window});
    begin = static_cast<int>(before);
    count = static_cast<int>(max(min(int64_t{p.window}, p.lout - first) - before, int64_t{0}));
  }
  __device__ bool has(int e) const { return static_cast<unsigned>(e - begin) < static_cast<unsigned>(count); }
};

// Weights of `count` channels of R rows, as [channel][k][row]. Returns whether the lane's are finite.
template <class T, int R>
__device__ __forceinline__ bool stage_weights(const StridedParams& p, Accumulator<T>* weights,
                                              const T* weight, int rows, int count, int lane) {
  const int run = count * static_cast<int>(p.k);
  bool finite = true;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const T* from = weight + r * p.cout_group * p.k;
    for (int e = lane; e < run; e += p.lanes) {
      const auto value = r < rows ? widen(__ldg(from + e)) : Accumulator<T>(0);
      finite &= value - value == Accumulator<T>(0);
      weights[e * R + r] = value;
    }
  }
  return finite;
}

// The window of `count` channels, with as many loads in flight as one channel of a short kernel has.
template <class T>
__device__ __forceinline__ void stage_window(const StridedParams& p, const StridedWindow& part,
                                             Accumulator<T>* window, const T* dy, int count, int lane) {
  constexpr int kLoads = sizeof(T) == 8 ? 5 : 9;
  const int64_t step = p.lanes * p.dy_step[2];
  for (int c = 0; c < count; ++c) {
    const T* from = dy + c * p.dy_step[1] + (part.first + lane) * p.dy_step[2];
    Accumulator<T>* to = window + c * p.pitch;
    for (int first = lane; first < p.window; first += kLoads * p.lanes, from += kLoads * step) {
      T values[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        values[i] = part.has(first + i * p.lanes) ? __ldg(from + i * step) : T(0.f);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + i * p.lanes;
        if (e < p.window) to[place(e)] = widen(values[i]);
      }
    }
  }
}

// A thread's R rows x 4 positions.
template <class T, int R>
class StridedSums {
 public:
  using Sum = Accumulator<T>;
  static constexpr int kP = kStridedPositions;

  __device__ __forceinline__ void add(const StridedParams& p, const StridedWindow& of_dy, const Sum* window,
                                      const Sum* weights, bool finite, int count, int lane) {
    // A step of a multiple of 32 crosses the same number of gaps from anywhere: one address serves all
    // positions of a thread.
    if ((finite || of_dy.count == p.window) && p.lanes * static_cast<int>(p.stride) % 32 == 0) {
      add_all(p, of_dy, window, weights, count, lane);
    } else {
      add_any(p, of_dy, window, weights, count, lane);
    }
  }

  // to: the first row's output of the thread's first position, which is `at`.
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
  // Whether any tap of the position whose first is e lies in dy.
  __device__ __forceinline__ static bool has_tap(const StridedParams& p, const StridedWindow& of_dy, int e) {
    const int dilation = static_cast<int>(p.dilation);
    const int before = max(of_dy.begin - e, 0), skipped = (before + dilation - 1) / dilation;
    return skipped < static_cast<int>(p.k) && of_dy.has(e + skipped * dilation);
  }

  // Every product, including those with the zeros around dy.
  __device__ __forceinline__ void add_all(const StridedParams& p, const StridedWindow& of_dy,
                                          const Sum* window, const Sum* weights, int count, int lane) {
    const int dilation = static_cast<int>(p.dilation);
    const int step = place(p.lanes * static_cast<int>(p.stride));
    for (int c = 0; c < count; ++c) {
      const Sum* from = window + c * p.pitch;
      const Sum* w = weights + c * static_cast<int>(p.k) * R;
      int e = lane * static_cast<int>(p.stride);
#pragma unroll 4
      for (int k = 0; k < static_cast<int>(p.k); ++k, e += dilation, w += R) {
        const Sum* at = from + place(e);
        Sum x[kP];
#pragma unroll
        for (int i = 0; i < kP; ++i) x[i] = at[i * step];
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const Sum by = w[r];
#pragma unroll
          for (int i = 0; i < kP; ++i) sums_[r][i] = fma(x[i], by, sums_[r][i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kP; ++i) {
      any_[i] = has_tap(p, of_dy, (lane + i * p.lanes) * static_cast<int>(p.stride));
    }
  }

  __device__ __forceinline__ void add_any(const StridedParams& p, const StridedWindow& of_dy,
                                          const Sum* window, const Sum* weights, int count, int lane) {
    const int stride = static_cast<int>(p.stride), dilation = static_cast<int>(p.dilation);
    const bool inside = of_dy.count == p.window;
    for (int c = 0; c < count; ++c) {
      const Sum* from = window + c * p.pitch;
      const Sum* w = weights + c * static_cast<int>(p.k) * R;
      int e = lane * stride;
#pragma unroll 2
      for (int k = 0; k < static_cast<int>(p.k); ++k, e += dilation, w += R) {
        Sum x[kP];
#pragma unroll
        for (int i = 0; i < kP; ++i) {
          const int at = e + i * p.lanes * stride;
          x[i] = from[place(at)];
        }
        if (inside) {
#pragma unroll
          for (int r = 0; r < R; ++r) {
            const Sum by = w[r];
#pragma unroll
            for (int i = 0; i < kP; ++i) sums_[r][i] = fma(x[i], by, sums_[r][i]);
          }
        } else {
#pragma unroll
          for (int i = 0; i < kP; ++i) {
            if (!of_dy.has(e + i * p.lanes * stride)) continue;
            any_[i] = true;
#pragma unroll
            for (int r = 0; r < R; ++r) sums_[r][i] = fma(x[i], w[r], sums_[r][i]);
          }
        }
      }
    }
    if (inside) {
#pragma unroll
      for (int i = 0; i < kP; ++i) any_[i] = true;
    }
  }

  Sum sums_[R][kP] = {};
  bool any_[kP] = {};
};

template <class T, int R>
__global__ void __launch_bounds__(kStridedThreads, R == 8 || sizeof(T) == 8 ? 4 : 6)
    strided_kernel(const __grid_constant__ StridedParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const int unit_of_block = static_cast<int>(threadIdx.x) / p.lanes;
  const int lane = static_cast<int>(threadIdx.x) - unit_of_block * p.lanes;
  Sum* const window = reinterpret_cast<Sum*>(shared) + unit_of_block * p.unit_words;
  Sum* const weights = window + p.channels * p.pitch;
  const int64_t block = divide(blockIdx.x, p.parts), part = blockIdx.x - block * p.parts;
  const int64_t unit = block * (kStridedThreads / p.lanes) + unit_of_block;
  const bool there = unit < p.units;
  const int64_t row_group = divide(unit, p.tile_runs);
  const int64_t n = divide(row_group, p.groups), group = row_group - n * p.groups;
  const T* dy = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
  const int64_t begin = part * p.lanes * kStridedPositions;
  const StridedWindow of_dy(p, begin * p.stride - p.padding);

  // There are several tiles of rows only if all channels are staged at once, and stay.
  for (int turn = 0; turn < p.turns; ++turn) {
    const int64_t row = ((unit - row_group * p.tile_runs) * p.turns + turn) * R;
    const int rows = static_cast<int>(max(min(int64_t{R}, p.cin_group - row), int64_t{0}));
    const int64_t ci = group * p.cin_group + row;
    const T* weight = static_cast<const T*>(p.weight) + ci * p.cout_group * p.k;
    StridedSums<T, R> sums;
    for (int64_t co = 0; co < p.cout_group; co += p.channels) {
      const int count = static_cast<int>(min(int64_t{p.channels}, p.cout_group - co));
      __syncthreads();
      bool finite = true;
      if (there && rows > 0) {
        finite = stage_weights<T, R>(p, weights, weight + co * p.k, rows, count, lane);
      }
      if (there && turn == 0) stage_window<T>(p, of_dy, window, dy + co * p.dy_step[1], count, lane);
      finite = __syncthreads_and(finite);
      if (there && rows > 0) sums.add(p, of_dy, window, weights, finite, count, lane);
    }
    T* to = static_cast<T*>(p.dx) + (n * p.cin + ci) * p.l + begin + lane;
    if (there) sums.store(p, to, ci, rows, begin + lane);
  }
}

}  // namespace tconv::cuda::simt
