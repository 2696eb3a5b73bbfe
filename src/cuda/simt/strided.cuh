// cuda.simt.strided: the strided product of few channels, by multiply-adds.
//
//   dy (N, Cout, Lout)   w (Cin, Cout/groups, K)   dx (N, Cin, L)   o = stride*i - padding + dilation*k
//   for each (n, group, tiles of R ci), piece of positions     some threads of a block
//     for co in the group, `channels` at once                  staged: their window of dy, their weights
//       for each tile of R ci whose weights are staged         more than one if all channels are staged
//         for k                                                registers: R ci x 4 positions
//           dx[ci, i] += dy[co, stride*i - padding + dilation*k] * w[ci, co, k]
//
// Bound: memory if K and R are small, then instructions. A thread's tile takes R*K*4 multiply-adds, K*(4 +
// R/4) loads from shared memory, and some 5 instructions for each of its R*4 outputs. So whatever depends on
// positions alone is found once a block, and nothing is waited for between tiles whose weights are staged.
// Every dy is read once (except for the window's halo) and every dx written once. A window lies in shared
// memory as numbers of the sums' type, with the gaps of strided_place. Where it reaches beyond dy it holds
// zeros, which add nothing to a sum. With a weight that is not finite they would: then products are left out
// one by one.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/strided_parts.cuh"

namespace tconv::cuda::simt {

__device__ __forceinline__ int place(int e) {
  return e + (e >> 5);  // strided_place in 32 bits
}

// Weights of `count` channels of `rows` rows, as [tile][channel][k]. Returns whether the lane's are finite.
template <class T, int R>
__device__ __forceinline__ bool stage_weights(const StridedParams& p,
                                              StridedWeights<Accumulator<T>, R>* weights, const T* weight,
                                              int rows, int count, int lane) {
  const int run = count * static_cast<int>(p.k);
  const int64_t step = p.cout_group * p.k;
  bool finite = true;
  for (int row = 0; row < rows; row += R, weight += R * step, weights += run) {
    for (int e = lane; e < run; e += p.lanes) {
      Bits<T> bits[R];
#pragma unroll
      for (int r = 0; r < R; ++r) bits[r] = row + r < rows ? load_bits(weight + r * step + e) : Bits<T>(0);
      StridedWeights<Accumulator<T>, R> values;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const auto value = values.row[r] = widen(of_bits<T>(bits[r]));
        finite &= value - value == Accumulator<T>(0);
      }
      weights[e] = values;
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
      Bits<T> values[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        values[i] = part.has(first + i * p.lanes) ? load_bits(from + i * step) : Bits<T>(0);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + i * p.lanes;
        if (e < p.window) to[place(e)] = widen(of_bits<T>(values[i]));
      }
    }
  }
}

// A thread's 4 positions, `lanes` apart: the same for every tile of rows.
struct StridedPositions {
  static constexpr int kP = kStridedPositions;
  bool exists[kP];   // in dx
  bool reached[kP];  // by a tap that lies in dy
  bool plain;        // every position exists and is reached

  // at: the first position.
  __device__ void find(const StridedParams& p, const StridedWindow& of_dy, int64_t at, int lane) {
    plain = true;
#pragma unroll
    for (int i = 0; i < kP; ++i) {
      exists[i] = at + i * p.lanes < p.l;
      reached[i] = has_tap(p, of_dy, (lane + i * p.lanes) * static_cast<int>(p.stride));
      plain &= exists[i] && reached[i];
    }
  }

 private:
  __device__ static bool has_tap(const StridedParams& p, const StridedWindow& of_dy, int e) {
    const int dilation = static_cast<int>(p.dilation);
    const int before = of_dy.begin - e;
    if (before <= 0) return of_dy.has(e);
    const int skipped = (before + dilation - 1) / dilation;
    return skipped < static_cast<int>(p.k) && of_dy.has(e + skipped * dilation);
  }
};

// A thread's R rows x 4 positions.
template <class T, int R>
class StridedSums {
 public:
  using Sum = Accumulator<T>;
  using Weights = StridedWeights<Sum, R>;
  static constexpr int kP = kStridedPositions;

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < kP; ++i) sums_[r][i] = 0;
    }
  }

  __device__ __forceinline__ void add(const StridedParams& p, const StridedWindow& of_dy, const Sum* window,
                                      const Weights* weights, bool finite, int count, int lane) {
    // A step of a multiple of 32 crosses the same number of gaps from anywhere: one address serves all
    // positions of a thread.
    const bool every = finite || of_dy.count == p.window;
    if (every && p.lanes * static_cast<int>(p.stride) % 32 == 0) {
      add_all(p, window, weights, count, lane);
    } else {
      add_any(p, of_dy, every, window, weights, count, lane);
    }
  }

  // to: the first row's output of the thread's first position.
  __device__ __forceinline__ void store(const StridedParams& p, const StridedPositions& positions, T* to,
                                        int64_t ci, int rows) const {
#pragma unroll
    for (int r = 0; r < R; ++r, to += p.l) {
      if (r >= rows) break;
      const Epilogue<T> epilogue = epilogue_of<T>(p.bias, ci + r);
      if (positions.plain) {
#pragma unroll
        for (int i = 0; i < kP; ++i) to[i * p.lanes] = epilogue(sums_[r][i] + Sum(0));
      } else {
#pragma unroll
        for (int i = 0; i < kP; ++i) {
          if (!positions.exists[i]) break;
          to[i * p.lanes] = positions.reached[i] ? epilogue(sums_[r][i] + Sum(0)) : epilogue.alone();
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void multiply(const Sum (&x)[kP], const Weights& by) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < kP; ++i) sums_[r][i] = fma(x[i], by.row[r], sums_[r][i]);
    }
  }

  // Every product, including those with the zeros around dy.
  __device__ __forceinline__ void add_all(const StridedParams& p, const Sum* window, const Weights* weights,
                                          int count, int lane) {
    const int dilation = static_cast<int>(p.dilation), k = static_cast<int>(p.k);
    const int step = place(p.lanes * static_cast<int>(p.stride));
    for (int c = 0; c < count; ++c, window += p.pitch) {
      int e = lane * static_cast<int>(p.stride);
#pragma unroll 4
      for (int tap = 0; tap < k; ++tap, e += dilation, ++weights) {
        const Sum* at = window + place(e);
        Sum x[kP];
#pragma unroll
        for (int i = 0; i < kP; ++i) x[i] = at[i * step];
        multiply(x, *weights);
      }
    }
  }

  // With an address for each position; every: those with the zeros around dy too.
  __device__ __forceinline__ void add_any(const StridedParams& p, const StridedWindow& of_dy, bool every,
                                          const Sum* window, const Weights* weights, int count, int lane) {
    const int stride = static_cast<int>(p.stride), dilation = static_cast<int>(p.dilation);
    for (int c = 0; c < count; ++c, window += p.pitch) {
      int e = lane * stride;
#pragma unroll 2
      for (int k = 0; k < static_cast<int>(p.k); ++k, e += dilation, ++weights) {
        Sum x[kP];
#pragma unroll
        for (int i = 0; i < kP; ++i) x[i] = window[place(e + i * p.lanes * stride)];
        if (every) {
          multiply(x, *weights);
          continue;
        }
#pragma unroll
        for (int i = 0; i < kP; ++i) {
          if (!of_dy.has(e + i * p.lanes * stride)) continue;
#pragma unroll
          for (int r = 0; r < R; ++r) sums_[r][i] = fma(x[i], weights->row[r], sums_[r][i]);
        }
      }
    }
  }

  Sum sums_[R][kP];
};

// Blocks that an SM must have room for; with a fourth one float64 has too few registers.
template <class T, int R>
constexpr int kStridedBlocksOfSm = sizeof(T) == 8 ? 3
                                   : R == 8       ? 4
                                                  : 6;

template <class T, int R>
__global__ void __launch_bounds__(kStridedThreads, kStridedBlocksOfSm<T, R>)
    strided_kernel(const __grid_constant__ StridedParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  using Weights = StridedWeights<Sum, R>;
  extern __shared__ __align__(16) unsigned char shared[];
  const int unit_of_block = static_cast<int>(threadIdx.x) / p.lanes;
  const int lane = static_cast<int>(threadIdx.x) - unit_of_block * p.lanes;
  Sum* const window = reinterpret_cast<Sum*>(shared) + unit_of_block * p.unit_words;
  Weights* const weights = reinterpret_cast<Weights*>(window + p.weights_at);
  const int64_t block = divide(blockIdx.x, p.parts), part = blockIdx.x - block * p.parts;
  const int64_t unit = block * (kStridedThreads / p.lanes) + unit_of_block;
  const bool there = unit < p.units;
  const int64_t row_group = divide(unit, p.tile_runs);
  const int64_t n = divide(row_group, p.groups), group = row_group - n * p.groups;
  const T* dy = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
  const int64_t begin = part * p.lanes * kStridedPositions;
  const StridedWindow of_dy(p, begin * p.stride - p.padding);
  StridedPositions positions;

  // There are several tiles of rows only if all channels are staged at once, and stay.
  const int64_t first_row = (unit - row_group * p.tile_runs) * p.turns * R;
  for (int turn = 0; turn < p.turns; turn += p.tiles) {
    const int64_t row = first_row + turn * R;
    const int tiles = min(p.tiles, p.turns - turn);
    const int rows = static_cast<int>(max(min(int64_t{tiles} * R, p.cin_group - row), int64_t{0}));
    const int64_t ci = group * p.cin_group + row;
    const T* weight = static_cast<const T*>(p.weight) + ci * p.cout_group * p.k;
    T* to = static_cast<T*>(p.dx) + (n * p.cin + ci) * p.l + begin + lane;
    StridedSums<T, R> sums;
    for (int64_t co = 0; co < p.cout_group; co += p.channels) {
      const int count = static_cast<int>(min(int64_t{p.channels}, p.cout_group - co));
      __syncthreads();
      bool finite = true;
      if (there && rows > 0) finite = stage_weights<T, R>(p, weights, weight + co * p.k, rows, count, lane);
      if (there && turn == 0) stage_window<T>(p, of_dy, window, dy + co * p.dy_step[1], count, lane);
      finite = __syncthreads_and(finite);
      if (!there) continue;
      if (turn == 0 && co == 0) positions.find(p, of_dy, begin + lane, lane);
      for (int r = 0; r < rows; r += R) {
        if (co == 0) sums.clear();
        sums.add(p, of_dy, window, weights + r / R * count * static_cast<int>(p.k), finite, count, lane);
        if (co + count == p.cout_group) sums.store(p, positions, to + r * p.l, ci + r, rows - r);
      }
    }
  }
}

}  // namespace tconv::cuda::simt
