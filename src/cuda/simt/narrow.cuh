// cuda.simt.narrow: few input or few output channels, dilation 1, any stride s.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   o = s*Q + r - padding, taps k = r + t*s
//   for each (n, group), tile of Q, block of kCo output channels, group of residues        grid
//     for ci in co's group                     in slices: warps of the block, blocks of the grid
//       for t in 0..ceil(K/s)-1
//         for i in 0..kP-1                     Q = tile + lane + 32*i: loads of neighbours, no shared memory
//           for c in 0..kCo-1, r in 0..kR-1    registers, kP*kCo*kR sums a thread
//             sum[i][c][r] += x[ci, Q - t] * w[ci, co+c, r + t*s]
//
// x comes straight from memory (the next tap reads it again from L1), all taps of one or two channels at a
// time. Weights are in shared memory, kCo*kR in a row, and are read as 16-byte broadcasts. The s residues of
// a Q are neighbours in y: a thread that holds them all stores them itself; otherwise rows pass through
// shared memory. Memory binds up to about 20 products for each element of x, then FMA and shared memory.
//
// If Q alone cannot fill the machine, the reduction over ci is sliced: over warps of a block, which add up in
// shared memory one after another, and over blocks, which write partial sums that a second kernel adds
// (longk.hpp). The order of every sum is fixed by the configuration.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/narrow_store.cuh"

namespace tconv::cuda::simt {

// Channels first, first+step, ... below count of a chunk, if every Q - t of this warp lies in [0, l),
// positions are neighbours in memory and every residue has all kTaps taps: no tests, and loads with constant
// offsets. x points at (channel 0 of the chunk, position q).
template <class T, class Sum, int kCo, int kR, int kP, int kTaps>
__device__ __forceinline__ void add_inside(Sum (&sum)[kP][kCo * kR], const T* x, const Sum* ws, int first,
                                           int step, int count, const NarrowParams& a) {
  const int ws_tap = a.r_warps * (kCo * kR), ws_step = step * kTaps * ws_tap;
  const int64_t x_step = step * a.x_channel;
  const T* from = x + first * a.x_channel;
  const Sum* w_at = ws + first * kTaps * ws_tap;
  // Channels whose loads are in flight at once: two, if an SM's registers then still hold two blocks.
  constexpr int kAhead = kTaps * kP <= 8 && kP * kCo * kR <= 32 && sizeof(T) <= 4 ? 2 : 1;
#pragma unroll kAhead
  for (int ci = first; ci < count; ci += step) {
    T held[kTaps][kP];
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
#pragma unroll
      for (int i = 0; i < kP; ++i) held[t][i] = from[32 * i - t];
    }
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      Sum w[kCo * kR];
      load_weights(w, w_at + t * ws_tap);
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        const Sum v = widen(held[t][i]);
#pragma unroll
        for (int j = 0; j < kCo * kR; ++j) sum[i][j] = multiply_add(v, w[j], sum[i][j]);
      }
    }
    from += x_step;
    w_at += ws_step;
  }
}

// The same with every test: any strides, edges (a position outside x is no product: an infinite weight must
// not make NaN of a zero there), and taps that end within the block's residues. live: the residues of the
// block that have a tap 0; tap t has live - t*s.
template <class T, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void add_tested(Sum (&sum)[kP][kCo * kR], const T* x, int64_t q, const Sum* ws,
                                           int first, int step, int count, int live, const NarrowParams& a) {
  const int ws_tap = a.r_warps * (kCo * kR);
  for (int ci = first; ci < count; ci += step) {
    const T* from = x + ci * a.x_channel;
    const Sum* w_at = ws + ci * a.taps * ws_tap;
    for (int t = 0; t < a.taps; ++t, from -= a.x_position, w_at += ws_tap) {
      const int live_here = live - t * a.stride;
      if (live_here <= 0) break;
      Sum v[kP], w[kCo * kR];
      bool there[kP];
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        there[i] = static_cast<uint64_t>(q - t + 32 * i) < static_cast<uint64_t>(a.l);
        v[i] = widen(there[i] ? from[32 * i * a.x_position] : T{});
      }
      load_weights(w, w_at);
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        if (r < live_here) {
#pragma unroll
          for (int c = 0; c < kCo; ++c) {
#pragma unroll
            for (int i = 0; i < kP; ++i) {
              Sum& each = sum[i][c * kR + r];
              each = there[i] ? multiply_add(v[i], w[c * kR + r], each) : each;
            }
          }
        }
      }
    }
  }
}

// Blocks of 256 threads on an SM, by the sums that a thread holds: kernels that wait for memory want many.
constexpr int narrow_blocks_per_sm(int sums, int bytes) {
  return sums * bytes <= 64 ? 3 : sums * bytes <= 256 ? 2 : 1;
}

template <class T, int kCo, int kR, int kP>
__global__ void __launch_bounds__(32 * kNarrowMaxWarps,
                                  narrow_blocks_per_sm(kP* kCo* kR, sizeof(Accumulator<T>)))
    narrow_kernel(const NarrowParams a) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Sum* ws = reinterpret_cast<Sum*>(shared_bytes);  // the stage takes the place of the weights at the end
  const NarrowThread me = narrow_thread(a);
  const int q_block = 32 * kP * a.q_warps;

  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    const auto tile = narrow_tile<int64_t>(a, index, kCo, q_block);
    const int64_t n = divide(tile.row, a.groups), group = tile.row - n * a.groups;
    const int64_t q_warp_first = tile.q + me.q_warp * (32 * kP), q = q_warp_first + me.lane;
    const int residue = static_cast<int>(tile.residue) + me.r_warp * kR;  // first of this warp's block
    const int live =
        static_cast<int>(min(static_cast<int64_t>(a.k) - residue, static_cast<int64_t>(1) << 30));
    const bool inside = a.x_position == 1 && q_warp_first - (a.taps - 1) >= 0 &&
                        q_warp_first + 32 * kP <= a.l &&
                        live >= (a.taps - 1) * static_cast<int64_t>(a.stride) + min(kR, a.stride - residue);
    const SplitChannels<T> channels(a, tile, n, group, q);
    Sum sum[kP][kCo * kR];
    clear(sum);
    for (int chunk = 0; chunk < channels.count; chunk += a.chunk) {
      const int count = min(a.chunk, channels.count - chunk);
      __syncthreads();
      fill_weights<T, Sum, kCo, kR, kCo * kR>(
          ws, channels.w + static_cast<int64_t>(chunk) * a.cout_per_group * a.k, count, tile, a);
      __syncthreads();
      const Sum* w_block = ws + me.r_warp * (kCo * kR);
      const T* from = channels.x + chunk * a.x_channel;
      if (inside && a.taps == 2) {
        add_inside<T, Sum, kCo, kR, kP, 2>(sum, from, w_block, me.slice, a.slice_warps, count, a);
      } else if (inside && a.taps == 1) {
        add_inside<T, Sum, kCo, kR, kP, 1>(sum, from, w_block, me.slice, a.slice_warps, count, a);
      } else if (inside && a.taps == 4) {
        add_inside<T, Sum, kCo, kR, kP, 4>(sum, from, w_block, me.slice, a.slice_warps, count, a);
      } else {
        add_tested<T, Sum, kCo, kR, kP>(sum, from, q, w_block, me.slice, a.slice_warps, count, live, a);
      }
    }
    add_slices<Sum, kCo * kR, kP>(sum, ws, me, a);
    if (a.partial != nullptr) {
      Sum* to = static_cast<Sum*>(a.partial) + tile.split * a.row_elements;
      store_tile<Sum, Sum, kCo, kR, kP>(to, nullptr, sum, ws, tile, me, a);
    } else {
      store_tile<T, Sum, kCo, kR, kP>(static_cast<T*>(a.y), a.bias, sum, ws, tile, me, a);
    }
  }
}

}  // namespace tconv::cuda::simt
