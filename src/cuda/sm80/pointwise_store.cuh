// From sums to outputs: the sums of each split in shared memory, recomputed where necessary, then added in
// order and stored.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/sm80/cluster_sums.cuh"
#include "cuda/sm80/pointwise_source.cuh"
#include "cuda/sm80/raw_operands.cuh"
#include "cuda/sm80/staged_sums.cuh"

namespace tconv::cuda::sm80::pointwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// The split's share of one output.
template <class S>
__device__ __forceinline__ float exact_sum(const PointwiseParams& p, const Place& place, int row,
                                           int column) {
  using T = typename S::T;
  const int first = place.first_slab * S::kSlab, end = min(place.end_slab * S::kSlab, p.depth);
  const int64_t weight_step = S::kTurned ? p.weight_step : 1;
  const T* weight = static_cast<const T*>(p.weight) + int64_t{place.group} * p.rows * p.depth +
                    (place.first_row + row) * (S::kTurned ? 1 : p.weight_step);
  const T* x = static_cast<const T*>(p.x) + place.n * p.x_step[0] +
               int64_t{place.group} * p.depth * p.x_step[1] + place.first_column + column;
  float sum = 0;
#pragma unroll 1
  for (int c = first; c < end && sum == sum; ++c) {
    sum = fma(factor<typename S::A>(__ldg(x + c * p.x_step[1])),
              factor<typename S::A>(__ldg(weight + c * weight_step)), sum);
  }
  return sum;
}

// all: every output of the tile; otherwise those that are not finite. The place is computed anew: passed as
// an argument, it would be on the stack from the kernel's beginning.
template <class S>
__device__ __noinline__ void repair(const PointwiseParams& p, float* staged, bool all) {
  const Place place(p, S::kRows, S::kColumns);
#pragma unroll 1
  for (int e = threadIdx.x; e < place.rows * S::kColumns; e += kPointwiseThreads) {
    const int row = e / S::kColumns, column = e % S::kColumns;
    float* sum = staged + row * S::kSumPitch + column;
    if (column < place.columns && (all || !is_finite(*sum))) *sum = exact_sum<S>(p, place, row, column);
  }
}

template <class T>
__device__ __forceinline__ T* outputs_of(const PointwiseParams& p, const Place& place, int row) {
  const int64_t channel = (int64_t{place.n} * p.groups + place.group) * p.rows + place.first_row + row;
  return static_cast<T*>(p.y) + channel * p.l + place.first_column;
}

// A warp stores rows, a word for each lane: in 16-bit types, two neighbours that share one. The sums of
// several rows are read before the first is stored.
template <class S, bool kClustered>
__device__ __forceinline__ void store_share(const PointwiseParams& p, const Place& place,
                                            const float* staged) {
  using T = typename S::T;
  constexpr int kWarps = kPointwiseThreads / 32, kWord = 4 / static_cast<int>(sizeof(T)), kAhead = 2;
  // One more, because a row may begin inside a word.
  constexpr int kTurns = S::kColumns / (32 * kWord) + (kWord > 1 ? 1 : 0);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, apart = kWarps * (kClustered ? p.splits : 1);
#pragma unroll 1
  for (int first = place.rank * kWarps + warp; first < place.rows; first += kAhead * apart) {
    float held[kAhead][kTurns][kWord];
    int begin[kAhead];  // the lane's first column
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int row = first + a * apart;
      if (row >= place.rows) break;
      const auto address = reinterpret_cast<uintptr_t>(outputs_of<T>(p, place, row));
      begin[a] = lane * kWord - static_cast<int>(address % 4 / sizeof(T));
#pragma unroll
      for (int t = 0; t < kTurns; ++t) {
#pragma unroll
        for (int i = 0; i < kWord; ++i) {
          const int at = min(max(begin[a] + t * 32 * kWord + i, 0), S::kColumns - 1);
          held[a][t][i] = split_sum<kClustered>(staged + row * S::kSumPitch + at, p.splits);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int row = first + a * apart;
      if (row >= place.rows) break;
      const Epilogue<T> finish =
          epilogue_of_sums<T>(p.bias, int64_t{place.group} * p.rows + place.first_row + row);
      T* const to = outputs_of<T>(p, place, row);
#pragma unroll
      for (int t = 0; t < kTurns; ++t) {
        const int column = begin[a] + t * 32 * kWord;
        alignas(4) T values[kWord];
#pragma unroll
        for (int i = 0; i < kWord; ++i) values[i] = finish(held[a][t][i] + 0.f);
        if (column >= 0 && column + kWord <= place.columns) {
          *reinterpret_cast<uint32_t*>(to + column) = *reinterpret_cast<const uint32_t*>(values);
        } else {
#pragma unroll
          for (int i = 0; i < kWord; ++i) {
            if (column + i >= 0 && column + i < place.columns) to[column + i] = values[i];
          }
        }
      }
    }
  }
}

// A thread stores four neighbours of every kApart-th row, if rows begin on whole vectors.
template <class S>
__device__ __forceinline__ void store_vectors_of(const PointwiseParams& p, const Place& place,
                                                 const float* staged) {
  using T = typename S::T;
  constexpr int kVector = 4, kLanes = S::kColumns / kVector, kApart = kPointwiseThreads / kLanes;
  const int column = threadIdx.x % kLanes * kVector, first = threadIdx.x / kLanes;
  if (column >= place.columns) return;
  T* to = outputs_of<T>(p, place, first) + column;
  const float* from = staged + first * S::kSumPitch + column;
  const int64_t step = kApart * p.l, channel = int64_t{place.group} * p.rows + place.first_row;
#pragma unroll 4
  for (int row = first; row < place.rows; row += kApart, to += step, from += kApart * S::kSumPitch) {
    store_four(to, from, p.bias, channel + row);
  }
}

template <class S>
__device__ __forceinline__ void store_outputs(const PointwiseParams& p, const Place& place,
                                              const float* staged) {
  if (p.splits == 1 && p.vectors) {
    store_vectors_of<S>(p, place, staged);
    return;
  }
  store_splits(p.splits, [&](auto clustered) { store_share<S, clustered.value>(p, place, staged); });
}

#endif

}  // namespace tconv::cuda::sm80::pointwise
