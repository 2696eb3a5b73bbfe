// cuda.simt.depthwise: few channels in a group, so memory binds. Two of its three ways, which give a row of y
// one block or more; depthwise_flat.cuh has the one for short rows.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   dilation 1, stride S of 1, 2, 4 or 8
//   for each row (n, co) of y                                     grid: rows x windows of the row
//     for each run of R outputs that begins 16-byte aligned       threads, kRuns each
//       for ci in co's group                                      at most kMaxCin
//         for t in taps of a residue, tap k = r + t*S             x from shared memory, a window a run
//           for m in 0..R-1                                       registers
//             y[o0+m] += x[ci, Q(m) - t] * w[ci, co, r(m) + t*S]
//
// R is a multiple of S, so all runs of a row begin at the same residue, the row's phase. The kernel is
// compiled once for each phase, which makes every register index a constant, interleaves the residues without
// any exchange and leaves only whole 16-byte stores, whatever the row's alignment. Windows begin on 32-byte
// boundaries of y, so that no memory sector is written by two blocks. The first and last runs of a row store
// their elements one by one.
//
// Each value of x is read once from memory (except for the halo of K/S values in each window) and kept as
// float in shared memory. Two kernels differ in how it gets there. The usual one, for one channel in a group,
// loads aligned words of 4 bytes, which hold two elements of a 16-bit type; if they are shifted by one
// element, the shift disappears when they become floats. A block walks over neighbouring windows of a row,
// and the words of the next window are in flight, in registers, while this one is multiplied and stored. The
// other kernel, for several channels, any strides of x and rows that are short, though too long to run flat,
// loads element by element.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/depthwise_part.cuh"
#include "cuda/simt/depthwise_store.cuh"

namespace tconv::cuda::simt {

// `to` is aligned to 16 bytes; o: its place in the row. whole: the whole window lies in [0, lout).
template <class T, int R>
__device__ __forceinline__ void store_run(T* to, int64_t o, const float (&sum)[R], bool whole,
                                          const Epilogue<T>& finish, const DepthwiseParams& a) {
  if (whole || (o >= 0 && o + R <= a.lout)) {
    store_vectors(to, sum, finish);
  } else {
#pragma unroll
    for (int m = 0; m < R; ++m) {
      if (o + m >= 0 && o + m < a.lout) to[m] = finish.begun(sum[m]);
    }
  }
}

// A window of y at `to`, whose first output is `first`. xs points at this thread's first Q of channel 0.
template <class T, int S, int kThreads, int kPhase>
__device__ __forceinline__ void run_phase(T* to, int64_t first, const Epilogue<T>& finish, const float* xs,
                                          const float* ws, int channels, const DepthwiseParams& a) {
  using Shape = DepthwiseShape<T, S, kThreads>;
  constexpr int R = Shape::R, kRuns = Shape::kRuns;
  const bool whole = first >= 0 && first + Shape::kStep * S <= a.lout;
  int mine = static_cast<int>(threadIdx.x) * R;
#pragma unroll 1
  for (int turn = 0; turn < Shape::kTurns; ++turn, mine += kThreads * kRuns * R) {
    float sum[kRuns][R];
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
#pragma unroll
      for (int m = 0; m < R; ++m) sum[i][m] = finish.bias;
    }
    for (int c = 0; c < channels; ++c) {
      add_channel<S, R, kRuns, kPhase, kThreads>(sum, xs + c * a.pitch, ws + c * a.weights_pitch, a);
    }
    xs += kThreads * kRuns * Shape::XV;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int at = mine + i * kThreads * R;
      store_run<T, R>(to + at, first + at, sum[i], whole, finish, a);
    }
  }
}

// Phases are tried one after another; all threads of a block take the same branch.
template <class T, int S, int kThreads, int kPhase = 0>
__device__ __forceinline__ void run_any_phase(int phase, T* to, int64_t first, const Epilogue<T>& finish,
                                              const float* xs, const float* ws, int channels,
                                              const DepthwiseParams& a) {
  if (phase == kPhase) {
    run_phase<T, S, kThreads, kPhase>(to, first, finish, xs, ws, channels, a);
  } else if constexpr (kPhase + 1 < S) {
    run_any_phase<T, S, kThreads, kPhase + 1>(phase, to, first, finish, xs, ws, channels, a);
  }
}

// Blocks of 128 threads on an SM, which decide how many loads are in flight: fewer where a thread holds 32
// sums (strides 4 and 8, which read little).
template <class Shape>
constexpr int depthwise_blocks() {
  return Shape::kRuns * Shape::R >= 32 ? 6 : 7;
}

// One channel a group, positions of x side by side.
template <class T, int S>
__global__ void __launch_bounds__(kDepthwiseThreads,
                                  depthwise_blocks<DepthwiseShape<T, S, kDepthwiseThreads>>())
    depthwise_words_kernel(const DepthwiseParams a) {
  wait_for_launch_before();
  constexpr int kThreads = kDepthwiseThreads;
  using Shape = DepthwiseShape<T, S, kThreads>;
  constexpr int kWindow = Shape::kStep * S, kWordStep = Shape::kStep / Shape::kPack;
  extern __shared__ __align__(16) float shared_floats[];
  float* xs = shared_floats + kDepthwiseLead;
  float* ws = shared_floats + a.pitch;
  const float* mine = xs + (a.blocks_of_taps + static_cast<int>(threadIdx.x)) * Shape::XV;

  bool special = false;  // a weight is not finite
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    DepthwisePart<T> part = depthwise_part<T, S, Shape>(a, index);
    if (part.first >= part.end) continue;
    const int shift = shift_of(part.x + part.start);  // the same for all windows
    int64_t position = part.start - shift;
    const auto* from = reinterpret_cast<const uint32_t*>(part.x + position) + threadIdx.x;
    uint32_t held[Shape::kWords];
    fetch_words<T, kThreads>(held, from, part.x, position, a);
    const T weight = static_cast<int>(threadIdx.x) < a.k ? part.weight[threadIdx.x] : T{};
    bool finite = is_finite(widen(weight));
    for (int k = threadIdx.x + kThreads; k < a.k; k += kThreads) {
      finite = finite && is_finite(widen(part.weight[k]));
    }
    if (__syncthreads_or(!finite)) special = true;  // and everybody has read the weights of the row before
    if (static_cast<int>(threadIdx.x) < a.k) ws[threadIdx.x] = widen(weight);
    for (int k = threadIdx.x + kThreads; k < a.k; k += kThreads) ws[k] = widen(part.weight[k]);
    T* to = part.row + part.first;
    for (;; part.first += kWindow, to += kWindow) {
      put_words<T, kThreads>(xs - shift, held, part.x, position, a);
      position += Shape::kStep;
      from += kWordStep;
      const bool more = part.first + kWindow < part.end;
      if (more) fetch_words<T, kThreads>(held, from, part.x, position, a);
      __syncthreads();
      run_any_phase<T, S, kThreads>(part.phase, to, part.first, part.finish, mine, ws, 1, a);
      if (!more) break;
      __syncthreads();  // the next window overwrites xs
    }
  }
  if (special) repair_parts<T, S, kThreads>(a);
}

// Several channels a group, any strides of x, short rows.
template <class T, int S>
__global__ void __launch_bounds__(kDepthwiseSmallThreads) depthwise_elements_kernel(const DepthwiseParams a) {
  wait_for_launch_before();
  constexpr int kThreads = kDepthwiseSmallThreads;
  using Shape = DepthwiseShape<T, S, kThreads>;
  extern __shared__ __align__(16) float shared_floats[];
  float* xs = shared_floats + kDepthwiseLead;
  float* ws = shared_floats + static_cast<int64_t>(a.cin_per_group) * a.pitch;
  const float* mine = xs + (a.blocks_of_taps + static_cast<int>(threadIdx.x)) * Shape::XV;

  bool finite = true;
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    DepthwisePart<T> part = depthwise_part<T, S, Shape>(a, index);
    for (bool begins = true; part.first < part.end; part.first += Shape::kStep * S, begins = false) {
      for (int c = 0; c < a.cin_per_group; ++c) {
        const T* w = part.weight + static_cast<int64_t>(c) * a.cout_per_group * a.k;
        for (int k = threadIdx.x; begins && k < a.k; k += kThreads) {
          const float weight = widen(w[k]);
          finite = finite && is_finite(weight);
          ws[c * a.weights_pitch + k] = weight;
        }
        fill_elements<T, kThreads, Shape::kThreadQ + 1>(xs + c * a.pitch, part.x + c * a.x_channel,
                                                        part.start, a);
      }
      __syncthreads();
      run_any_phase<T, S, kThreads>(part.phase, part.row + part.first, part.first, part.finish, mine, ws,
                                    a.cin_per_group, a);
      __syncthreads();  // the next window overwrites xs
      part.start += Shape::kStep;
    }
  }
  static_assert(kThreads == 32);
  if (!__all_sync(~0u, finite)) repair_parts<T, S, kThreads>(a);
}

}  // namespace tconv::cuda::simt
