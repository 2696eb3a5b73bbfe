// The end of a tile of narrow_ring.cuh: slices are added, sums are stored.
#pragma once

#include "cuda/simt/narrow_store.cuh"

namespace tconv::cuda::simt {

using RingTile = NarrowTile<int>;

// Adds the slices' sums to those of slice 0, one slice after another.
template <class Sum, int kN, int kP>
__device__ __forceinline__ void add_ring_slices(Sum (&sum)[kP][kN], Sum* buffer, const NarrowThread& me,
                                                const NarrowParams& a) {
  constexpr int kPitch = kP * kN | 1;  // odd: lanes meet different banks
  Sum* mine = buffer + ((me.r_warp * a.q_warps + me.q_warp) * 32 + me.lane) * kPitch;
  for (int turn = 1; turn < a.slice_warps; ++turn) {
    __syncthreads();
    if (me.slice == turn) {
#pragma unroll
      for (int e = 0; e < kP * kN; ++e) mine[e] = sum[e / kN][e % kN];
    }
    __syncthreads();
    if (me.slice == 0) {
#pragma unroll
      for (int e = 0; e < kP * kN; ++e) sum[e / kN][e % kN] += mine[e];
    }
  }
}

// Stores the sums of one warp straight to Out (y, or the partial sums): the block's kR residues are the
// stride, so a thread holds kR neighbours and a warp 32*kR. If the padding is half the stride, as usual, a
// thread's neighbours straddle the boundaries of aligned stores: it then stores its upper half and the lower
// half of the next Q, which the next lane holds.
template <class Out, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void store_ring_direct(Out* row, const Sum (&sum)[kP][kCo * kR], int c, int64_t q,
                                                  int lane, const Epilogue<Out>& finish,
                                                  const NarrowParams& a) {
  constexpr int kHalf = kR / 2, kMost = 1 << 30;
  const bool turned = (kR == 2 || kR % 4 == 0) && a.turned;
  // Offsets from this thread's first neighbour; those in [begin, end) lie in the row.
  const int64_t o = q * kR - a.padding;
  Out* to = row + o;
  const int begin = o < 0 ? static_cast<int>(min(-o, static_cast<int64_t>(kMost))) : 0;
  const int end =
      static_cast<int>(max(static_cast<int64_t>(0), min(a.lout - o, static_cast<int64_t>(kMost))));
  Sum lower[kHalf + 1];  // of the next lane, for every i in turn from the last one down
  Sum above[kHalf + 1];  // the same for i + 1
#pragma unroll
  for (int i = kP - 1; i >= 0; --i) {
    Sum v[kR];
    int at = 32 * i * kR, count = kR;
#pragma unroll
    for (int r = 0; r < kR; ++r) v[r] = sum[i][c * kR + r];
    if (turned) {
#pragma unroll
      for (int r = 0; r < kHalf; ++r) {
        if (i == 0 && lane == 0 && r >= begin && r < end) to[r] = finish(v[r]);
        lower[r] = __shfl_sync(~0u, v[r], (lane + 1) & 31);
        v[r] = v[(r + kHalf) % kR];
        v[(r + kHalf) % kR] = lane == 31 && i + 1 < kP ? above[r] : lower[r];
        above[r] = lower[r];
      }
      at += kHalf;
      if (i + 1 == kP && lane == 31) count = kR - kHalf;
    }
    if (count == kR && at >= begin && at + kR <= end) {
      Out out[kR];
#pragma unroll
      for (int r = 0; r < kR; ++r) out[r] = finish(v[r]);
      store_vectors<Out, kR>(to + at, out);
    } else {
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        if (r < count && at + r >= begin && at + r < end) to[at + r] = finish(v[r]);
      }
    }
  }
}

// All output channels of a tile, to y with bias or to the partial sums of the split.
template <class Out, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void store_ring_tile(Out* to, const void* bias_of, const Sum (&sum)[kP][kCo * kR],
                                                Sum* stage, const RingTile& tile, const NarrowThread& me,
                                                const NarrowParams& a) {
  const int q_block = 32 * kP * a.q_warps;
  const int pitch = (a.r_warps * kR) | 1;  // odd: lanes of neighbouring Q meet different banks
  if (a.direct) {
    if (me.slice != 0) return;
    const int64_t q = tile.q + me.q_warp * (32 * kP) + me.lane;
#pragma unroll
    for (int c = 0; c < kCo; ++c) {
      if (tile.co + c >= a.cout_per_group) break;
      int64_t channel;
      Out* row = to + narrow_line(tile, tile.co + c, channel, a);
      const Epilogue<Out> finish = epilogue_of<Out>(bias_of, channel);
      store_ring_direct<Out, Sum, kCo, kR, kP>(row, sum, c, q, me.lane, finish, a);
    }
    return;
  }
  for (int c = 0; c < kCo && tile.co + c < a.cout_per_group; ++c) {
    int64_t channel;
    Out* row = to + narrow_line(tile, tile.co + c, channel, a);
    const Epilogue<Out> finish = epilogue_of<Out>(bias_of, channel);
    stage_sums<Sum, kCo, kR, kP>(stage, sum, c, pitch, me);
    write_row(row, stage, pitch, q_block, finish, tile, a);
  }
}

}  // namespace tconv::cuda::simt
