// From products to outputs: each tile's products in shared memory, those of the other splits in theirs, added
// where they overlap.
#pragma once

#include "cuda/device/accumulator.hpp"
#include "cuda/device/epilogue.cuh"
#include "cuda/device/ptx/sm80.cuh"
#include "cuda/sm80/overlap.hpp"

namespace tconv::cuda::sm80::overlap {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::
                   : "memory");
}
// From the shared memory of the cluster's block `rank`, at the address that `own` has in this block's.
__device__ inline float load_cluster(uint32_t own, int rank) {
  float v;
  asm volatile("{.reg .b32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.f32 %0, [at];\n}\n"
               : "=f"(v)
               : "r"(own), "r"(rank)
               : "memory");
  return v;
}
#endif

// products[column][row]: lanes that store lie in all banks, and so do those that read neighbouring rows.
template <class S, class Sums>
__device__ __forceinline__ void stage_products(float* products, const Sums& sums, int first_row,
                                               int first_column) {
  using Map = MmaAccumulator;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
      for (int r = 0; r < Map::kRegisters; ++r) {
        const int column = first_column + j * Map::kColumns + Map::column(lane, r);
        products[column * kOverlapSumPitch + first_row + i * Map::kRows + Map::row(lane, r)] = sums[i][j][r];
      }
    }
  }
}

// The turns (n, u) that a tile's own columns have, as numbers n*turns + u - first_u.
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

// One product's splits, in order.
template <int kSplits>
__device__ __forceinline__ float split_sum(const float* product) {
  if constexpr (kSplits == 1) return *product;
  float sum = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const uint32_t at = ptx::shared_address(product);
  float parts[kSplits];
#pragma unroll
  for (int rank = 0; rank < kSplits; ++rank) parts[rank] = load_cluster(at, rank);
#pragma unroll
  for (int rank = 0; rank < kSplits; ++rank) sum += parts[rank];
#endif
  return sum;
}

// Where the outputs of a place (n, u, slot) are, of every cout of the tile.
struct OutputPlace {
  int64_t o = -1;          // -1: none
  int first_tap, end_tap;  // those that meet x
  int product;             // of the first cout and tap 0

  template <class P>
  __device__ OutputPlace(const OverlapParams& p, const P& place, int n, int u, int slot) {
    const int64_t at = int64_t{u} * p.stride + slot - p.padding;
    if (at < 0 || at >= p.lout) return;
    o = int64_t{n} * p.cout * p.lout + at;
    const int taps = slot < p.phases ? p.taps - (slot < p.last_phases ? 0 : 1) : 0;
    const int l = static_cast<int>(p.l);
    first_tap = u < l ? 0 : (u - l) / p.step + 1;
    end_tap = min(taps, u / p.step + 1);
    const int column = n * l + u - (place.column_tile * p.own - p.halo);
    product = column * kOverlapSumPitch + slot - place.first_phase;
  }
};

template <class T, int kSplits>
__device__ __forceinline__ void store_output(const OutputPlace& out, int tap_step, const float* at,
                                             const void* bias, int64_t channel, T* to) {
  if (out.first_tap >= out.end_tap) {
    *to = epilogue_of<T>(bias, channel).alone();
    return;
  }
  float sum = 0;
#pragma unroll 2
  for (int tap = out.first_tap; tap < out.end_tap; ++tap) sum += split_sum<kSplits>(at + tap * tap_step);
  *to = epilogue_of_sums<T>(bias, channel)(sum);
}

template <class T, int kSplits, class P>
__device__ __forceinline__ void store_share(const OverlapParams& p, int rank, const P& place,
                                            const float* products) {
  const Turns turns(p, place);
  const bool last = place.first_phase + p.chunk >= p.phases;
  const uint32_t slots = (last ? p.stride : place.first_phase + p.chunk) - place.first_phase;
  const uint32_t each = turns.count * slots;
  // Neighbouring threads take neighbouring outputs of a cout; where these are few, others take other couts.
  uint32_t lanes = 32;
  while (lanes < kOverlapThreads && lanes * kSplits < each) lanes *= 2;
  const int cout_lane = threadIdx.x / lanes, cout_lanes = kOverlapThreads / lanes;
  const int tap_step = p.tap_rows - p.step * kOverlapSumPitch;
  const int64_t first_channel = int64_t{place.group} * p.cout_group + place.first_cout;
  for (uint32_t e = threadIdx.x % lanes + rank * lanes; e < each; e += lanes * kSplits) {
    const uint32_t turn = e / slots, number = turns.first + turn, n = p.turns.divide(number);
    const int u = p.first_u + static_cast<int>(number - n * p.turns.value);
    const OutputPlace out(p, place, static_cast<int>(n), u,
                          place.first_phase + static_cast<int>(e - turn * slots));
    if (out.o < 0) continue;
    T* to = static_cast<T*>(p.y) + out.o + (first_channel + cout_lane) * p.lout;
    const float* at = products + out.product + cout_lane * p.cout_rows;
#pragma unroll 4
    for (int cout = cout_lane; cout < place.couts; cout += cout_lanes) {
      store_output<T, kSplits>(out, tap_step, at, p.bias, first_channel + cout, to);
      to += cout_lanes * p.lout;
      at += cout_lanes * p.cout_rows;
    }
  }
}

template <class T, class P>
__device__ __forceinline__ void store_outputs(const OverlapParams& p, int rank, const P& place,
                                              const float* products) {
  if (p.splits == 1) {
    __syncthreads();
    store_share<T, 1>(p, rank, place, products);
    return;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cluster_barrier();
  if (p.splits == 2) {
    store_share<T, 2>(p, rank, place, products);
  } else if (p.splits == 4) {
    store_share<T, 4>(p, rank, place, products);
  } else {
    store_share<T, 8>(p, rank, place, products);
  }
  __syncwarp();
  cluster_barrier();  // no block leaves while others read its products
#endif
}

}  // namespace tconv::cuda::sm80::overlap
