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
// elements one by one.
//
// Each value of x is read once from memory (but for the halo of K/S values a window) and kept as float in
// shared memory. Two kernels differ in how it gets there. The usual one, for one channel a group: in words of
// 4 bytes aligned as x is, two elements of a 16-bit type, whose shift of one element, where there is one,
// disappears when they become floats; a block walks over neighbouring windows of a row, and the words of the
// next one are under way, in registers, while this one is multiplied and stored. The other one, for several
// channels, any strides of x and short rows: element by element.
#pragma once

#include "cuda/simt/depthwise_feed.cuh"

namespace tconv::cuda::simt {

// R outputs a run: a 16-byte vector, or one Q where that is more.
template <class T, int S, int kThreads>
struct DepthwiseShape {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int R = kVector > S ? kVector : S;
  static constexpr int XV = R / S;                                                  // Q a run
  static constexpr int kRuns = XV >= 4 ? 2 : 64 / static_cast<int>(sizeof(T)) / R;  // at once
  // bf16 k4 s2 takes 447 us in one turn and 430 in two (H200), which have as many loads ahead as float32.
  static constexpr int kTurns = sizeof(T) == 2 && S == 2 ? 2 : 1;
  static constexpr int kThreadQ = kTurns * kRuns * XV;
  static constexpr int kStep = kThreads * kThreadQ;    // Q of a window
  static constexpr int kPack = 4 / sizeof(T);          // elements a word
  static constexpr int kWords = kThreadQ / kPack + 1;  // of a window, a thread: its own and one of the halo
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

// All taps of one input channel for this thread's runs. xs points at run 0's first Q. Weights are read four
// at a time, and tests are for whole taps: the last one alone may lack residues.
template <int S, int R, int kRuns, int kPhase, int kThreads>
__device__ __forceinline__ void add_channel(float (&sum)[kRuns][R], const float* xs, const float* ws,
                                            const DepthwiseParams& a) {
  constexpr int XV = R / S, kRunStep = kThreads * XV, kW = S > 4 ? S : 4;
  float above[kRuns], middle[kRuns][XV], below[kRuns][XV], w[kW];
#pragma unroll
  for (int i = 0; i < kRuns; ++i) {
    load_window(middle[i], xs + i * kRunStep);
    above[i] = kPhase == 0 ? 0.f : xs[i * kRunStep + XV];
  }
  const auto add = [&](int tap, int r) {
#pragma unroll
    for (int m = 0; m < R; ++m) {
      if ((kPhase + m) % S != r) continue;
      const int at = (kPhase + m) / S - tap;  // relative to middle[0]
#pragma unroll
      for (int i = 0; i < kRuns; ++i) {
        const float v = at < 0 ? below[i][(XV + at) % XV] : at < XV ? middle[i][at % XV] : above[i];
        sum[i][m] = fmaf(v, w[(tap * S + r) % kW], sum[i][m]);
      }
    }
  };
  int left = a.k;  // 1 or more
  do {
    xs -= XV;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) load_window(below[i], xs + i * kRunStep);
#pragma unroll
    for (int tap = 0; tap < XV; ++tap) {
      if (tap * S % kW == 0) load_window(w, ws + tap * S);  // beyond K: not used
      if (left >= (tap + 1) * S) {
#pragma unroll
        for (int r = 0; r < S; ++r) add(tap, r);
      } else if (S > 1 && left > tap * S) {
#pragma unroll
        for (int r = 0; r < S - 1; ++r) {
          if (left > tap * S + r) add(tap, r);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      above[i] = middle[i][0];
#pragma unroll
      for (int j = 0; j < XV; ++j) middle[i][j] = below[i][j];
    }
    left -= R, ws += R;
  } while (left > 0);
}

// to is aligned to 16 bytes; o: its place in the row. whole: all of the window lies in [0, lout).
template <class T, int R>
__device__ __forceinline__ void store_run(T* to, int64_t o, const float (&sum)[R], bool whole,
                                          const DepthwiseParams& a) {
  if (whole || (o >= 0 && o + R <= a.lout)) {
    constexpr int kPack = 4 / sizeof(T), kWords = R / kPack;
    uint32_t word[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(T) == 4) {
        word[i] = __float_as_uint(canonical(sum[i]));
      } else {
        word[i] = pack(sum[2 * i], sum[2 * i + 1], T());
      }
    }
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 vector = make_uint4(word[i], word[i + 1], word[i + 2], word[i + 3]);
      *reinterpret_cast<uint4*>(to + i * kPack) = vector;
    }
  } else {
#pragma unroll
    for (int m = 0; m < R; ++m) {
      if (o + m >= 0 && o + m < a.lout) to[m] = narrow<T>(sum[m]);
    }
  }
}

// A window of y, whose first output is first, at to. xs points at this thread's first Q of channel 0.
template <class T, int S, int kThreads, int kPhase>
__device__ __forceinline__ void run_phase(T* to, int64_t first, float bias, const float* xs, const float* ws,
                                          int channels, const DepthwiseParams& a) {
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
      for (int m = 0; m < R; ++m) sum[i][m] = bias;
    }
    for (int c = 0; c < channels; ++c) {
      add_channel<S, R, kRuns, kPhase, kThreads>(sum, xs + c * a.pitch, ws + c * a.weights_pitch, a);
    }
    xs += kThreads * kRuns * Shape::XV;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int at = mine + i * kThreads * R;
      store_run<T, R>(to + at, first + at, sum[i], whole, a);
    }
  }
}

// Phases are compared one after the other; the test is uniform over the block.
template <class T, int S, int kThreads, int kPhase = 0>
__device__ __forceinline__ void run_any_phase(int phase, T* to, int64_t first, float bias, const float* xs,
                                              const float* ws, int channels, const DepthwiseParams& a) {
  if (phase == kPhase) {
    run_phase<T, S, kThreads, kPhase>(to, first, bias, xs, ws, channels, a);
  } else if constexpr (kPhase + 1 < S) {
    run_any_phase<T, S, kThreads, kPhase + 1>(phase, to, first, bias, xs, ws, channels, a);
  }
}

// What a block works on: neighbouring windows of a row.
template <class T>
struct DepthwisePart {
  T* row;               // of y
  int64_t first, end;   // outputs; first + m is aligned where m is
  const T *x, *weight;  // of the first channel of the row's group
  int64_t start;        // position of a window's first value
  int phase;
  float bias;
};

template <class T, int S, class Shape>
__device__ __forceinline__ DepthwisePart<T> depthwise_part(const DepthwiseParams& a, int64_t index) {
  constexpr int kSector = 32 / sizeof(T), kWindow = Shape::kStep * S;
  int64_t line, n, group;
  if (a.small) {
    line = a.by_parts.divide(static_cast<uint32_t>(index));
    n = a.by_cout.divide(static_cast<uint32_t>(line));
    group = a.by_cout_per_group.divide(static_cast<uint32_t>(line - n * a.cout));
  } else {
    line = index / a.parts;
    n = line / a.cout;
    group = (line - n * a.cout) / a.cout_per_group;
  }
  const int64_t co = line - n * a.cout, ci = group * a.cin_per_group;
  DepthwisePart<T> part;
  part.row = static_cast<T*>(a.y) + line * a.lout;
  const int past = static_cast<int>((reinterpret_cast<uintptr_t>(part.row) / sizeof(T)) % kSector);
  part.first = (index - line * a.parts) * a.windows * kWindow - past;
  part.end = min(a.lout, part.first + a.windows * kWindow);
  part.x = static_cast<const T*>(a.x) + n * a.x_sample + ci * a.x_channel;
  part.weight =
      static_cast<const T*>(a.weight) + (ci * a.cout_per_group + co - group * a.cout_per_group) * a.k;
  const int64_t q = floor_div(part.first + a.padding, S);
  part.start = q - a.blocks_of_taps * Shape::XV;
  part.phase = static_cast<int>(part.first + a.padding - q * S);
  part.bias = load_bias_to_add<T>(a.bias, co);
  return part;
}

// This thread's outputs of a part that became NaN, again, of the products that are there.
template <class T, int S, int kThreads>
__device__ __forceinline__ void repair_part(const DepthwiseParams& a, int64_t index) {
  using Shape = DepthwiseShape<T, S, kThreads>;
  constexpr int R = Shape::R;
  const DepthwisePart<T> part = depthwise_part<T, S, Shape>(a, index);
  int64_t first = part.first + static_cast<int>(threadIdx.x) * R;  // of a run
#pragma unroll 1
  for (int m = 0; first < part.end; m = m + 1 == R ? 0 : m + 1, first += m == 0 ? kThreads * R : 0) {
    const int64_t o = first + m;
    if (o < 0 || o >= part.end) continue;
    const float now = widen(part.row[o]);
    if (now == now) continue;
    const int64_t q = floor_div(o + a.padding, S);
    const int r = static_cast<int>(o + a.padding - q * S);
    float sum = part.bias;
#pragma unroll 1
    for (int c = 0; c < a.cin_per_group; ++c) {
      const T* x = part.x + c * a.x_channel;
      const T* w = part.weight + c * a.cout_per_group * a.k;
#pragma unroll 1
      for (int k = r; k < a.k; k += S) {
        const int64_t position = q - (k - r) / S;
        if (position < 0 || position >= a.l) continue;
        sum = fmaf(widen(x[position * a.x_position]), widen(w[k]), sum);
      }
    }
    part.row[o] = narrow<T>(sum);
  }
}

// The same of all the block's parts, when all of them are stored: before, what this needs would take
// registers from the sums. Zeros stand for positions outside x, and an infinite weight makes NaN of them, and
// nothing else. Only where weights are not all finite; slow.
template <class T, int S, int kThreads>
__device__ __forceinline__ void repair_parts(const DepthwiseParams& a) {
  loads_after_stores();
#pragma unroll 1
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) repair_part<T, S, kThreads>(a, index);
}

// Blocks of 128 threads on an SM, for its loads in flight: fewer where a thread holds 32 sums (strides 4 and
// 8, which read little).
template <class Shape>
constexpr int depthwise_blocks() {
  return Shape::kRuns * Shape::R >= 32 ? 6 : 7;
}

// One channel a group, positions of x side by side.
template <class T, int S>
__global__ void __launch_bounds__(kDepthwiseThreads,
                                  depthwise_blocks<DepthwiseShape<T, S, kDepthwiseThreads>>())
    depthwise_words_kernel(const DepthwiseParams a) {
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
    if (__syncthreads_or(!finite)) special = true;  // and the row before has read its weights
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
      run_any_phase<T, S, kThreads>(part.phase, to, part.first, part.bias, mine, ws, 1, a);
      if (!more) break;
      __syncthreads();  // the next window overwrites xs
    }
  }
  if (special) repair_parts<T, S, kThreads>(a);
}

// Several channels a group, any strides of x, short rows.
template <class T, int S>
__global__ void __launch_bounds__(kDepthwiseSmallThreads) depthwise_elements_kernel(const DepthwiseParams a) {
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
      run_any_phase<T, S, kThreads>(part.phase, part.row + part.first, part.first, part.bias, mine, ws,
                                    a.cin_per_group, a);
      __syncthreads();  // the next window overwrites xs
      part.start += Shape::kStep;
    }
  }
  static_assert(kThreads == 32);
  if (!__all_sync(~0u, finite)) repair_parts<T, S, kThreads>(a);
}

}  // namespace tconv::cuda::simt
