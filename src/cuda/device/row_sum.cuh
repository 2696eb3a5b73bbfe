// Adds partial sums of one phase (ordered_sum.hpp), which lie in the order of y, by four neighbours.
//
//   for each four outputs of a row (n, cout) of y:                          a thread has kCount of them
//     y[4] = epilogue(partial[0][4] + partial[1][4] + ...)                  in this order
//
// A row of partial sums begins on four columns, so that each load is a vector; beyond the end of a row of y,
// it stays within the row's padding. With single outputs, as in ordered_sum.cuh, instructions bind.
#pragma once

#include "cuda/device/ordered_sum.cuh"

namespace tconv::cuda {

template <class T>
struct alignas(kSumFour * sizeof(T)) Four {
  T v[kSumFour];
};

template <class T, int kCount>
__global__ void __launch_bounds__(kSumThreads) row_sum_kernel(const __grid_constant__ RowSumParams p) {
  wait_for_launch_before();
  using Finish = epilogue::Epilogue<DeviceRounding<T, float>>;
  constexpr int kAhead = 4;
  const uint32_t first = blockIdx.x * (kSumThreads * kCount) + threadIdx.x;
  uint32_t row[kCount], o[kCount];
  const float* from[kCount];
  float sums[kCount][kSumFour] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t four = min(first + i * kSumThreads, p.fours - 1);
    row[i] = p.row_fours.divide(four);
    o[i] = (four - row[i] * p.row_fours.value) * kSumFour;
    from[i] =
        static_cast<const float*>(p.partial) + row_at(p, row[i]) + static_cast<int32_t>(o[i]) + p.padding;
  }
  // What is loaded beyond the last split adds +0, which changes no bits.
#pragma unroll 1
  for (int split = 0; split < p.splits; split += kAhead) {
    float4 loaded[kCount][kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t step = min(k, p.splits - 1 - split) * p.split_size;
#pragma unroll
      for (int i = 0; i < kCount; ++i) loaded[i][k] = *reinterpret_cast<const float4*>(from[i] + step);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const bool there = split + k < p.splits;
        sums[i][0] += there ? loaded[i][k].x : 0.0f;
        sums[i][1] += there ? loaded[i][k].y : 0.0f;
        sums[i][2] += there ? loaded[i][k].z : 0.0f;
        sums[i][3] += there ? loaded[i][k].w : 0.0f;
      }
      from[i] += kAhead * p.split_size;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (first + i * kSumThreads >= p.fours) break;
    const uint32_t n = p.cout_div.divide(row[i]);
    const Finish finish{p.bias == nullptr ? 0.0f : load_bias_to_add<T>(p.bias, row[i] - n * p.cout)};
    T* const y = static_cast<T*>(p.output) + row[i] * p.lout + o[i];
    Four<T> four;
#pragma unroll
    for (int j = 0; j < kSumFour; ++j) four.v[j] = finish(sums[i][j]);
    if (p.vectors) {
      *reinterpret_cast<Four<T>*>(y) = four;
      continue;
    }
#pragma unroll
    for (int j = 0; j < kSumFour; ++j) {
      if (o[i] + j < p.lout) y[j] = four.v[j];
    }
  }
}

}  // namespace tconv::cuda
