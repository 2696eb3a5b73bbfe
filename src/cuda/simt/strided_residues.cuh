// The way of cuda.simt.strided for few input channels at wide strides: a thread holds one residue of the
// stride, reads dy once, lanes side by side, and keeps the sums of every tap that meets it.
//
//   dy (N, Cout, Lout)   w (Cin, Cout/groups, K)   dx (N, Cin, L)   dilation 1; o + padding = q*S + r
//   for n, group, tile of positions                            blocks
//     for r < S, q                                             a thread each; J of its q lie `columns` apart
//       for co in the group
//         for (ci, t) with r + t*S < K, j < J                  registers
//           part[ci, t][j] += dy[co, o(j)] * w[ci, co, r + t*S]
//     dx[ci, i] = sum over t, r of part[ci, t] of q = i + t    through shared memory, in this order
//
// J loads of dy and one of each weight, from L1, serve J products a pair (ci, t). A tile's first and last q
// are read by two blocks. Taps outside dy are left out.
// Bound: memory, or multiply-adds where pairs are many.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/storage.cuh"
#include "cuda/simt/strided_residues.hpp"

namespace tconv::cuda::simt {

template <class T, int P, int J>
struct ResidueThread {
  const StridedResidueParams& p;
  int q, r;  // of the first element

  __device__ int output(int j) const {
    return (q + j * p.columns) * static_cast<int>(p.stride) + r - static_cast<int>(p.padding);
  }
  __device__ bool there(int o) const { return static_cast<unsigned>(o) < static_cast<unsigned>(p.lout); }

  // kInside: all elements of the block lie in dy. from: dy of the group's first channel; weight: of its first
  // channels.
  template <bool kInside>
  __device__ void add(float (&part)[P][J], const T* from, const T* weight) const {
    uint32_t place[P];  // of a pair's weight; beyond the taps, of the last one
    const int taps = p.taps, last = static_cast<int>(p.cin_group) - 1, k = static_cast<int>(p.k);
#pragma unroll
    for (int pair = 0; pair < P; ++pair) {
      const int ci = pair / taps, t = pair - ci * taps;
      place[pair] = static_cast<uint32_t>(min(ci, last)) * static_cast<uint32_t>(p.cout_group * p.k) +
                    min(r + t * static_cast<int>(p.stride), k - 1);
    }
    int at[J];  // outside dy, of an element that can be read
    bool in[J];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      in[j] = kInside || there(output(j));
      at[j] = kInside ? output(j) : min(max(output(j), 0), static_cast<int>(p.lout) - 1);
    }
#pragma unroll residue_ahead(P)
    for (int64_t co = 0; co < p.cout_group; ++co, from += p.dy_step[1], weight += p.k) {
      float v[J];
#pragma unroll
      for (int j = 0; j < J; ++j)
        v[j] = widen(__ldg(kInside ? from + at[0] + int64_t{p.live} * j : from + at[j]));
#pragma unroll
      for (int pair = 0; pair < P; ++pair) {
        const float by = widen(__ldg(weight + place[pair]));
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const float sum = fmaf(v[j], by, part[pair][j]);
          part[pair][j] = in[j] ? sum : part[pair][j];
        }
      }
    }
  }
};

// Of position i, which is number `at` of the block: the sum of its parts, and whether a product reaches it.
// row: the parts of a channel ci.
struct ResidueSum {
  float value;
  bool reached;
};
__device__ __forceinline__ ResidueSum residue_sum(const StridedResidueParams& p, const float* row, int at,
                                                  int i, int width) {
  ResidueSum sum{0, false};
  const int stride = static_cast<int>(p.stride), lout = static_cast<int>(p.lout);
  row += at * p.pitch;
  int first = i * stride - static_cast<int>(p.padding);
  for (int t = 0; t < p.taps; ++t, row += width + p.pitch, first += stride) {
    const int has = t + 1 < p.taps ? stride : p.more;  // residues with the tap
    const int end = min(has, lout - first);
    sum.reached |= max(-first, 0) < end;
#pragma unroll 4
    for (int r = max(-first, 0); r < end; ++r) sum.value += row[r];
  }
  return sum;
}

template <class T, int P, int J>
__global__ void __launch_bounds__(kResidueThreads, 4)
    strided_residue_kernel(const __grid_constant__ StridedResidueParams p) {
  wait_for_launch_before();
  extern __shared__ float parts[];  // [pair][q - first][r], `pitch` from q to q
  const int64_t row_group = divide(blockIdx.x, p.parts), tile = blockIdx.x - row_group * p.parts;
  const int64_t n = divide(row_group, p.groups), group = row_group - n * p.groups;
  const int64_t begin = tile * p.outputs;  // position of dx, and the tile's first q
  const int stride = static_cast<int>(p.stride), thread = static_cast<int>(threadIdx.x),
            width = p.columns * J * p.pitch;
  if (thread < p.live) {
    const int column = thread / stride;
    const ResidueThread<T, P, J> mine{p, static_cast<int>(begin) + column, thread - column * stride};
    const T* from = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
    const T* weight = static_cast<const T*>(p.weight) + group * p.cin_group * p.cout_group * p.k;
    float part[P][J] = {};
    const int64_t first = begin * stride - p.padding, end = (begin + p.columns * J) * stride - p.padding;
    if (first >= 0 && end <= p.lout) {
      mine.template add<true>(part, from, weight);
    } else {
      mine.template add<false>(part, from, weight);
    }
#pragma unroll
    for (int pair = 0; pair < P; ++pair) {
      if (pair >= p.taps * p.cin_group) break;
#pragma unroll
      for (int j = 0; j < J; ++j)
        parts[pair * width + (column + j * p.columns) * p.pitch + mine.r] = part[pair][j];
    }
  }
  __syncthreads();
  T* to = static_cast<T*>(p.dx) + (n * p.cin + group * p.cin_group) * p.l;
  for (int e = thread; e < p.cin_group * p.outputs; e += kResidueThreads) {
    const int ci = e / p.outputs, at = e - ci * p.outputs;
    const int i = static_cast<int>(begin) + at;
    if (i >= p.l) continue;
    const Epilogue<T> epilogue = epilogue_of<T>(p.bias, group * p.cin_group + ci);
    const ResidueSum sum = residue_sum(p, parts + ci * p.taps * width, at, i, width);
    to[ci * p.l + i] = sum.reached ? epilogue(sum.value + 0.f) : epilogue.alone();
  }
}

}  // namespace tconv::cuda::simt
