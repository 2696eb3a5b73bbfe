// cuda.simt.narrow: few input or few output channels, dilation 1, any stride s.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   o = s*Q + r - padding, taps k = r + t*s
//   for each (n, group), tile of Q, block of kCo output channels, group of residues        grid
//     for ci in co's group                     cut into slices: warps of the block, blocks of the grid
//       for t in 0..ceil(K/s)-1
//         for i in 0..kP-1                     Q = tile + lane + 32*i: loads of neighbours, no shared memory
//           for c in 0..kCo-1, r in 0..kR-1    registers, kP*kCo*kR sums a thread
//             sum[i][c][r] += x[ci, Q - t] * w[ci, co+c, r + t*s]
//
// x comes straight from memory (its re-reads by the next tap hit L1), one step ahead of its use; weights lie
// in shared memory, kCo*kR in a row, and are read as 16-byte broadcasts. At the end the sums pass through
// shared memory, so that rows are stored in order: s residues of a Q are neighbours in y. Bound by memory
// while an element of x meets fewer than about 20 products, else by FMA.
//
// Where Q alone cannot fill the machine the reduction over ci is sliced: over warps of a block, which add up
// in shared memory one after the other, and over blocks, which write partial sums that a second kernel adds
// (longk.cuh). The order of every sum is fixed by the configuration.
#pragma once

#include "cuda/simt/narrow.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// What a block works on.
struct NarrowTile {
  int64_t row, q, residue, co, split;  // q: first Q, co: within the group
};

__device__ __forceinline__ NarrowTile narrow_tile(const NarrowParams& a, int64_t index, int kCo,
                                                  int q_block) {
  NarrowTile t;
  t.residue = take_digit(index, a.residue_groups) * a.residues;
  t.co = take_digit(index, a.co_blocks) * kCo;
  t.q = a.q_first + take_digit(index, a.q_tiles) * q_block;
  t.row = take_digit(index, a.rows);
  t.split = index;
  return t;
}

// ws[((ci*taps + t)*r_warps + residue block)*kCo*kR + c*kR + r]
template <class T, class Sum, int kCo, int kR>
__device__ __forceinline__ void fill_weights(Sum* ws, const T* w, int ci_count, const NarrowTile& tile,
                                             const NarrowParams& a) {
  const int per_channel = a.taps * a.residues;
  const int co_live = min(static_cast<int64_t>(kCo), a.cout_per_group - tile.co);
  for (int e = threadIdx.x; e < ci_count * kCo * per_channel; e += blockDim.x) {
    const int line = static_cast<int>(a.by_taps_residues.divide(e)), within = e - line * per_channel;
    const int ci = line / kCo, c = line % kCo;
    const int t = static_cast<int>(a.by_residues.divide(within)), r = within - t * a.residues;
    const int64_t k = t * static_cast<int64_t>(a.stride) + tile.residue + r;
    Sum v = 0;
    if (c < co_live && k < a.k) {
      v = widen(w[(static_cast<int64_t>(ci) * a.cout_per_group + tile.co + c) * a.k + k], a.half);
    }
    ws[((ci * a.taps + t) * a.r_warps + r / kR) * (kCo * kR) + c * kR + r % kR] = v;
  }
}

// kN values, 16 bytes at a time where there are so many.
template <int kN>
__device__ __forceinline__ void load_weights(float (&to)[kN], const float* from) {
  if constexpr (kN % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kN; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) to[i] = from[i];
  }
}
template <int kN>
__device__ __forceinline__ void load_weights(double (&to)[kN], const double* from) {
#pragma unroll
  for (int i = 0; i < kN; ++i) to[i] = from[i];
}

__device__ __forceinline__ float multiply_add(float a, float b, float c) {
  return fmaf(a, b, c);
}
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}

// Channels first, first+step, ... below count of a chunk, where every Q - t of this warp lies in [0, l),
// positions are neighbours in memory and every residue has all kTaps taps: no tests, loads with constant
// offsets. x points at (channel 0 of the chunk, position q).
template <class T, class Sum, int kCo, int kR, int kP, int kTaps>
__device__ __forceinline__ void add_inside(Sum (&sum)[kP][kCo * kR], const T* x, const Sum* ws, int first,
                                           int step, int count, const NarrowParams& a) {
  const int ws_tap = a.r_warps * (kCo * kR), ws_step = step * kTaps * ws_tap;
  const int64_t x_step = step * a.x_channel;
  const T* from = x + first * a.x_channel;
  const Sum* w_at = ws + first * kTaps * ws_tap;
  // Channels whose loads are in flight at once: two, where the registers of two blocks an SM allow.
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
        const Sum v = widen(held[t][i], a.half);
#pragma unroll
        for (int j = 0; j < kCo * kR; ++j) sum[i][j] = multiply_add(v, w[j], sum[i][j]);
      }
    }
    from += x_step;
    w_at += ws_step;
  }
}

// The same with every test: any strides, edges, taps that end within the block's residues. live: residues of
// the block with a tap 0; tap t has live - t*s.
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
#pragma unroll
      for (int i = 0; i < kP; ++i) {
        const bool there = static_cast<uint64_t>(q - t + 32 * i) < static_cast<uint64_t>(a.l);
        v[i] = widen(there ? from[32 * i * a.x_position] : T(0), a.half);
      }
      load_weights(w, w_at);
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        if (r < live_here) {
#pragma unroll
          for (int c = 0; c < kCo; ++c) {
#pragma unroll
            for (int i = 0; i < kP; ++i) {
              sum[i][c * kR + r] = multiply_add(v[i], w[c * kR + r], sum[i][c * kR + r]);
            }
          }
        }
      }
    }
  }
}

// stage[(Q - tile.q)*pitch + residue] = sums of output channel c, slices added in order.
template <class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void stage_sums(Sum* stage, const Sum (&sum)[kP][kCo * kR], int c, int pitch,
                                           const NarrowParams& a) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int q_warp = warp % a.q_warps, rest = warp / a.q_warps;
  const int r_warp = rest % a.r_warps, slice = rest / a.r_warps;
  for (int turn = 0; turn < a.slice_warps; ++turn) {
    __syncthreads();
    if (turn != slice) continue;
#pragma unroll
    for (int i = 0; i < kP; ++i) {
      Sum* to = stage + ((q_warp * kP + i) * 32 + lane) * pitch + r_warp * kR;
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        Sum v = 0;
#pragma unroll
        for (int each = 0; each < kCo; ++each) v = each == c ? sum[i][each * kR + r] : v;
        to[r] = turn == 0 ? v : to[r] + v;
      }
    }
  }
  __syncthreads();
}

// One row of the stage to y (rounded, with bias) or to the partial sums. 16-bit results go in pairs.
template <class T, class Sum>
__device__ __forceinline__ void write_row(const Sum* stage, int pitch, int q_block, const NarrowTile& tile,
                                          int64_t co, const NarrowParams& a) {
  constexpr int kPair = sizeof(T) == 2 ? 2 : 1;
  const int64_t cout = a.groups * a.cout_per_group;
  const int64_t n = quotient(tile.row, a.groups);
  const int64_t channel = (tile.row - n * a.groups) * a.cout_per_group + co;
  const int64_t line = (n * cout + channel) * a.lout;
  const int64_t o_tile = tile.q * a.stride + tile.residue - a.padding;
  const int count = q_block * a.residues;
  const auto place = [&](int e, int64_t& o) {
    const int q = static_cast<int>(a.by_residues.divide(e)), r = e - q * a.residues;
    o = o_tile + q * static_cast<int64_t>(a.stride) + r;
    return r + tile.residue < a.stride && o >= 0 && o < a.lout ? stage + q * pitch + r : nullptr;
  };
  if (a.partial != nullptr) {
    Sum* to = static_cast<Sum*>(a.partial) + tile.split * a.row_elements + line;
    for (int e = threadIdx.x; e < count; e += blockDim.x) {
      int64_t o;
      if (const Sum* from = place(e, o)) to[o] = *from;
    }
    return;
  }
  T* to = static_cast<T*>(a.y) + line;
  const Sum bias = a.bias == nullptr ? Sum(0) : widen(static_cast<const T*>(a.bias)[channel], a.half);
  if constexpr (kPair == 1) {
    for (int e = threadIdx.x; e < count; e += blockDim.x) {
      int64_t o;
      if (const Sum* from = place(e, o)) to[o] = narrowed<T>(*from + bias, a.half);
    }
  } else {
    // Pairs begin at 4-byte boundaries of y; neighbours in e are neighbours in y only within a Q where the
    // residues are a part of the stride, hence the test of o1.
    const int odd = static_cast<int>((reinterpret_cast<uintptr_t>(to + o_tile) >> 1) & 1);
    for (int e = 2 * static_cast<int>(threadIdx.x) - odd; e < count; e += 2 * blockDim.x) {
      int64_t o0 = 0, o1 = 0;
      const Sum* from0 = e >= 0 ? place(e, o0) : nullptr;
      const Sum* from1 = e + 1 < count ? place(e + 1, o1) : nullptr;
      const uint16_t h0 = from0 == nullptr ? 0 : narrowed<T>(*from0 + bias, a.half);
      const uint16_t h1 = from1 == nullptr ? 0 : narrowed<T>(*from1 + bias, a.half);
      if (from0 != nullptr && from1 != nullptr && o1 == o0 + 1 &&
          (reinterpret_cast<uintptr_t>(to + o0) & 3) == 0) {
        *reinterpret_cast<uint32_t*>(to + o0) = h0 | static_cast<uint32_t>(h1) << 16;
      } else {
        if (from0 != nullptr) to[o0] = h0;
        if (from1 != nullptr) to[o1] = h1;
      }
    }
  }
}

// Blocks of 256 threads on an SM, by the sums a thread holds: what waits for memory wants many.
constexpr int narrow_blocks_per_sm(int sums, int bytes) {
  return sums * bytes <= 64 ? 3 : 2;
}

template <class T, int kCo, int kR, int kP>
__global__ void __launch_bounds__(32 * kNarrowMaxWarps,
                                  narrow_blocks_per_sm(kP* kCo* kR, sizeof(Accumulator<T>)))
    narrow_kernel(const NarrowParams a) {
  using Sum = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Sum* ws = reinterpret_cast<Sum*>(shared_bytes);  // the weights' place holds the stage at the end
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int q_warp = warp % a.q_warps, rest = warp / a.q_warps;
  const int r_warp = rest % a.r_warps, slice = rest / a.r_warps;
  const int q_block = 32 * kP * a.q_warps;
  const int pitch = (a.r_warps * kR) | 1;  // odd: lanes of neighbouring Q meet different banks

  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    const NarrowTile tile = narrow_tile(a, index, kCo, q_block);
    const int64_t n = quotient(tile.row, a.groups), group = tile.row - n * a.groups;
    const int64_t q_warp_first = tile.q + q_warp * (32 * kP), q = q_warp_first + lane;
    const int residue = static_cast<int>(tile.residue) + r_warp * kR;  // first of this warp's block
    const int live =
        static_cast<int>(min(static_cast<int64_t>(a.k) - residue, static_cast<int64_t>(1) << 30));
    const bool inside = a.x_position == 1 && q_warp_first - (a.taps - 1) >= 0 &&
                        q_warp_first + 32 * kP <= a.l &&
                        live >= (a.taps - 1) * static_cast<int64_t>(a.stride) + min(kR, a.stride - residue);
    const int64_t ci_first = static_cast<int64_t>(tile.split) * a.cin_per_split;
    const int ci_count = min(static_cast<int64_t>(a.cin_per_split), a.cin_per_group - ci_first);
    const T* x = static_cast<const T*>(a.x) + n * a.x_sample +
                 (group * a.cin_per_group + ci_first) * a.x_channel + q * a.x_position;
    const T* w =
        static_cast<const T*>(a.weight) + (group * a.cin_per_group + ci_first) * a.cout_per_group * a.k;
    Sum sum[kP][kCo * kR];
#pragma unroll
    for (int i = 0; i < kP; ++i) {
#pragma unroll
      for (int j = 0; j < kCo * kR; ++j) sum[i][j] = 0;
    }
    for (int chunk = 0; chunk < ci_count; chunk += a.chunk) {
      const int count = min(a.chunk, ci_count - chunk);
      __syncthreads();
      fill_weights<T, Sum, kCo, kR>(ws, w + static_cast<int64_t>(chunk) * a.cout_per_group * a.k, count, tile,
                                    a);
      __syncthreads();
      const Sum* w_block = ws + r_warp * (kCo * kR);
      const T* from = x + chunk * a.x_channel;
      if (inside && a.taps == 2) {
        add_inside<T, Sum, kCo, kR, kP, 2>(sum, from, w_block, slice, a.slice_warps, count, a);
      } else if (inside && a.taps == 1) {
        add_inside<T, Sum, kCo, kR, kP, 1>(sum, from, w_block, slice, a.slice_warps, count, a);
      } else if (inside && a.taps == 4) {
        add_inside<T, Sum, kCo, kR, kP, 4>(sum, from, w_block, slice, a.slice_warps, count, a);
      } else {
        add_tested<T, Sum, kCo, kR, kP>(sum, from, q, w_block, slice, a.slice_warps, count, live, a);
      }
    }
    for (int c = 0; c < kCo && tile.co + c < a.cout_per_group; ++c) {
      stage_sums<Sum, kCo, kR, kP>(ws, sum, c, pitch, a);
      write_row<T, Sum>(ws, pitch, q_block, tile, tile.co + c, a);
    }
  }
}

}  // namespace tconv::cuda::simt
