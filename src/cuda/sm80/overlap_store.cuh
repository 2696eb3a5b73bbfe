// From products to outputs: each split has the products of its tile in shared memory, and they are added
// where they overlap.
#pragma once

#include "cuda/device/accumulator.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/writers.cuh"
#include "cuda/sm80/cluster_sums.cuh"
#include "cuda/sm80/overlap_exact.cuh"

namespace tconv::cuda::sm80::overlap {

// Where a block's products lie. Lanes that store neighbouring outputs read neighbouring rows as far as the
// stride goes, then the next column: so a column's rows lie together, or with a small stride a row's columns.
// (Loads from other blocks' shared memory take as long as the pieces they are made of: with a cluster of 6, a
// stride of 1 and columns apart, 16 of 32 us.)
struct Products {
  float* at;
  int row_step, column_step;

  template <class S>
  __device__ static Products of(const OverlapParams& p, unsigned char* shared) {
    return {reinterpret_cast<float*>(shared), p.columns_beside ? S::kRowStep : 1,
            p.columns_beside ? 1 : S::kColumnStep};
  }
};

template <class S, bool kColumnsBeside, class Sums>
__device__ __forceinline__ void stage_products(float* products, const Sums& sums, int first_row,
                                               int first_column) {
  using Map = MmaAccumulator;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
      for (int r = 0; r < Map::kRegisters; r += 2) {
        const int column = first_column + j * Map::kColumns + Map::column(lane, r);
        const int row = first_row + i * Map::kRows + Map::row(lane, r);
        if constexpr (kColumnsBeside) {
          store_pair(products + row * S::kRowStep + column, sums[i][j][r], sums[i][j][r + 1]);
        } else {
          float* to = products + column * S::kColumnStep + row;
          to[0] = sums[i][j][r];
          to[S::kColumnStep] = sums[i][j][r + 1];
        }
      }
    }
  }
}

// The turns (n, u) of a tile's own columns, as numbers n*turns + u - first_u.
struct Turns {
  int first, count;

  template <class P>
  __device__ Turns(const OverlapParams& p, const P& place) {
    const int begin = place.column_tile * p.own, end = min(p.columns, begin + p.own);
    const int turns = static_cast<int>(p.turns.value);
    const auto before = [&](int column, bool last) {
      const int n = static_cast<int>(p.length.divide(column)), i = column - n * static_cast<int>(p.l);
      int u = last ? i + 1 : i;
      if (last && u == p.l) u = p.first_u + turns;
      if (!last && i == 0) u = p.first_u;
      return n * turns + min(max(u - p.first_u, 0), turns);
    };
    first = before(begin, false);
    count = before(end - 1, true) - first;
  }
};

// Where the outputs of (n, u, slot) are, for every cout of the tile.
struct OutputPlace {
  int64_t o = -1;          // -1: none
  int first_tap, end_tap;  // those that meet x
  int product;             // of the first cout and tap 0

  template <class P>
  __device__ OutputPlace(const OverlapParams& p, const P& place, const Products& products, int n, int u,
                         int slot) {
    const int64_t at = int64_t{u} * p.stride + slot - p.padding;
    if (at < 0 || at >= p.lout) return;
    o = int64_t{n} * p.cout * p.lout + at;
    const int taps = slot < p.phases ? p.taps - (slot < p.last_phases ? 0 : 1) : 0;
    const int l = static_cast<int>(p.l);
    first_tap = u < l ? 0 : (u - l) / p.step + 1;
    end_tap = min(taps, u / p.step + 1);
    const int column = n * l + u - (place.column_tile * p.own - p.halo);
    product = column * products.column_step + (slot - place.first_phase) * products.row_step;
  }
};

// Calls store(out, u, slot, n, cout of the tile, y) for each output of a block's share of the tile.
template <class S, class P, class Store>
__device__ __forceinline__ void for_share(const OverlapParams& p, int rank, int splits, const P& place,
                                          const Products& products, const Store& store) {
  using T = typename S::T;
  const Turns turns(p, place);
  const bool last = place.first_phase + p.chunk >= p.phases;
  const uint32_t slots = (last ? p.stride : place.first_phase + p.chunk) - place.first_phase;
  const uint32_t each = turns.count * slots;
  // Neighbouring threads take neighbouring outputs of a cout; if these are few, others take other couts.
  uint32_t lanes = 32;
  while (lanes < kOverlapThreads && lanes * splits < each) lanes *= 2;
  const int cout_lane = threadIdx.x / lanes, cout_lanes = kOverlapThreads / lanes;
  const int64_t first_channel = int64_t{place.group} * p.cout_group + place.first_cout;
  for (uint32_t e = threadIdx.x % lanes + rank * lanes; e < each; e += lanes * splits) {
    const uint32_t turn = e / slots, number = turns.first + turn, n = p.turns.divide(number);
    const int u = p.first_u + static_cast<int>(number - n * p.turns.value);
    const int slot = place.first_phase + static_cast<int>(e - turn * slots);
    const OutputPlace out(p, place, products, static_cast<int>(n), u, slot);
    if (out.o < 0) continue;
    T* to = static_cast<T*>(p.y) + out.o + (first_channel + cout_lane) * p.lout;
#pragma unroll 2
    for (int cout = cout_lane; cout < place.couts; cout += cout_lanes) {
      store(out, Turn{static_cast<int>(n), u, slot}, cout, to);
      to += cout_lanes * p.lout;
    }
  }
}

// Returns whether some sum was not finite.
template <class S, bool kClustered, class P>
__device__ __forceinline__ bool store_share(const OverlapParams& p, int rank, const P& place,
                                            const Products& products) {
  using T = typename S::T;
  const int tap_step = p.tap_rows * products.row_step - p.step * products.column_step;
  const int cout_step = p.cout_rows * products.row_step;
  const int64_t first_channel = int64_t{place.group} * p.cout_group + place.first_cout;
  bool infinite = false;
  const int splits = kClustered ? p.splits : 1;
  for_share<S>(p, rank, splits, place, products, [&](const OutputPlace& out, const Turn&, int cout, T* to) {
    if (out.first_tap >= out.end_tap) {
      *to = epilogue_of<T>(p.bias, first_channel + cout).alone();
      return;
    }
    const float* at = products.at + out.product + cout * cout_step;
    constexpr int kAhead = kClustered ? 2 : 1;  // taps
    float sum = 0;
#pragma unroll 1
    for (int tap = out.first_tap; tap < out.end_tap; tap += kAhead) {
      float taps[kAhead];
      split_sums<kClustered>(at + tap * tap_step, tap_step, out.end_tap - tap, splits, taps);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += taps[i];
    }
    if constexpr (S::A::kParts == 2) infinite = infinite || !isfinite(sum);
    *to = epilogue_of_sums<T>(p.bias, first_channel + cout)(sum);
  });
  return infinite;
}

// Recomputes what split operands get wrong: all outputs, or those that are not finite.
template <class S, class P>
__device__ __noinline__ void store_exact(const OverlapParams& p, int rank, const P& place,
                                         const Products& products, bool all) {
  for_share<S>(p, rank, p.splits, place, products,
               [&](const OutputPlace& out, const Turn& turn, int cout, float* to) {
                 if (out.first_tap >= out.end_tap || (!all && isfinite(*to))) return;
                 const float sum =
                     exact_sum(p, place.group, place.first_cout + cout, turn, out.first_tap, out.end_tap);
                 *to = epilogue_of_sums<float>(
                     p.bias, int64_t{place.group} * p.cout_group + place.first_cout + cout)(sum);
               });
}

// small: whether this block has seen operands that do not fit two parts; then the tile is computed again.
template <class S, bool kClustered, class P>
__device__ __forceinline__ void store_tile(const OverlapParams& p, int rank, const P& place,
                                           const Products& products, bool small) {
  constexpr bool kSplitOperands = S::A::kParts == 2;
  float* mark = products.at + S::kSumFloats - 1;  // the last place holds no product
  if constexpr (kSplitOperands) {
    small = __syncthreads_or(small) != 0;
    if (threadIdx.x == 0) *mark = small ? 1.0f : 0.0f;
  }
  if constexpr (!kClustered) {
    __syncthreads();
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cluster_barrier();
#endif
  }
  const bool infinite = store_share<S, kClustered>(p, rank, place, products);
  if constexpr (kSplitOperands) {
    const bool all = split_sum<kClustered>(mark, p.splits) != 0;
    if (__syncthreads_or(all || infinite)) store_exact<S>(p, rank, place, products, all);
  }
  if constexpr (kClustered) {
    __syncwarp();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cluster_barrier();  // no block leaves while others read its products
#endif
  }
}

template <class S, class P>
__device__ __forceinline__ void store_outputs(const OverlapParams& p, int rank, const P& place,
                                              const Products& products, bool small) {
  if (p.splits == 1) {
    store_tile<S, false>(p, rank, place, products, small);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  } else {
    store_tile<S, true>(p, rank, place, products, small);
#endif
  }
}

}  // namespace tconv::cuda::sm80::overlap
