// What a thread of cuda.simt.depthwise multiplies: its shape, and the taps of one input channel for its runs
// of outputs.
#pragma once

#include "cuda/simt/depthwise_feed.cuh"

namespace tconv::cuda::simt {

// R outputs in a run: a 16-byte vector, or one Q if that is more.
template <class T, int S, int kThreads>
struct DepthwiseShape {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int R = kVector > S ? kVector : S;
  static constexpr int XV = R / S;                                                  // Q a run
  static constexpr int kRuns = XV >= 4 ? 2 : 64 / static_cast<int>(sizeof(T)) / R;  // at once
  // bf16 k4 s2 takes 447 us in one turn and 430 in two (H200), which have as many loads in flight as float32.
  static constexpr int kTurns = sizeof(T) == 2 && S == 2 ? 2 : 1;
  static constexpr int kThreadQ = kTurns * kRuns * XV;
  static constexpr int kStep = kThreads * kThreadQ;    // Q of a window
  static constexpr int kPack = 4 / sizeof(T);          // elements a word
  static constexpr int kWords = kThreadQ / kPack + 1;  // of a window, for a thread: its own, one of the halo
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

// All taps of one input channel for this thread's runs. xs points at the first Q of run 0. Weights are read
// four at a time, and bounds are tested for whole taps: only the last tap may lack residues.
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

}  // namespace tconv::cuda::simt
