// The kernels of cuda.simt.outer; outer.hpp has their loop nest.
#pragma once

#include <climits>

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/outer.hpp"

namespace tconv::cuda::simt {

// Where a position is in dy, for tap 0 without padding: in the sample, and from the first element.
struct OuterPlace {
  int64_t element;
  int o;
};

template <class T, int Rows, int Columns>
struct OuterShared {
  using Sum = Accumulator<T>;
  static constexpr int kPitch = Rows + 16 / static_cast<int>(sizeof(Sum));  // so that loads begin on 16 bytes
  alignas(16) Sum x[kOuterPositions][kPitch];
  OuterPlace places[kOuterPositions];
};

// The rows of x at positions from `first` on, and where these are in dy. Rows beyond the tile are zero.
template <class T, int Rows, int Columns>
__device__ inline void outer_stage(OuterShared<T, Rows, Columns>& shared, const OuterParams& p, const T* x,
                                   int rows, int64_t first, int count) {
  static_assert(kOuterThreads % kOuterPositions == 0);
  const int at = threadIdx.x % kOuterPositions;
  if (at >= count) {
    shared.places[at] = {0, INT_MIN};  // outside dy for every tap
    return;
  }
  const int64_t n = (first + at) / p.l, i = first + at - n * p.l;
  const int o = static_cast<int>(i) * p.stride;
  if (threadIdx.x < kOuterPositions) shared.places[at] = {n * p.y_step[0] + o * p.y_step[2], o};
  const T* from = x + n * p.x_step[0] + i * p.x_step[2];
#pragma unroll
  for (int r0 = 0; r0 < Rows; r0 += kOuterThreads / kOuterPositions) {
    const int r = r0 + threadIdx.x / kOuterPositions;
    shared.x[at][r] = r < rows ? widen(__ldg(from + r * p.x_step[1])) : Accumulator<T>(0);
  }
}

// The products of kOuterAtOnce positions, added in order. All loads of dy come first, to wait together.
template <class T, int Rows, int Columns>
__device__ inline void outer_products(const OuterShared<T, Rows, Columns>& shared, int at,
                                      const T* const (&y)[Columns], const int (&tap_place)[Columns], int lout,
                                      Accumulator<T> (&sums)[Columns][Rows]) {
  using Sum = Accumulator<T>;
  Sum b[kOuterAtOnce][Columns];
  bool there[kOuterAtOnce][Columns], all = true;
#pragma unroll
  for (int q = 0; q < kOuterAtOnce; ++q) {
    const OuterPlace place = shared.places[at + q];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      there[q][c] =
          static_cast<unsigned>(place.o) + static_cast<unsigned>(tap_place[c]) < static_cast<unsigned>(lout);
      b[q][c] = there[q][c] ? widen(__ldg(y[c] + place.element)) : Sum(0);
      all = all && there[q][c];
    }
  }
  const bool whole = __all_sync(0xffffffffu, all);
#pragma unroll
  for (int q = 0; q < kOuterAtOnce; ++q) {
    Sum a[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) a[r] = shared.x[at + q][r];
    if (whole) {
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) sums[c][r] = fma(a[r], b[q][c], sums[c][r]);
      }
    } else {
      // A position outside dy is no product: zero times an infinite x would be NaN.
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        if (!there[q][c]) continue;
#pragma unroll
        for (int r = 0; r < Rows; ++r) sums[c][r] = fma(a[r], b[q][c], sums[c][r]);
      }
    }
  }
}

// Blocks that an SM holds at once: as many as leave the sums in registers.
template <class T, int Sums>
constexpr int outer_blocks() {
  return sizeof(Accumulator<T>) == 8 ? 1 : Sums > 32 ? 3 : 4;
}

template <class T, int Rows, int Columns>
__global__ void __launch_bounds__(kOuterThreads, outer_blocks<T, Rows * Columns>())
    outer_kernel(const __grid_constant__ OuterParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  __shared__ OuterShared<T, Rows, Columns> shared;

  const int64_t split = blockIdx.x / p.tiles;
  int64_t rest = blockIdx.x - split * p.tiles;
  const int64_t column0 = rest % p.column_tiles * (kOuterThreads * Columns) + threadIdx.x;
  rest /= p.column_tiles;
  const int64_t ci0 = rest % p.row_tiles * Rows, group = rest / p.row_tiles;
  const int rows = static_cast<int>(min(int64_t{Rows}, p.cin_group - ci0));
  const int64_t width = p.cout_group * p.k;
  const T* x = static_cast<const T*>(p.x) + (group * p.cin_group + ci0) * p.x_step[1];
  const T* y[Columns];
  int tap_place[Columns];
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    const int64_t column = column0 + c * kOuterThreads;
    const int64_t co = min(column, width - 1) / p.k;
    // A column beyond the last reads nothing: its place lies outside dy at every position.
    tap_place[c] = column < width ? static_cast<int>(column - co * p.k) * p.dilation - p.padding : p.lout;
    y[c] =
        static_cast<const T*>(p.y) + (group * p.cout_group + co) * p.y_step[1] + tap_place[c] * p.y_step[2];
  }

  Sum sums[Columns][Rows] = {};
  const int64_t end = min(p.positions, (split + 1) * p.split_positions);
  for (int64_t first = split * p.split_positions; first < end; first += kOuterPositions) {
    const int count = static_cast<int>(min(int64_t{kOuterPositions}, end - first));
    __syncthreads();  // all have read the positions before
    outer_stage(shared, p, x, rows, first, count);
    __syncthreads();
    for (int at = 0; at < count; at += kOuterAtOnce) outer_products(shared, at, y, tap_place, p.lout, sums);
  }

#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    const int64_t column = column0 + c * kOuterThreads;
    if (column >= width) continue;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (r >= rows) continue;
      const int64_t to = (group * p.cin_group + ci0 + r) * width + column;
      if (p.parts != nullptr) {
        static_cast<Sum*>(p.parts)[split * p.elements + to] = sums[c][r];
      } else {
        static_cast<T*>(p.output)[to] = narrow<T>(sums[c][r]);
      }
    }
  }
}

template <class T>
OuterFunctions outer_functions() {
  return {{outer_kernel<T, 16, 4>, outer_kernel<T, 16, 2>, outer_kernel<T, 4, 4>}};
}

}  // namespace tconv::cuda::simt
