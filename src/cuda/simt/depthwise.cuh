// cuda.simt.depthwise: few channels a group, hence bound by memory.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   dilation 1, stride S of 1, 2, 4 or 8
//   for each row (n, co) of y                                     grid: rows x windows of the row
//     for each run of R outputs that begins 16-byte aligned       threads, kRuns each
//       for ci in co's group                                      at most kMaxCin
//         for t in taps of a residue, tap k = r + t*S             x from shared memory, a window a run
//           for m in 0..R-1                                       registers
//             y[o0+m] += x[ci, Q(m) - t] * w[ci, co, r(m) + t*S]
//
// R is a multiple of S, so all runs of a row begin at the same residue, the row's phase: the kernel is
// compiled once a phase, which makes every register index a constant, interleaves the residues without any
// exchange and leaves nothing but whole 16-byte stores, whatever the row's alignment. Windows begin at
// 32-byte boundaries of y: no memory sector is written by two blocks. A row's first and last run store their
// elements one by one. Each value of x is read once from memory (but for the halo of K/S values a window),
// converted to float and kept in shared memory.
#pragma once

#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// R outputs a run: a 16-byte vector, or one Q where that is more.
template <class T, int S>
struct DepthwiseShape {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int R = kVector > S ? kVector : S;
  static constexpr int XV = R / S;  // Q a run
  static constexpr int kRuns = XV >= 4 ? 2 : 64 / static_cast<int>(sizeof(T)) / R;
};

template <int XV>
__device__ __forceinline__ void load_window(float (&to)[XV], const float* from) {
  if constexpr (XV >= 4) {
#pragma unroll
    for (int i = 0; i < XV; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  } else if constexpr (XV == 2) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    to[0] = v.x, to[1] = v.y;
  } else {
    to[0] = *from;
  }
}

// One channel of x into shared memory: value j is position start + j, zero outside [0, l).
template <class T, int kEach>
__device__ __forceinline__ void fill_row(float* shared, const T* row, int64_t start,
                                         const DepthwiseParams& a) {
  const int threads = blockDim.x, thread = threadIdx.x;
  // Values inside [0, l) are first..first+count-1.
  const int first =
      static_cast<int>(min(static_cast<int64_t>(a.pitch), max(static_cast<int64_t>(0), -start)));
  const int end =
      static_cast<int>(max(static_cast<int64_t>(first), min(static_cast<int64_t>(a.pitch), a.l - start)));
  const uint32_t count = end - first;
  const T* from = row + (start + thread) * a.x_position;
  const int64_t step = threads * a.x_position;
  T held[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    held[i] = static_cast<uint32_t>(i * threads + thread - first) < count ? *from : T{};
    from += step;
  }
  loads_before_stores();
  float* to = shared + thread;
#pragma unroll
  for (int i = 0; i < kEach - 1; ++i, to += threads) *to = widen(held[i]);  // pitch holds as many
  if ((kEach - 1) * threads + thread < a.pitch) *to = widen(held[kEach - 1]);
  for (int j = kEach * threads + thread; j < a.pitch; j += threads, from += step) {  // long halos
    shared[j] = static_cast<uint32_t>(j - first) < count ? widen(*from) : 0.f;
  }
}

// All taps of one input channel for this thread's runs. xs points at run 0's first Q.
template <int S, int R, int kRuns, int kPhase>
__device__ __forceinline__ void add_channel(float (&sum)[kRuns][R], const float* xs, int run_step,
                                            const float* ws, const DepthwiseParams& a) {
  constexpr int XV = R / S;
  float above[kRuns], middle[kRuns][XV];
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    load_window(middle[i], xs + i * run_step);
    above[i] = kPhase == 0 ? 0.f : xs[i * run_step + XV];
  }
  for (int block = 0; block < a.blocks_of_taps; ++block) {
    float below[kRuns][XV];
#pragma unroll
    for (int i = 0; i < kRuns; ++i) load_window(below[i], xs + i * run_step - (block + 1) * XV);
#pragma unroll
    for (int tap = 0; tap < XV; ++tap) {
#pragma unroll
      for (int r = 0; r < S; ++r) {
        const int k = (block * XV + tap) * S + r;
        if (k < a.k) {
          const float w = ws[k];
#pragma unroll
          for (int m = 0; m < R; ++m) {
            if ((kPhase + m) % S != r) continue;
            const int at = (kPhase + m) / S - tap;  // relative to middle[0]
#pragma unroll
            for (int i = 0; i < kRuns; ++i) {
              const float v = at < 0 ? below[i][(XV + at) % XV] : at < XV ? middle[i][at % XV] : above[i];
              sum[i][m] = fmaf(v, w, sum[i][m]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      above[i] = middle[i][0];
#pragma unroll
      for (int j = 0; j < XV; ++j) middle[i][j] = below[i][j];
    }
  }
}

template <class T, int R>
__device__ __forceinline__ void store_run(T* row, int64_t o, const float (&sum)[R],
                                          const DepthwiseParams& a) {
  T out[R];
#pragma unroll
  for (int m = 0; m < R; ++m) out[m] = narrow<T>(sum[m]);
  if (o >= 0 && o + R <= a.lout) {
    store_span<T, R>(row + o, out);  // aligned to 16 bytes
    return;
  }
#pragma unroll
  for (int m = 0; m < R; ++m) {
    if (o + m >= 0 && o + m < a.lout) row[o + m] = out[m];
  }
}

template <class T, int S, int kPhase>
__device__ __forceinline__ void run_phase(T* row, int64_t first, float bias, const float* xs, const float* ws,
                                          const DepthwiseParams& a) {
  using Shape = DepthwiseShape<T, S>;
  constexpr int R = Shape::R, XV = Shape::XV, kRuns = Shape::kRuns;
  float sum[kRuns][R];
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
#pragma unroll
    for (int m = 0; m < R; ++m) sum[i][m] = bias;
  }
  const int below = a.blocks_of_taps * XV;
  for (int c = 0; c < a.cin_per_group; ++c) {
    add_channel<S, R, kRuns, kPhase>(sum, xs + c * a.pitch + below + static_cast<int>(threadIdx.x) * XV,
                                     static_cast<int>(blockDim.x) * XV, ws + c * a.k, a);
  }
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    store_run<T, R>(row, first + (i * static_cast<int64_t>(blockDim.x) + threadIdx.x) * R, sum[i], a);
  }
}

// Phases are compared one after the other; the test is uniform over the block.
template <class T, int S, int kPhase = 0>
__device__ __forceinline__ void run_any_phase(int phase, T* row, int64_t first, float bias, const float* xs,
                                              const float* ws, const DepthwiseParams& a) {
  if (phase == kPhase) {
    run_phase<T, S, kPhase>(row, first, bias, xs, ws, a);
  } else if constexpr (kPhase + 1 < S) {
    run_any_phase<T, S, kPhase + 1>(phase, row, first, bias, xs, ws, a);
  }
}

template <class T, int S>
__global__ void __launch_bounds__(128) depthwise_kernel(const DepthwiseParams a) {
  using Shape = DepthwiseShape<T, S>;
  constexpr int kSector = 32 / sizeof(T);
  extern __shared__ __align__(16) float shared_floats[];
  float* xs = shared_floats;
  float* ws = shared_floats + static_cast<int64_t>(a.cin_per_group) * a.pitch;
  const int window = static_cast<int>(blockDim.x) * Shape::kRuns * Shape::R;

  for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    int64_t line, n, group;
    if (a.small) {
      line = a.by_windows.divide(static_cast<uint32_t>(tile));
      n = a.by_cout.divide(static_cast<uint32_t>(line));
      group = a.by_cout_per_group.divide(static_cast<uint32_t>(line - n * a.cout));
    } else {
      line = tile / a.windows;
      n = line / a.cout;
      group = (line - n * a.cout) / a.cout_per_group;
    }
    const int64_t part = tile - line * a.windows, co = line - n * a.cout, ci = group * a.cin_per_group;
    T* row = static_cast<T*>(a.y) + line * a.lout;
    const int past = static_cast<int>((reinterpret_cast<uintptr_t>(row) / sizeof(T)) % kSector);
    const int64_t first = part * window - past;  // first + m is aligned where m is
    if (first >= a.lout) continue;
    const int64_t q = floor_div(first + a.padding, S);
    const int phase = static_cast<int>(first + a.padding - q * S);

    const T* x = static_cast<const T*>(a.x) + n * a.x_sample + ci * a.x_channel;
    const T* w =
        static_cast<const T*>(a.weight) + (ci * a.cout_per_group + co - group * a.cout_per_group) * a.k;
    // All loads are under way before the first is waited for: a weight, the bias, x.
    const int weights = a.cin_per_group * a.k;
    const auto weight = [&](int e) {
      const int c = e < a.k ? 0 : e / a.k;
      return w[(static_cast<int64_t>(c) * a.cout_per_group - c) * a.k + e];
    };
    const T held = static_cast<int>(threadIdx.x) < weights ? weight(threadIdx.x) : T{};
    const float bias = a.bias == nullptr ? 0.f : widen(static_cast<const T*>(a.bias)[co]);
    for (int c = 0; c < a.cin_per_group; ++c) {
      fill_row<T, Shape::kRuns * Shape::XV + 1>(xs + c * a.pitch, x + c * a.x_channel,
                                                q - a.blocks_of_taps * Shape::XV, a);
    }
    if (static_cast<int>(threadIdx.x) < weights) ws[threadIdx.x] = widen(held);
    for (int e = threadIdx.x + blockDim.x; e < weights; e += blockDim.x) ws[e] = widen(weight(e));
    __syncthreads();
    run_any_phase<T, S>(phase, row, first, bias, xs, ws, a);
    __syncthreads();  // the next window overwrites xs
  }
}

}  // namespace tconv::cuda::simt
