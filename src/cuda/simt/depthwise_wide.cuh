// cuda.simt.depthwise, the way for groups of many output channels: a thread holds one residue of the stride,
// and uses a weight for several outputs, an element of x for several channels.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   dilation 1, any stride S
//   for n, group, C couts, tile of positions q                 blocks
//     for r < S, q                                             a thread each; it has o = q*S + r - padding
//       for ci in the group's channels                         at most kDepthwiseMaxCin
//         for t with r + t*S < K
//           for c < C, j < J                                   q(j) lies j times the block's columns behind q
//             y[co+c, q(j)] += x[ci, q(j) - t] * w[ci, co+c, r + t*S]
//
// C + J loads from L1 serve C*J products, where flat has two loads for each. Neighbouring blocks store the
// same rows: with more couts in a block, one set after another, long rows took up to 1.5 times as long
// (H200). The sums have flat's order; taps outside x are left out, and sums of -0.0 computed again, as there.
#pragma once

#include "cuda/simt/depthwise_flat.cuh"
#include "cuda/simt/depthwise_wide.hpp"

namespace tconv::cuda::simt {

// One thread's outputs: J of each of C rows.
template <class T, int J>
struct WideThread {
  static constexpr int C = kDepthwiseWideCouts;

  const DepthwiseWideParams& p;
  int n, group;
  int q, r, taps;  // of the first output

  __device__ int position(int j) const { return q + j * p.columns; }
  __device__ int output(int j) const {
    return position(j) * p.flat.stride + r - static_cast<int>(p.flat.padding);
  }
  __device__ bool meets(int j, int t) const {
    return static_cast<uint32_t>(position(j) - t) < static_cast<uint32_t>(p.flat.l);
  }
  // Whether a product reaches the output.
  __device__ bool reached(int j) const {
    return max(position(j) - static_cast<int>(p.flat.l) + 1, 0) < min(taps, position(j) + 1);
  }

  // Of couts from `inner` of the group on. kInside: every tap of the block's outputs meets x.
  template <bool kInside>
  __device__ void sums(float (&sum)[C][J], int inner) const {
    const DepthwiseFlatParams& a = p.flat;
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const float bias = load_bias<T>(a.bias, group * a.cout_per_group + inner + c);
#pragma unroll
      for (int j = 0; j < J; ++j) sum[c][j] = (kInside ? taps > 0 : reached(j)) ? bias + 0.f : bias;
    }
    const T* x_row =
        static_cast<const T*>(a.x) + n * a.x_sample + group * int64_t{a.x_group} + q * a.x_position;
    const T* w_row =
        static_cast<const T*>(a.weight) + group * a.cin_per_group * a.w_channel + inner * a.k + r;
    // Wraps only where no second output meets x.
    const auto step = static_cast<int>(p.columns * static_cast<uint32_t>(a.x_position));
#pragma unroll 1
    for (int ci = 0; ci < a.cin_per_group; ++ci, x_row += a.x_channel, w_row += a.w_channel) {
      const T *x = x_row, *w = w_row;
#pragma unroll 1
      for (int t = 0; t < taps; ++t, x -= a.x_position, w += a.stride) {
        float v[J], by[C];
#pragma unroll
        for (int j = 0; j < J; ++j) v[j] = kInside || meets(j, t) ? widen(__ldg(x + int64_t{step} * j)) : 0.f;
#pragma unroll
        for (int c = 0; c < C; ++c) by[c] = widen(__ldg(w + int64_t{a.k} * c));
#pragma unroll
        for (int c = 0; c < C; ++c)
#pragma unroll
          for (int j = 0; j < J; ++j) {
            if (kInside || meets(j, t)) sum[c][j] = fmaf(v[j], by[c], sum[c][j]);
          }
      }
    }
  }

  template <bool kInside>
  __device__ void store(const float (&sum)[C][J], int inner) const {
    const DepthwiseFlatParams& a = p.flat;
    const Epilogue<T> finish{};
    int least = 0;  // -0.0 is the least integer
    const int row = n * a.cout + group * a.cout_per_group + inner;
    T* to = static_cast<T*>(a.y) + row * a.lout + output(0);
#pragma unroll
    for (int c = 0; c < C; ++c, to += a.lout) {
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const bool there = kInside || static_cast<uint32_t>(output(j)) < static_cast<uint32_t>(a.lout);
        if (there) to[int64_t{p.live} * j] = finish.begun(sum[c][j]);
        least = min(least, __float_as_int(sum[c][j]));
      }
    }
    if (least == INT_MIN) repair(row);
  }

  __device__ __forceinline__ void repair(int row) const {
    const int lout = static_cast<int>(p.flat.lout);
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
#pragma unroll 1
      for (int j = 0; j < J; ++j) {
        const int o = output(j), f = (row + c) * lout + o;
        if (o >= 0 && o < lout) repair_zeros<T>(p.flat, f, f + 1);
      }
    }
  }

  template <bool kInside>
  __device__ void run(int inner) const {
    float sum[C][J];
    sums<kInside>(sum, inner);
    store<kInside>(sum, inner);
  }
};

template <class T, int J>
__global__ void __launch_bounds__(kDepthwiseWideThreads, 4)
    depthwise_wide_kernel(const __grid_constant__ DepthwiseWideParams p) {
  wait_for_launch_before();
  if (threadIdx.x >= p.live) return;
  const DepthwiseFlatParams& a = p.flat;
  const int rows = static_cast<int>(p.by_tiles.divide(blockIdx.x));
  const int tile = static_cast<int>(blockIdx.x) - rows * p.tiles;
  const int groups = static_cast<int>(p.by_cout_blocks.divide(rows)), block = rows - groups * p.cout_blocks;
  // The last couts of a group come with some of those before, which two blocks store.
  const int inner = min(block * WideThread<T, J>::C, p.flat.cout_per_group - WideThread<T, J>::C);
  const int n = static_cast<int>(p.by_groups.divide(groups)),
            group = groups - n * static_cast<int>(p.by_groups.value);
  const int column = static_cast<int>(a.by_stride.divide(threadIdx.x));
  const int first = a.first_q + tile * p.columns * J, last = first + p.columns * J - 1;
  const int r = static_cast<int>(threadIdx.x) - column * a.stride;
  const WideThread<T, J> thread{p, n, group, first + column, r, a.taps + (r < a.more ? 1 : 0)};
  const bool meets = first >= a.taps + (a.more > 0 ? 1 : 0) - 1 && last < a.l;
  const bool stored = first * a.stride >= a.padding && (last + 1) * a.stride - a.padding <= a.lout;
  if (meets && stored) {
    thread.template run<true>(inner);
  } else {
    thread.template run<false>(inner);
  }
}

}  // namespace tconv::cuda::simt
