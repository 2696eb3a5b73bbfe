// The beginning of a tile of cuda.simt.narrow: place, shares of threads, weights; and the sums of slices.
#pragma once

#include "cuda/simt/narrow.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// What a block works on. Count: of residues, channels and splits; int32 if x passes through a ring.
template <class Count>
struct NarrowTile {
  int64_t row, q;            // q: first Q
  Count residue, co, split;  // co: within the group
};

template <class Count>
__device__ __forceinline__ NarrowTile<Count> narrow_tile(const NarrowParams& a, int64_t index, int kCo,
                                                         int q_block) {
  NarrowTile<Count> t;
  t.residue = static_cast<Count>(take_digit(index, a.residue_groups)) * a.residues;
  t.co = static_cast<Count>(take_digit(index, a.co_blocks)) * kCo;
  t.q = a.q_first + take_digit(index, a.q_tiles) * q_block;
  t.row = take_digit(index, a.rows);
  t.split = static_cast<Count>(index);
  return t;
}

// The channels that a tile's split adds up: how many, and where x and the weights of the first one are.
template <class T>
struct SplitChannels {
  int count;
  const T* x;  // at position q
  const T* w;

  template <class Count>
  __device__ __forceinline__ SplitChannels(const NarrowParams& a, const NarrowTile<Count>& tile, int64_t n,
                                           int64_t group, int64_t q) {
    const int64_t first = static_cast<int64_t>(tile.split) * a.cin_per_split;
    count = min(static_cast<int64_t>(a.cin_per_split), a.cin_per_group - first);
    x = static_cast<const T*>(a.x) + n * a.x_sample + (group * a.cin_per_group + first) * a.x_channel +
        q * a.x_position;
    w = static_cast<const T*>(a.weight) + (group * a.cin_per_group + first) * a.cout_per_group * a.k;
  }
};

template <class Sum, int kP, int kSums>
__device__ __forceinline__ void clear(Sum (&sum)[kP][kSums]) {
#pragma unroll
  for (int i = 0; i < kP; ++i) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) sum[i][j] = 0;
  }
}

// ws[((ci*taps + t)*r_warps + residue block)*kPitch + c*kR + r]. Returns whether this thread's are finite.
template <class T, class Sum, int kCo, int kR, int kPitch, class Tile>
__device__ __forceinline__ bool fill_weights(Sum* ws, const T* w, int ci_count, const Tile& tile,
                                             const NarrowParams& a) {
  constexpr int kBatch = 8;
  const int per_channel = a.taps * a.residues, all = ci_count * kCo * per_channel;
  using Count = decltype(a.cout_per_group - tile.co);
  const int co_live = min(static_cast<Count>(kCo), a.cout_per_group - tile.co);
  bool finite = true;
  for (int first = threadIdx.x; first < all; first += kBatch * static_cast<int>(blockDim.x)) {
    T held[kBatch];
    int place[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int e = first + i * static_cast<int>(blockDim.x);
      const int line = static_cast<int>(a.by_taps_residues.divide(e)), within = e - line * per_channel;
      const int ci = line / kCo, c = line % kCo;
      const int t = static_cast<int>(a.by_residues.divide(within)), r = within - t * a.residues;
      const int64_t k = t * static_cast<int64_t>(a.stride) + tile.residue + r;
      const bool there = e < all && c < co_live && k < a.k;
      held[i] = there ? w[(static_cast<int64_t>(ci) * a.cout_per_group + tile.co + c) * a.k + k] : T{};
      place[i] = ((ci * a.taps + t) * a.r_warps + r / kR) * kPitch + c * kR + r % kR;
      if (e >= all) place[i] = -1;
    }
    loads_before_stores();
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Sum weight = widen(held[i]);
      finite = finite && is_finite(weight);
      if (place[i] >= 0) ws[place[i]] = weight;
    }
  }
  return finite;
}

// kN values, 16 bytes at a time if there are that many.
template <int kN>
__device__ __forceinline__ void load_weights(float (&to)[kN], const float* from) {
  if constexpr (kN % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kN; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) to[i] = from[i];
  }
}
template <int kN>
__device__ __forceinline__ void load_weights(double (&to)[kN], const double* from) {
#pragma unroll
  for (int i = 0; i < kN; ++i) to[i] = from[i];
}

__device__ __forceinline__ float multiply_add(float a, float b, float c) {
  return fmaf(a, b, c);
}
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}

// A thread's role in its block.
struct NarrowThread {
  int lane, q_warp, r_warp, slice;
};

__device__ __forceinline__ NarrowThread narrow_thread(const NarrowParams& a) {
  const int warp = threadIdx.x >> 5, rest = warp / a.q_warps;
  return {static_cast<int>(threadIdx.x & 31), warp % a.q_warps, rest % a.r_warps, rest / a.r_warps};
}

// Adds the slices' sums to those of slice 0, one slice after another.
template <class Sum, int kN, int kP>
__device__ __forceinline__ void add_slices(Sum (&sum)[kP][kN], Sum* buffer, const NarrowThread& me,
                                           const NarrowParams& a) {
  const int width = 32 * a.q_warps * a.r_warps;
  Sum* mine = buffer + (me.r_warp * a.q_warps + me.q_warp) * 32 + me.lane;
  for (int turn = 1; turn < a.slice_warps; ++turn) {
    __syncthreads();
    if (me.slice == turn) {
#pragma unroll
      for (int e = 0; e < kP * kN; ++e) mine[e * width] = sum[e / kN][e % kN];
    }
    __syncthreads();
    if (me.slice == 0) {
#pragma unroll
      for (int e = 0; e < kP * kN; ++e) sum[e / kN][e % kN] += mine[e * width];
    }
  }
}

}  // namespace tconv::cuda::simt
