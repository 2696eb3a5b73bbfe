// From sums to outputs: the sums of each split in shared memory, recomputed where necessary, then added in
// order and stored.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/sm80/cluster_sums.cuh"
#include "cuda/sm80/raw_operands.cuh"
#include "cuda/sm80/staged_sums.cuh"
#include "cuda/sm80/window_source.cuh"

namespace tconv::cuda::sm80::window {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Sums that may be wrong: NaN and, in float32, infinities, which the largest numbers become when they are
// rounded.
template <class S>
__device__ inline bool is_unsure(float sum) {
  return sizeof(typename S::T) == 4 ? !is_finite(sum) : sum != sum;
}
template <class S, int kNi>
__device__ __forceinline__ bool any_unsure(const float (&sums)[kNi][MmaAccumulator::kRegisters]) {
  if constexpr (sizeof(typename S::T) == 2) return any_nan(sums);
  float poison = 0;
#pragma unroll
  for (int j = 0; j < kNi; ++j) {
#pragma unroll
    for (const float sum : sums[j]) poison = fmaf(sum, 0.f, poison);
  }
  return poison != 0;
}

// The split's share of one output, from what exists. It ends at its first NaN, so that data that are NaN
// throughout cost one term for each output.
template <class S>
__device__ __noinline__ float exact_sum(const WindowParams& p, const Place& place, int row, int n, int i) {
  using T = typename S::T;
  const int64_t first = int64_t{i} * p.stride - p.padding;
  const T* weight = static_cast<const T*>(p.weight) +
                    (int64_t{place.group} * p.cin_group + place.first_row + row) * p.weight_row;
  const T* dy =
      static_cast<const T*>(p.dy) + n * p.dy_step[0] + int64_t{place.group} * p.cout_group * p.dy_step[1];
  float sum = 0;
#pragma unroll 1
  for (int index = place.first_slab; index < place.end_slab && sum == sum; ++index) {
    const Slab slab(p, index);
#pragma unroll 1
    for (int c = slab.channel; c < slab.channel + slab.channels && sum == sum; ++c) {
#pragma unroll 1
      for (int k = slab.tap; k < min(slab.tap + p.taps, p.k) && sum == sum; ++k) {
        const int64_t o = first + int64_t{k} * p.dilation;
        if (o < 0 || o >= p.lout) continue;
        sum = fma(factor<typename S::A>(__ldg(dy + c * p.dy_step[1] + o)),
                  factor<typename S::A>(__ldg(weight + int64_t{c} * p.k + k)), sum);
      }
    }
  }
  return sum;
}

// all: every output of the tile; otherwise those that may be wrong.
template <class S>
__device__ __noinline__ void repair(const WindowParams& p, const Place& place, float* staged, bool all) {
#pragma unroll 1
  for (int e = threadIdx.x; e < place.rows * S::kColumns; e += kWindowThreads) {
    const int row = e / S::kColumns, column = e % S::kColumns;
    const int at = place.column_tile * S::kColumns + column;
    float* sum = staged + row * S::kSumPitch + column;
    if (at >= p.columns || (!all && !is_unsure<S>(*sum))) continue;
    const int n = static_cast<int>(p.length.divide(at));
    *sum = exact_sum<S>(p, place, row, n, at - n * static_cast<int>(p.l));
  }
}

// Whether some tap of position i meets dy.
__device__ inline bool has_product(const WindowParams& p, int i) {
  const int64_t o = int64_t{i} * p.stride - p.padding;
  if (o >= p.lout) return false;
  const int64_t least = o >= 0 ? 0 : (-o - 1) / p.dilation + 1;
  return least < p.k && least <= (p.lout - 1 - o) / p.dilation;
}

template <class T>
__device__ __forceinline__ T finished(const void* bias, int64_t channel, bool alone, float sum) {
  return alone ? epilogue_of<T>(bias, channel).alone() : epilogue_of_sums<T>(bias, channel)(sum + 0.f);
}

// A cluster's sums of rows [row, rows) in steps; l: outputs from a row to the next. Not inlined, because the
// loops of the kernel then get other registers and take up to 1.1 times as long.
template <class S>
__device__ __noinline__ void store_splits_of(const float* from, int row, int rows, int step, int splits,
                                             typename S::T* to, int64_t l, const void* bias, int64_t channel,
                                             bool alone) {
  using T = typename S::T;
  constexpr int kAhead = 4;  // rows whose sums are read before the first is stored
#pragma unroll 1
  for (; row < rows; row += kAhead * step, from += kAhead * step * S::kSumPitch) {
    float sums[kAhead];
    split_sums<true>(from, step * S::kSumPitch, (rows - row + step - 1) / step, splits, sums);
#pragma unroll
    for (int a = 0; a < kAhead; ++a, to += step * l) {
      const int at = row + a * step;
      if (at < rows) *to = finished<T>(bias, channel + at, alone, sums[a]);
    }
  }
}

// A thread stores one column of every kApart-th row.
template <class S, bool kClustered>
__device__ __forceinline__ void store_share(const WindowParams& p, const Place& place, const float* staged) {
  using T = typename S::T;
  constexpr int kApart = kWindowThreads / S::kColumns;
  const int column = threadIdx.x % S::kColumns, at = place.column_tile * S::kColumns + column;
  if (at >= p.columns) return;
  const int n = static_cast<int>(p.length.divide(at)), i = at - n * static_cast<int>(p.l);
  const bool alone = p.unreached && !has_product(p, i);
  const int first = place.rank * kApart + threadIdx.x / S::kColumns,
            step = kApart * (kClustered ? p.splits : 1);
  const int64_t channel = int64_t{place.group} * p.cin_group + place.first_row;
  T* to = static_cast<T*>(p.dx) + (n * p.cin + channel + first) * p.l + i;
  if constexpr (kClustered) {
    store_splits_of<S>(staged + first * S::kSumPitch + column, first, place.rows, step, p.splits, to, p.l,
                       p.bias, channel, alone);
  } else {
#pragma unroll 4
    for (int row = first; row < place.rows; row += step, to += step * p.l) {
      *to = finished<T>(p.bias, channel + row, alone, staged[row * S::kSumPitch + column]);
    }
  }
}

// A thread stores four neighbours of every kApart-th row, if rows begin on whole vectors.
template <class S>
__device__ __forceinline__ void store_vectors_of(const WindowParams& p, const Place& place,
                                                 const float* staged) {
  using T = typename S::T;
  constexpr int kVector = 4, kLanes = S::kColumns / kVector, kApart = kWindowThreads / kLanes;
  const int column = threadIdx.x % kLanes * kVector, at = place.column_tile * S::kColumns + column;
  if (at >= p.columns) return;
  const int n = static_cast<int>(p.length.divide(at)), i = at - n * static_cast<int>(p.l);
  const int first = threadIdx.x / kLanes;
  const int64_t channel = int64_t{place.group} * p.cin_group + place.first_row;
  T* to = static_cast<T*>(p.dx) + (n * p.cin + channel + first) * p.l + i;
  const float* from = staged + first * S::kSumPitch + column;
  const int64_t step = kApart * p.l;
#pragma unroll 4
  for (int row = first; row < place.rows; row += kApart, to += step, from += kApart * S::kSumPitch) {
    store_four(to, from, p.bias, channel + row);
  }
}

template <class S>
__device__ __forceinline__ void store_outputs(const WindowParams& p, const Place& place,
                                              const float* staged) {
  if (p.splits == 1 && p.vectors && reinterpret_cast<uintptr_t>(p.dx) % 16 == 0) {
    store_vectors_of<S>(p, place, staged);
    return;
  }
  store_splits(p.splits, [&](auto clustered) { store_share<S, clustered.value>(p, place, staged); });
}

#endif

}  // namespace tconv::cuda::sm80::window
