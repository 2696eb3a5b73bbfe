// The end of a tile of cuda.simt.narrow: sums become rows of y, or partial sums.
#pragma once

#include "cuda/device/writers.cuh"
#include "cuda/simt/narrow_tile.cuh"

namespace tconv::cuda::simt {

// Where output channel co of a tile (of either kernel) begins in y, and which channel that is.
template <class Tile>
__device__ __forceinline__ int64_t narrow_line(const Tile& tile, int64_t co, int64_t& channel,
                                               const NarrowParams& a) {
  const int64_t n = divide(tile.row, a.groups);
  channel = (tile.row - n * a.groups) * a.cout_per_group + co;
  return (n * a.groups * a.cout_per_group + channel) * a.lout;
}

// Selects the sums of an output channel without indexing registers at run time.
template <class Sum, int kCo, int kR>
__device__ __forceinline__ Sum pick(const Sum (&sum)[kCo * kR], int c, int r) {
  Sum v = sum[r];
#pragma unroll
  for (int each = 1; each < kCo; ++each) v = each == c ? sum[each * kR + r] : v;
  return v;
}

// Stores the sums of one warp straight to Out (y, or the partial sums): the block's kR residues are the
// stride, so a thread holds kR neighbours and a warp 32*kR.
template <class Out, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void store_direct(Out* row, const Sum (&sum)[kP][kCo * kR], int c, int64_t q,
                                             const Epilogue<Out>& finish, const NarrowParams& a) {
#pragma unroll
  for (int i = 0; i < kP; ++i) {
    const int64_t o = (q + 32 * i) * kR - a.padding;
    Out out[kR];
#pragma unroll
    for (int r = 0; r < kR; ++r) out[r] = finish(pick<Sum, kCo, kR>(sum[i], c, r));
    if (o >= 0 && o + kR <= a.lout) {
      store_span<Out, kR>(row + o, out);
    } else {
#pragma unroll
      for (int r = 0; r < kR; ++r) {
        if (o + r >= 0 && o + r < a.lout) row[o + r] = out[r];
      }
    }
  }
}

// stage[(Q - tile.q)*pitch + residue] = the sums of slice 0 for output channel c.
template <class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void stage_sums(Sum* stage, const Sum (&sum)[kP][kCo * kR], int c, int pitch,
                                           const NarrowThread& me) {
  __syncthreads();
  if (me.slice == 0) {
#pragma unroll
    for (int i = 0; i < kP; ++i) {
      Sum* to = stage + ((me.q_warp * kP + i) * 32 + me.lane) * pitch + me.r_warp * kR;
#pragma unroll
      for (int r = 0; r < kR; ++r) to[r] = pick<Sum, kCo, kR>(sum[i], c, r);
    }
  }
  __syncthreads();
}

// The stage to a row: neighbouring threads store neighbouring residues.
template <class Out, class Sum, class Tile>
__device__ __forceinline__ void write_row(Out* row, const Sum* stage, int pitch, int q_block,
                                          const Epilogue<Out>& finish, const Tile& tile,
                                          const NarrowParams& a) {
  const int64_t o_tile = tile.q * a.stride + tile.residue - a.padding;
  using Count = decltype(a.stride - tile.residue);
  const int residues = static_cast<int>(min(static_cast<Count>(a.residues), a.stride - tile.residue));
  for (int e = threadIdx.x; e < q_block * a.residues; e += blockDim.x) {
    const int q = static_cast<int>(a.by_residues.divide(e)), r = e - q * a.residues;
    const int64_t o = o_tile + q * static_cast<int64_t>(a.stride) + r;
    if (r < residues && o >= 0 && o < a.lout) row[o] = finish(stage[q * pitch + r]);
  }
}

// All output channels of a tile, to y with bias or to the partial sums of the split.
template <class Out, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void store_tile(Out* to, const void* bias_of, const Sum (&sum)[kP][kCo * kR],
                                           Sum* stage, const NarrowTile<int64_t>& tile,
                                           const NarrowThread& me, const NarrowParams& a) {
  const int q_block = 32 * kP * a.q_warps;
  const int pitch = (a.r_warps * kR) | 1;  // odd: lanes of neighbouring Q meet different banks
  for (int c = 0; c < kCo && tile.co + c < a.cout_per_group; ++c) {
    int64_t channel;
    Out* row = to + narrow_line(tile, tile.co + c, channel, a);
    const Epilogue<Out> finish = epilogue_of<Out>(bias_of, channel);
    if (a.direct) {
      const int64_t q = tile.q + me.q_warp * (32 * kP) + me.lane;
      if (me.slice == 0) store_direct<Out, Sum, kCo, kR, kP>(row, sum, c, q, finish, a);
    } else {
      stage_sums<Sum, kCo, kR, kP>(stage, sum, c, pitch, me);
      write_row(row, stage, pitch, q_block, finish, tile, a);
    }
  }
}

}  // namespace tconv::cuda::simt
