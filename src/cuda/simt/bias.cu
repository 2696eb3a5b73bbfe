#include <cstring>

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/bias.hpp"

namespace tconv::cuda::simt {
namespace {

// 16 bytes of elements.
template <class T>
struct alignas(16) Line {
  T v[kBiasLine<T>];
};
template <class T>
__device__ inline Line<T> load_line(const T* from) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
  Line<T> line;
  memcpy(&line, &words, sizeof line);
  return line;
}

// A thread's elements of long rows, piece by piece: kEach neighbours of each line of kEach, or single ones.
template <class T, int kEach, bool kWhole>
struct RowPieces {
  static constexpr int kTurn = kBiasThreads * kBiasSums;
  const BiasParams& p;
  int64_t row, begin;  // elements before the row, and before the piece in it

  __device__ RowPieces(const BiasParams& params, int64_t co, int64_t turn) : p(params) {
    const int64_t n = turn / p.row_turns;
    row = n * p.y_step[0] + co * p.y_step[1];
    begin = (turn - n * p.row_turns) * kTurn;
  }

  // Zeros outside of the row.
  __device__ void load(T (&v)[kBiasSums]) {
    // Lines begin on 16 bytes if the tensor does; the first one of a row may begin before the row.
    const int64_t piece = begin - (kEach > 1 ? static_cast<int>(row) & kEach - 1 : 0);
    const int64_t step = kEach > 1 ? 1 : p.y_step[2], o = piece + threadIdx.x * kEach;
    const T* const at = static_cast<const T*>(p.y) + row + o * step;
    const bool inside = piece >= 0 && piece + kTurn <= p.lout;
#pragma unroll
    for (int s = 0; s < kBiasSums / kEach; ++s) {
      constexpr int kNext = kBiasThreads * kEach;
      const int64_t from = o + s * kNext;
      if (kWhole && (inside || (from >= 0 && from + kEach <= p.lout))) {
        const Line<T> line = load_line(at + s * kNext);
#pragma unroll
        for (int i = 0; i < kEach; ++i) v[s * kEach + i] = line.v[i];
      } else {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const bool there = inside || (from + i >= 0 && from + i < p.lout);
          v[s * kEach + i] = there ? __ldg(at + (s * kNext + i) * step) : T(0.0f);
        }
      }
    }
    begin += kTurn;
    if (begin >= p.row_turns * kTurn) {
      begin = 0;
      row += p.y_step[0];
    }
  }
};

// Turns of kBiasThreads * kBiasSums elements. Long rows are cut into pieces, which end with the row; short
// rows (kEach 0) are taken as they come.
template <class T, int kEach, bool kWhole>
__global__ void __launch_bounds__(kBiasThreads) bias_kernel(const __grid_constant__ BiasParams p) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  __shared__ Sum of_warps[kBiasThreads / 32];
  constexpr int kTurn = kBiasThreads * kBiasSums;
  const int64_t split = blockIdx.x / p.cout, co = blockIdx.x - split * p.cout;
  const int64_t first = split * p.split_turns, end = min(p.turns, first + p.split_turns);
  Sum sums[kBiasSums] = {};
  if constexpr (kEach > 0) {
    RowPieces<T, kEach, kWhole> pieces(p, co, first);
    // Two pieces are on their way at once: with one, 16-bit types arrive at 75% of the copy rate. With four,
    // or two of f64 by elements, registers leave room for fewer blocks.
    constexpr int kAhead = sizeof(T) == 8 && !kWhole ? 1 : 2;
    int64_t turn = first;
    for (; turn + kAhead <= end; turn += kAhead) {
      T v[kAhead][kBiasSums];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) pieces.load(v[i]);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int s = 0; s < kBiasSums; ++s) sums[s] += widen(v[i][s]);
      }
    }
    for (; turn < end; ++turn) {
      T v[kBiasSums];
      pieces.load(v);
#pragma unroll
      for (int s = 0; s < kBiasSums; ++s) sums[s] += widen(v[s]);
    }
  } else {
    const T* y = static_cast<const T*>(p.y) + co * p.y_step[1];
    int64_t e = first * kTurn + threadIdx.x, n = e / p.lout, o = e - n * p.lout;
    const int64_t n_step = kBiasThreads / p.lout, o_step = kBiasThreads % p.lout;
    for (int64_t turn = first; turn < end; ++turn) {
#pragma unroll
      for (int s = 0; s < kBiasSums; ++s) {
        if (e < p.elements) sums[s] += widen(__ldg(y + n * p.y_step[0] + o * p.y_step[2]));
        e += kBiasThreads;
        n += n_step;
        o += o_step;
        if (o >= p.lout) {
          o -= p.lout;
          ++n;
        }
      }
    }
  }
#pragma unroll
  for (int apart = kBiasSums / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int s = 0; s < apart; ++s) sums[s] += sums[s + apart];
  }
  Sum sum = sums[0];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(0xffffffffu, sum, apart);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < kBiasThreads / 32; ++w) sum += of_warps[w];
  if (p.parts != nullptr) {
    static_cast<Sum*>(p.parts)[split * p.cout + co] = sum;
  } else {
    static_cast<T*>(p.output)[co] = narrow<T>(sum);
  }
}

}  // namespace

BiasFunction bias_function(core::DType dtype, BiasRows rows, bool whole) {
  return by_dtype(dtype, [&](auto type) -> BiasFunction {
    using T = decltype(type);
    if (rows == BiasRows::any) return bias_kernel<T, 0, false>;
    if (rows == BiasRows::elements) return bias_kernel<T, 1, false>;
    return whole ? bias_kernel<T, kBiasLine<T>, true> : bias_kernel<T, kBiasLine<T>, false>;
  });
}

}  // namespace tconv::cuda::simt
