// cuda.simt.gather: every problem whose counts tiles can hold; meant for few channels and dilation.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   o = s*Q + r - padding
//   for each (n, group), block of kCo output channels, chunk of residues, tile of Q      grid
//     for each (r, Q)                          threads, r fastest: neighbours store neighbours
//       for ci in co's group
//         for t in taps of r                   tap k = k0 + t*s/g, shift = shift0 - t*d/g
//           for i in 0..kP-1                   registers
//             for c in 0..kCo-1
//               sum[i][c] += x[ci, Q + i*step + shift] * w[ci, co+c, k]
//
// with g = gcd(s, d). Residues that are not multiples of g have no taps: bias alone. The first tap of residue
// r is k0 = (r/g * inverse of d/g) mod s/g; its shift is (r - k0*d)/s. Threads share nothing but L1: about
// one load for each product. Every index has 64 bits.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/gather.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

template <class T, int kCo, int kP>
__global__ void __launch_bounds__(256) gather_kernel(const GatherParams a) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  const int lane_q = threadIdx.x / static_cast<uint32_t>(a.residues);
  const int lane_r = threadIdx.x - lane_q * static_cast<int>(a.residues);
  if (lane_q >= a.q_step) return;
  const int64_t tap_step = a.stride / a.common, shift_step = a.dilation / a.common;

  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    int64_t n = index;  // what is left of it after the other digits
    const int64_t r = take_digit(n, a.residue_chunks) * a.residues + lane_r;
    const int64_t q = a.q_first + take_digit(n, a.q_tiles) * (a.q_step * kP) + lane_q;
    const int64_t co = take_digit(n, a.co_blocks) * kCo;
    const int64_t group = take_digit(n, a.groups);
    if (r >= a.stride) continue;

    Sum sum[kP][kCo];
    const int64_t channel = group * a.cout_per_group + co;
    const int co_live = static_cast<int>(min(static_cast<int64_t>(kCo), a.cout_per_group - co));
#pragma unroll
    for (int c = 0; c < kCo; ++c) {
      const Sum bias = c < co_live ? load_bias<T>(a.bias, channel + c) : Sum(0);
#pragma unroll
      for (int i = 0; i < kP; ++i) sum[i][c] = bias;
    }

    const int64_t r_common = divide(r, a.common);
    if (r_common * a.common == r) {
      int64_t k0 = r_common * a.inverse;
      k0 -= divide(k0, tap_step) * tap_step;
      if (k0 < a.k) {
        // A sum of products begins at +0.0 even if the bias is -0.0.
#pragma unroll
        for (int i = 0; i < kP; ++i) {
#pragma unroll
          for (int c = 0; c < kCo; ++c) sum[i][c] += Sum(0);
        }
      }
      const int64_t reach = k0 < a.k ? k0 * a.dilation : 0;  // without taps k0*dilation may overflow
      const int64_t shift0 = floor_div(r - reach, a.stride);
      const T* x_channel =
          static_cast<const T*>(a.x) + n * a.x_sample + group * a.cin_per_group * a.x_channel;
      const T* w_channel =
          static_cast<const T*>(a.weight) + (group * a.cin_per_group * a.cout_per_group + co) * a.k;
      for (int64_t ci = 0; ci < a.cin_per_group; ++ci) {
        int64_t position = q + shift0;
        for (int64_t k = k0; k < a.k; k += tap_step, position -= shift_step) {
          Sum v[kP];
          bool there[kP];
#pragma unroll
          for (int i = 0; i < kP; ++i) {
            const int64_t at = position + i * a.q_step;
            there[i] = static_cast<uint64_t>(at) < static_cast<uint64_t>(a.l);
            v[i] = widen(there[i] ? x_channel[at * a.x_position] : T{});
          }
#pragma unroll
          for (int c = 0; c < kCo; ++c) {
            const Sum w = c < co_live ? widen(w_channel[c * a.k + k]) : Sum(0);
            // A position outside x is no product: an infinite weight must not make NaN of it.
#pragma unroll
            for (int i = 0; i < kP; ++i) sum[i][c] = there[i] ? sum[i][c] + v[i] * w : sum[i][c];
          }
        }
        x_channel += a.x_channel;
        w_channel += a.cout_per_group * a.k;
      }
    }

    T* row = static_cast<T*>(a.y) + (n * a.groups * a.cout_per_group + channel) * a.lout;
#pragma unroll
    for (int i = 0; i < kP; ++i) {
      const int64_t o = (q + i * a.q_step) * a.stride + r - a.padding;
      if (o < 0 || o >= a.lout) continue;
#pragma unroll
      for (int c = 0; c < kCo; ++c) {
        if (c < co_live) row[c * a.lout + o] = epilogue_of<T>(a.bias, channel + c).begun(sum[i][c]);
      }
    }
  }
}

}  // namespace tconv::cuda::simt
