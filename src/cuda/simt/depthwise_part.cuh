// What a block of cuda.simt.depthwise works on, and how it recomputes outputs that became NaN.
#pragma once

#include "cuda/simt/depthwise_taps.cuh"

namespace tconv::cuda::simt {

// What a block works on: neighbouring windows of a row.
template <class T>
struct DepthwisePart {
  T* row;               // of y
  int64_t first, end;   // outputs; first + m is aligned if m is
  const T *x, *weight;  // of the first channel of the row's group
  int64_t start;        // position of a window's first value
  int phase;
  Epilogue<T> finish;
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
  part.finish = epilogue_of_sums<T>(a.bias, co);
  return part;
}

// Recomputes this thread's outputs of a part that became NaN, from the products that exist.
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
    float sum = part.finish.bias;
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
    part.row[o] = part.finish.begun(sum);
  }
}

// The same for all parts of the block, after all of them are stored: earlier, it would take registers from
// the sums. Zeros stand for positions outside x, and an infinite weight makes NaN of them, and of nothing
// else. It is slow, and runs only if some weight is not finite.
template <class T, int S, int kThreads>
__device__ __forceinline__ void repair_parts(const DepthwiseParams& a) {
  loads_after_stores();
#pragma unroll 1
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) repair_part<T, S, kThreads>(a, index);
}

}  // namespace tconv::cuda::simt
