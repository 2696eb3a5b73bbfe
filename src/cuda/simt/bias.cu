#include "cuda/device/epilogue.cuh"
#include "cuda/host/by_dtype.cuh"
#include "cuda/simt/bias.hpp"

namespace tconv::cuda::simt {
namespace {

// A thread's elements of long rows, piece by piece.
template <class T>
struct RowPieces {
  static constexpr int kTurn = kBiasThreads * kBiasSums;
  const BiasParams& p;
  const T* y;
  int64_t n, begin, step;

  __device__ RowPieces(const BiasParams& params, const T* channel, int64_t turn)
      : p(params), y(channel), n(turn / params.row_turns), step(kBiasThreads * params.y_step[2]) {
    begin = (turn - n * p.row_turns) * kTurn;
  }
  // Zeros behind the row's end.
  __device__ void load(T (&v)[kBiasSums]) {
    const int64_t o = begin + threadIdx.x, left = p.lout - o;
    const T* at = y + n * p.y_step[0] + o * p.y_step[2];
#pragma unroll
    for (int s = 0; s < kBiasSums; ++s) v[s] = s * kBiasThreads < left ? __ldg(at + s * step) : T(0.0f);
    begin += kTurn;
    if (begin >= p.lout) {
      begin = 0;
      ++n;
    }
  }
};

// Turns of kBiasThreads * kBiasSums elements. Long rows are cut into pieces, which end with the row; short
// rows are taken as they come.
template <class T, bool kLongRows>
__global__ void __launch_bounds__(kBiasThreads) bias_kernel(const __grid_constant__ BiasParams p) {
  using Sum = Accumulator<T>;
  __shared__ Sum of_warps[kBiasThreads / 32];
  constexpr int kTurn = kBiasThreads * kBiasSums;
  const int64_t split = blockIdx.x / p.cout, co = blockIdx.x - split * p.cout;
  const T* y = static_cast<const T*>(p.y) + co * p.y_step[1];
  const int64_t first = split * p.split_turns, end = min(p.turns, first + p.split_turns);
  Sum sums[kBiasSums] = {};
  if constexpr (kLongRows) {
    RowPieces<T> pieces(p, y, first);
    // Two pieces are on their way at once: with one, a row of 16-bit types arrives at 75% of the copy rate.
    int64_t turn = first;
    for (; turn + 2 <= end; turn += 2) {
      T v[2][kBiasSums];
      pieces.load(v[0]);
      pieces.load(v[1]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int s = 0; s < kBiasSums; ++s) sums[s] += widen(v[i][s]);
      }
    }
    if (turn < end) {
      T v[kBiasSums];
      pieces.load(v);
#pragma unroll
      for (int s = 0; s < kBiasSums; ++s) sums[s] += widen(v[s]);
    }
  } else {
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

BiasFunction bias_function(core::DType dtype, bool long_rows) {
  return by_dtype(dtype, [&](auto type) -> BiasFunction {
    using T = decltype(type);
    return long_rows ? bias_kernel<T, true> : bias_kernel<T, false>;
  });
}

}  // namespace tconv::cuda::simt
