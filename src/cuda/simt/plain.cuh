// The kernels of cuda.simt.plain (plain.hpp has their loop nests).
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/plain.hpp"

namespace tconv::cuda {

// A float64 sum fed by runs of float32 products, short enough that float32 loses next to nothing.
template <class Sum>
class LongSum {
 public:
  __device__ void add(Sum a, Sum b) { run_ = fma(a, b, run_); }
  __device__ void flush() {
    total_ += static_cast<double>(run_);
    run_ = 0;
  }
  __device__ double total() {
    flush();
    return total_;
  }

 private:
  Sum run_ = 0;
  double total_ = 0;
};
inline constexpr int kRun = 16;

template <class T>
__device__ inline Accumulator<T> read(const void* data, int64_t index) {
  return widen(__ldg(static_cast<const T*>(data) + index));
}

// From the first tap of a residue to its first whose input is before l; the largest number if that would need
// more than 63 bits.
__device__ inline int64_t first_tap_inside(const PlainParams& p, int64_t reach, int64_t first) {
  const int64_t beyond = reach - (p.l - 1) * p.stride;
  if (beyond <= 0) return first;
  const int64_t least = (beyond - 1) / p.dilation + 1;
  if (least <= first) return first;
  const int64_t over = (least - first) % p.tap_stride, ahead = over == 0 ? 0 : p.tap_stride - over;
  constexpr int64_t kLargest = 0x7fffffffffffffff;
  return ahead > kLargest - least ? kLargest : least + ahead;
}

template <class T>
__global__ void plain_transposed_kernel(const __grid_constant__ PlainParams p) {
  wait_for_launch_before();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < p.elements; e += step) {
    const int64_t o = e % p.lout, co = e / p.lout % p.cout, n = e / p.lout / p.cout;
    const int64_t first = co / p.cout_group * p.cin_group, reach = o + p.padding, r = reach % p.stride;
    LongSum<Accumulator<T>> sum;
    int run = 0;
    bool any = false;  // product
    if (r % p.gcd == 0) {
      const auto product = static_cast<unsigned __int128>(r / p.gcd) * static_cast<uint64_t>(p.inverse);
      int64_t k = static_cast<int64_t>(product % static_cast<uint64_t>(p.tap_stride));
      k = first_tap_inside(p, reach, k);
      // Counts down, because k plus tap_stride may overflow after the last tap.
      const int64_t last = min(p.k - 1, reach / p.dilation);
      for (int64_t left = k > last ? 0 : (last - k) / p.tap_stride + 1; left > 0; --left) {
        const int64_t i = (reach - k * p.dilation) / p.stride;
        any = true;
        for (int64_t c = 0; c < p.cin_group; ++c) {
          sum.add(read<T>(p.x, n * p.x_step[0] + (first + c) * p.x_step[1] + i * p.x_step[2]),
                  read<T>(p.weight, ((first + c) * p.cout_group + co % p.cout_group) * p.k + k));
          if (++run % kRun == 0) sum.flush();
        }
        if (left > 1) k += p.tap_stride;
      }
    }
    const WideEpilogue<T> finish{load_bias<T>(p.bias, co)};
    static_cast<T*>(p.output)[e] = any ? finish(sum.total()) : finish.alone();
  }
}

template <class T>
__global__ void plain_strided_kernel(const __grid_constant__ PlainParams p) {
  wait_for_launch_before();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < p.elements; e += step) {
    const int64_t i = e % p.l, ci = e / p.l % p.cin, n = e / p.l / p.cin;
    const int64_t first = ci / p.cin_group * p.cout_group;
    const int64_t o = p.stride * i - p.padding;
    // Taps whose output o + k*dilation exists.
    const int64_t begin = o >= 0 ? 0 : (-o - 1) / p.dilation + 1;
    const int64_t beyond = o >= p.lout ? 0 : (p.lout - 1 - o) / p.dilation + 1;
    const int64_t end = beyond < p.k ? beyond : p.k;
    LongSum<Accumulator<T>> sum;
    int run = 0;
    for (int64_t c = 0; c < p.cout_group; ++c) {
      for (int64_t k = begin; k < end; ++k) {
        sum.add(read<T>(p.grad_output,
                        n * p.y_step[0] + (first + c) * p.y_step[1] + (o + k * p.dilation) * p.y_step[2]),
                read<T>(p.weight, (ci * p.cout_group + c) * p.k + k));
        if (++run % kRun == 0) sum.flush();
      }
    }
    const WideEpilogue<T> finish{load_bias<T>(p.bias, ci)};
    // Without products: the bias, including -0.0.
    static_cast<T*>(p.output)[e] = begin < end ? finish(sum.total()) : finish.alone();
  }
}

// The sum of a value over the block's threads, in a fixed order; only thread 0 has the result.
__device__ inline double block_sum(double v) {
  __shared__ double of_warps[kPlainThreads / 32];
  for (int apart = 16; apart > 0; apart /= 2) v += __shfl_down_sync(0xffffffffu, v, apart);
  __syncthreads();  // the sum before this one has been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
  __syncthreads();
  double sum = 0;
  for (double w : of_warps) sum += w;
  return sum;
}

// Positions (n, i) of one split, i in [0, length): thread t takes every kPlainThreads-th from t on.
struct PlainWalk {
  int64_t n, i, left;
  int64_t length, n_step, i_step;

  __device__ PlainWalk(const PlainParams& p, int64_t split, int64_t row) : length(row) {
    const int64_t first = split * p.split_positions;
    const int64_t end = first + p.split_positions < p.positions ? first + p.split_positions : p.positions;
    const int64_t at = first + threadIdx.x;
    left = end - at;
    n = at / row;
    i = at - n * row;
    n_step = kPlainThreads / row;
    i_step = kPlainThreads % row;
  }
  __device__ bool there() const { return left > 0; }
  __device__ void advance() {
    left -= kPlainThreads;
    n += n_step;
    i += i_step;
    if (i >= length) {
      i -= length;
      ++n;
    }
  }
};

template <class T>
__device__ inline void put_part(const PlainParams& p, int64_t split, int64_t index, double sum) {
  if (threadIdx.x != 0) return;
  if (p.parts != nullptr) {
    p.parts[split * p.elements + index] = sum;
  } else {
    static_cast<T*>(p.output)[index] = WideEpilogue<T>{}.begun(sum);
  }
}

template <class T>
__global__ __launch_bounds__(kPlainThreads) void plain_weight_kernel(const __grid_constant__ PlainParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  const int64_t ci_tiles = (p.cin_group + kPlainTile - 1) / kPlainTile;
  const int64_t co_tiles = (p.cout_group + kPlainTile - 1) / kPlainTile;
  for (int64_t b = blockIdx.x; b < p.tiles * p.splits; b += gridDim.x) {
    const int64_t tile = b % p.tiles, split = b / p.tiles;
    const int64_t k = tile % p.k, co = tile / p.k % co_tiles * kPlainTile;
    const int64_t ci = tile / p.k / co_tiles % ci_tiles * kPlainTile,
                  group = tile / p.k / co_tiles / ci_tiles;
    LongSum<Sum> sums[kPlainTile][kPlainTile];
    int run = 0;
    for (PlainWalk at(p, split, p.l); at.there(); at.advance()) {
      const int64_t o = p.stride * at.i - p.padding + k * p.dilation;
      if (o < 0 || o >= p.lout) continue;
      Sum xs[kPlainTile], dys[kPlainTile];
#pragma unroll
      for (int a = 0; a < kPlainTile; ++a) {
        xs[a] = ci + a < p.cin_group
                    ? read<T>(p.x, at.n * p.x_step[0] + (group * p.cin_group + ci + a) * p.x_step[1] +
                                       at.i * p.x_step[2])
                    : Sum(0);
        dys[a] =
            co + a < p.cout_group
                ? read<T>(p.grad_output, at.n * p.y_step[0] + (group * p.cout_group + co + a) * p.y_step[1] +
                                             o * p.y_step[2])
                : Sum(0);
      }
      ++run;
#pragma unroll
      for (int a = 0; a < kPlainTile; ++a) {
#pragma unroll
        for (int c = 0; c < kPlainTile; ++c) {
          sums[a][c].add(xs[a], dys[c]);
          if (run % kRun == 0) sums[a][c].flush();
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kPlainTile; ++a) {
#pragma unroll
      for (int c = 0; c < kPlainTile; ++c) {
        const double sum = block_sum(sums[a][c].total());
        if (ci + a >= p.cin_group || co + c >= p.cout_group) continue;
        put_part<T>(p, split, ((group * p.cin_group + ci + a) * p.cout_group + co + c) * p.k + k, sum);
      }
    }
  }
}

template <class T>
__global__ __launch_bounds__(kPlainThreads) void plain_bias_kernel(const __grid_constant__ PlainParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  for (int64_t b = blockIdx.x; b < p.tiles * p.splits; b += gridDim.x) {
    const int64_t co = b % p.tiles, split = b / p.tiles;
    LongSum<Sum> sum;
    int run = 0;
    for (PlainWalk at(p, split, p.lout); at.there(); at.advance()) {
      sum.add(read<T>(p.grad_output, at.n * p.y_step[0] + co * p.y_step[1] + at.i * p.y_step[2]), Sum(1));
      if (++run % kRun == 0) sum.flush();
    }
    put_part<T>(p, split, co, block_sum(sum.total()));
  }
}

template <class T>
PlainFunctions plain_functions() {
  return {plain_transposed_kernel<T>, plain_strided_kernel<T>, plain_weight_kernel<T>, plain_bias_kernel<T>};
}

}  // namespace tconv::cuda
