// cuda.simt.depthwise, the way for short rows: y as one flat array, whatever the length of its rows.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   dilation 1, any stride S
//   for each 16-byte vector of y, across the ends of rows         a thread each
//     for ci in a group's channels                                at most kDepthwiseMaxCin
//       for j in 0..steps-1                                       tap t = t0(m) + j, those that meet x
//         for m in 0..V-1                                         registers; row (n, co) of m, q, r of its o
//           y[f+m] += x[n, ci(m), q(m) - t] * w[ci(m), co(m), r(m) + t*S]
//
// A block for each row leaves most lanes without work where rows are short. Here every lane has a vector, and
// only the first and the last vector of y can lack elements. A thread divides once, for its first output, and
// walks on from there: to the next residue, position or row. x and the weights come from L1, a load of each
// for every product, so long sums belong to the other ways. The V products of a step do not wait for one
// another.
//
// The sums have the bits of the other ways, which multiply zeros where a tap lies outside x. Here such taps
// are left out. It matters only for a sum of -0.0, which only a product that underflows leaves: the others
// may add +0.0 to it. Such outputs are computed again, with the zeros.
#pragma once

#include <climits>

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/depthwise_flat.hpp"
#include "cuda/simt/depthwise_store.cuh"

namespace tconv::cuda::simt {

// A row of y: the places of its group's first channel of x and of its weights, and its bias.
struct FlatRow {
  uint32_t x, w;
  int n, co, inner;  // co is number `inner` in its group
  float bias;
};

// An output of a row, with o + padding = q*S + r.
struct FlatOutput {
  int o, q, r;
};

template <class T>
__device__ __forceinline__ FlatRow flat_row(const DepthwiseFlatParams& a, int line) {
  FlatRow row;
  row.n = static_cast<int>(a.by_cout.divide(line));
  row.co = line - row.n * a.cout;
  const int group = static_cast<int>(a.by_cout_per_group.divide(row.co));
  row.inner = row.co - group * a.cout_per_group;
  row.x = static_cast<uint32_t>(row.n) * static_cast<uint32_t>(a.x_sample) + group * a.x_group;
  row.w = group * (a.w_group + a.cout_per_group * a.k) + row.inner * a.k;
  row.bias = load_bias<T>(a.bias, row.co);
  return row;
}

// The next row; behind the last one, row 0, which can be read.
template <class T>
__device__ __forceinline__ void step_row(FlatRow& row, const DepthwiseFlatParams& a) {
  ++row.co, ++row.inner, row.w += a.k;
  if (row.inner == a.cout_per_group) row.inner = 0, row.x += a.x_group, row.w += a.w_group;
  if (row.co == a.cout) {
    row.co = 0, row.w = 0;
    row.n = row.n + 1 == a.n ? 0 : row.n + 1;
    row.x = static_cast<uint32_t>(row.n) * static_cast<uint32_t>(a.x_sample);
  }
  row.bias = load_bias<T>(a.bias, row.co);
}

__device__ __forceinline__ FlatOutput flat_output(const DepthwiseFlatParams& a, int o) {
  const int reach = o + static_cast<int>(a.padding);
  const int q = static_cast<int>(a.by_stride.divide(reach));
  return {o, q, reach - q * a.stride};
}

// Taps that meet x: t in [first, first + count), count perhaps below 0.
__device__ __forceinline__ int first_tap(const FlatOutput& at, const DepthwiseFlatParams& a) {
  return max(at.q - static_cast<int>(a.l) + 1, 0);
}
__device__ __forceinline__ int count_taps(const FlatOutput& at, const DepthwiseFlatParams& a) {
  return min(a.taps + (at.r < a.more ? 1 : 0), at.q + 1) - first_tap(at, a);
}

// Computes sums of -0.0 again, among the stored outputs [f, end), with zeros for taps outside x. If that
// makes NaN of an infinite weight, the sum without them stands, as it does in repair_part.
template <class T>
__device__ __forceinline__ void repair_zeros(const DepthwiseFlatParams& a, int f, int end) {
  loads_after_stores();
#pragma unroll 1
  for (; f < end; ++f) {
    T* y = static_cast<T*>(a.y) + f;
    const float now = widen(*y);
    if (now != 0 || !signbit(now)) continue;
    const int line = static_cast<int>(a.by_lout.divide(f));
    const FlatOutput at = flat_output(a, f - line * static_cast<int>(a.lout));
    if (count_taps(at, a) <= 0) continue;  // the bias alone
    const FlatRow row = flat_row<T>(a, line);
    const T *x = static_cast<const T*>(a.x) + row.x, *w = static_cast<const T*>(a.weight) + row.w;
    float sum = row.bias + 0.f;
#pragma unroll 1
    for (int c = 0; c < a.cin_per_group; ++c, x += a.x_channel, w += a.w_channel) {
      int position = at.q;
#pragma unroll 1
      for (int k = at.r; k < a.k; k += a.stride, --position) {
        const bool there = position >= 0 && position < a.l;
        sum = fmaf(there ? widen(x[position * a.x_position]) : 0.f, widen(w[k]), sum);
      }
    }
    if (sum == sum) *y = Epilogue<T>{}.begun(sum);
  }
}

// kTiny: rows are shorter than a vector. In others a vector has elements of two rows at most, which takes
// selections in place of branches.
template <class T, bool kTiny>
__global__ void __launch_bounds__(kDepthwiseFlatThreads) depthwise_flat_kernel(const DepthwiseFlatParams a) {
  wait_for_launch_before();
  constexpr int V = 16 / sizeof(T);
  const uint32_t past = a.past, from = (blockIdx.x * kDepthwiseFlatThreads + threadIdx.x) * V;
  if (from >= a.total + past) return;
  const int first = static_cast<int>(from - past);  // below 0 where y begins within the vector
  const int begin = max(first, 0);

  // Walks over the outputs.
  const int line = static_cast<int>(a.by_lout.divide(begin)), lout = static_cast<int>(a.lout);
  FlatRow row = flat_row<T>(a, line), next = row;
  step_row<T>(next, a);
  FlatOutput at = flat_output(a, begin - line * lout);
  uint32_t xs[V], ws[V];
  int count[V];
  float sum[V];
#pragma unroll
  for (int m = 0; m < V; ++m) {
    count[m] = count_taps(at, a);
    xs[m] = row.x +
            static_cast<uint32_t>(min(at.q, static_cast<int>(a.l) - 1)) * static_cast<uint32_t>(a.x_position);
    ws[m] = row.w + at.r + first_tap(at, a) * a.stride;
    // A sum of products begins at +0.0 even if the bias is -0.0.
    sum[m] = count[m] > 0 ? row.bias + 0.f : row.bias;
    ++at.o, ++at.r;
    const bool wraps = at.r == a.stride, ends = at.o == lout;
    at = {ends ? 0 : at.o, ends ? a.first_q : wraps ? at.q + 1 : at.q, ends ? a.first_r : wraps ? 0 : at.r};
    row.x = ends ? next.x : row.x, row.w = ends ? next.w : row.w, row.bias = ends ? next.bias : row.bias;
    if (kTiny && ends) step_row<T>(next, a);
  }

#pragma unroll 1
  for (int c = 0; c < a.cin_per_group; ++c) {
    const T* x = static_cast<const T*>(a.x) + c * a.x_channel;
    const T* w = static_cast<const T*>(a.weight) + c * a.w_channel;
#pragma unroll 1
    for (int j = 0; j < a.steps; ++j, x -= a.x_position, w += a.stride) {
      T v[V], by[V];
#pragma unroll
      for (int m = 0; m < V; ++m) {
        v[m] = j < count[m] ? __ldg(x + xs[m]) : T{};
        by[m] = j < count[m] ? __ldg(w + ws[m]) : T{};
      }
#pragma unroll
      for (int m = 0; m < V; ++m) {
        if (j < count[m]) sum[m] = fmaf(widen(v[m]), widen(by[m]), sum[m]);
      }
    }
  }

  const int live = min(V - (begin - first), a.total - begin);
  T* to = static_cast<T*>(a.y) + begin;
  const Epilogue<T> finish{};
  if (live == V) {
    store_vectors(to, sum, finish);
  } else {
#pragma unroll
    for (int m = 0; m < V; ++m) {
      if (m < live) to[m] = finish.begun(sum[m]);
    }
  }
  int least = 0;  // -0.0 is the least integer
#pragma unroll
  for (int m = 0; m < V; ++m) least = min(least, __float_as_int(sum[m]));
  if (least == INT_MIN) repair_zeros<T>(a, begin, begin + live);
}

}  // namespace tconv::cuda::simt
