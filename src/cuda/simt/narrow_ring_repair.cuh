// Recomputes outputs of narrow_ring.cuh that became NaN, from the products that exist: the kernel multiplies
// zeros that stand for positions outside x, and an infinite weight makes NaN of them. Zero times infinity
// gives nothing else, so every output that is a number is correct. Runs only if some weight is not finite.
#pragma once

#include "cuda/simt/narrow_ring_store.cuh"

namespace tconv::cuda::simt {

// The split's share of the output (a channel of the group, a residue) at q.
template <class T>
__device__ Accumulator<T> ring_sum_again(const NarrowParams& a, const RingTile& tile, int64_t co,
                                         int64_t residue, int64_t q) {
  const int64_t n = tile.row / a.groups, group = tile.row - n * a.groups;
  const int64_t first = int64_t{tile.split} * a.cin_per_split,
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

// All of a tile, by all threads of the block. positions: of the tile.
template <class T, class Out>
__device__ __forceinline__ void repair_outputs(const NarrowParams& a, const RingTile& tile, Out* y,
                                               const void* bias, int couts, int positions) {
  const int count = couts * positions * a.residues;
#pragma unroll 1
  for (int e = threadIdx.x; e < count; e += blockDim.x) {
    const int place = e / a.residues;
    const int64_t residue = tile.residue + (e - place * a.residues), q = tile.q + place % positions,
                  co = tile.co + place / positions;
    const int64_t o = q * a.stride + residue - a.padding;
    if (residue >= a.stride || co >= a.cout_per_group || o < 0 || o >= a.lout) continue;
    int64_t channel;
    Out* to = y + narrow_line(tile, co, channel, a) + o;
    const Accumulator<T> now = widen(*to);
    if (now == now) continue;
    *to = epilogue_of<Out>(bias, channel)(ring_sum_again<T>(a, tile, co, residue, q));
  }
}

// All tiles of the block, after all of them are stored: earlier, what this needs would take registers from
// the sums.
template <class T>
__device__ __forceinline__ void repair_ring_tiles(const NarrowParams& a, int couts, int positions) {
  using Sum = Accumulator<T>;
  __syncthreads();
#pragma unroll 1
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    const RingTile tile = narrow_tile<int>(a, index, couts, positions);
    if (a.partial != nullptr) {
      repair_outputs<T>(a, tile, static_cast<Sum*>(a.partial) + int64_t{tile.split} * a.row_elements, nullptr,
                        couts, positions);
    } else {
      repair_outputs<T>(a, tile, static_cast<T*>(a.y), a.bias, couts, positions);
    }
  }
}

}  // namespace tconv::cuda::simt
