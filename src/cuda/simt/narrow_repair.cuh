// Outputs of narrow.cuh and narrow_ring.cuh that became NaN, again, of the products that are there: both
// multiply zeros that stand for positions outside x, and make NaN of an infinite weight there. Zero times
// infinity makes nothing else, so whatever came out as a number is right. Only where weights are not all
// finite.
#pragma once

#include "cuda/simt/narrow.hpp"
#include "cuda/simt/storage.cuh"

namespace tconv::cuda::simt {

// What a block works on.
struct NarrowTile {
  int64_t row, q, residue, co, split;  // q: first Q, co: within the group
};

__device__ __forceinline__ NarrowTile narrow_tile(const NarrowParams& a, int64_t index, int kCo,
                                                  int q_block) {
  NarrowTile t;
  t.residue = take_digit(index, a.residue_groups) * a.residues;
  t.co = take_digit(index, a.co_blocks) * kCo;
  t.q = a.q_first + take_digit(index, a.q_tiles) * q_block;
  t.row = take_digit(index, a.rows);
  t.split = index;
  return t;
}

// Where output channel co of a tile (of either kernel) begins in y, and its channel.
template <class Tile>
__device__ __forceinline__ int64_t narrow_line(const Tile& tile, int64_t co, int64_t& channel,
                                               const NarrowParams& a) {
  const int64_t n = quotient(tile.row, a.groups);
  channel = (tile.row - n * a.groups) * a.cout_per_group + co;
  return (n * a.groups * a.cout_per_group + channel) * a.lout;
}

// What a thread is of its block.
struct NarrowThread {
  int lane, q_warp, r_warp, slice;
};

__device__ __forceinline__ NarrowThread narrow_thread(const NarrowParams& a) {
  const int warp = threadIdx.x >> 5, rest = warp / a.q_warps;
  return {static_cast<int>(threadIdx.x & 31), warp % a.q_warps, rest % a.r_warps, rest / a.r_warps};
}

// The split's share of output (channel co of the group, residue) at q.
template <class T>
__device__ Accumulator<T> narrow_sum_again(const NarrowParams& a, const NarrowTile& tile, int64_t co,
                                           int64_t residue, int64_t q) {
  const int64_t n = tile.row / a.groups, group = tile.row - n * a.groups;
  const int64_t first = tile.split * a.cin_per_split,
                end = min(first + a.cin_per_split, static_cast<int64_t>(a.cin_per_group));
  Accumulator<T> sum = 0;
#pragma unroll 1
  for (int64_t ci = group * a.cin_per_group + first; ci < group * a.cin_per_group + end && sum == sum; ++ci) {
    const T* x = static_cast<const T*>(a.x) + n * a.x_sample + ci * a.x_channel;
    const T* w = static_cast<const T*>(a.weight) + (ci * a.cout_per_group + co) * a.k;
    int64_t position = q;
#pragma unroll 1
    for (int64_t k = residue; k < a.k; k += a.stride, --position) {
      if (position < 0 || position >= a.l) continue;
      sum = fma(widen(x[position * a.x_position]), widen(w[k]), sum);
    }
  }
  return sum;
}

template <class T, class Out>
__device__ __forceinline__ void repair_outputs(const NarrowParams& a, NarrowTile tile, Out* y,
                                               const void* bias, int couts, int positions, int thread,
                                               int threads) {
  const int count = couts * positions * a.residues;
  loads_after_stores();
#pragma unroll 1
  for (int e = thread; e < count; e += threads) {
    const int place = e / a.residues;
    const int64_t residue = tile.residue + (e - place * a.residues), q = tile.q + place % positions,
                  co = tile.co + place / positions;
    const int64_t o = q * a.stride + residue - a.padding;
    if (residue >= a.stride || co >= a.cout_per_group || o < 0 || o >= a.lout) continue;
    int64_t channel;
    Out* to = y + narrow_line(tile, co, channel, a) + o;
    const Accumulator<T> now = widen(*to);
    if (now == now) continue;
    *to = narrow<Out>(narrow_sum_again<T>(a, tile, co, residue, q) + load_bias<Out>(bias, channel));
  }
}

// What a warp stored of a tile where sums go straight from registers to y, else the block; a warp has `each`
// positions. All threads of the block come here. Out of line, and with its place found again: what it needs
// would else take registers from the sums.
template <class T>
__device__ __noinline__ void repair_tile(const NarrowParams& a, int64_t index, int couts, int each) {
  using Sum = Accumulator<T>;
  const NarrowThread me = narrow_thread(a);
  NarrowTile tile = narrow_tile(a, index, couts, each * a.q_warps);
  if (a.direct) {
    __syncwarp();
    if (me.slice != 0) return;
    tile.q += me.q_warp * each;
  } else {
    __syncthreads();
  }
  const int positions = a.direct ? each : each * a.q_warps;
  const int thread = a.direct ? me.lane : threadIdx.x, threads = a.direct ? 32 : blockDim.x;
  if (a.partial != nullptr) {
    repair_outputs<T>(a, tile, static_cast<Sum*>(a.partial) + tile.split * a.row_elements, nullptr, couts,
                      positions, thread, threads);
  } else {
    repair_outputs<T>(a, tile, static_cast<T*>(a.y), a.bias, couts, positions, thread, threads);
  }
}

}  // namespace tconv::cuda::simt
