// The kernel of thin.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/nan.cuh"
#include "cuda/sm80/thin_source.cuh"
#include "cuda/sm80/thin_store.cuh"

namespace tconv::cuda::sm80::thin {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Sums of a warp: row tiles [row_tile, row_tile + count) of the block's, kThinColumns positions from `first`
// on. While a step is multiplied, the fragments of the next are on their way.
template <class A, bool kPhases, int kMi>
class Products {
 public:
  using Sums = float[kMi][kThinColumns / 8][4];

  __device__ Products(const ThinParams& p, const unsigned char* shared, int row_tile, int count)
      : count_(count), steps_(p.steps), tile_pitch_(p.steps * kThinFragmentBytes) {
    const int lane = threadIdx.x % 32, column = lane / 4;
    const uint32_t base = ptx::shared_address(shared);
    entries_ = base + p.table_at + lane % 4 * 8;
    window_ = base + p.window_at + column_of<kPhases>(0, column) * 4;
    fragments_ = base + row_tile * tile_pitch_ + lane * 16;
  }

  __device__ __forceinline__ void add(int first, Sums& sums) const {
    const uint32_t window = window_ + first * 4;
    Step step[2];
    uint2 at = ptx::load_shared8(entries_);
    load(window, at, 0, step[0]);
    at = ptx::load_shared8(entries_ + 32);
#pragma unroll 1
    for (int s = 0; s < steps_; s += 2) {
      load(window, at, s + 1, step[1]);
      at = ptx::load_shared8(entries_ + (s + 2) * 32);
      multiply_step(step[0], sums);
      if (s + 1 == steps_) break;
      load(window, at, s + 2, step[0]);
      at = ptx::load_shared8(entries_ + (s + 3) * 32);
      multiply_step(step[1], sums);
    }
  }

 private:
  struct Step {
    uint4 a[kMi][1];
    uint2 b[kThinColumns / 8][1];
  };
  __device__ __forceinline__ void load(uint32_t window, uint2 at, int step, Step& to) const {
#pragma unroll
    for (int i = 0; i < kMi; ++i) {
      to.a[i][0] = ptx::load_shared16(fragments_ + i * tile_pitch_ + step * kThinFragmentBytes);
    }
#pragma unroll
    for (int j = 0; j < kThinColumns / 8; ++j) {
      const int ahead = column_of<kPhases>(j, 0) * 4;
      to.b[j][0] = {ptx::load_shared4(window + at.x + ahead), ptx::load_shared4(window + at.y + ahead)};
    }
  }
  __device__ __forceinline__ void multiply_step(const Step& step, Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kMi; ++i) {
      if (i > 0 && i >= count_) break;
#pragma unroll
      for (int j = 0; j < kThinColumns / 8; ++j) multiply<A>(sums[i][j], step.a[i], step.b[j]);
    }
  }

  int count_, steps_, tile_pitch_;
  uint32_t entries_, window_, fragments_;
};

#endif

template <class A, bool kPhases, int kMi>
__global__ void __launch_bounds__(kThinThreads, thin_blocks(kMi))
    thin_kernel(const __grid_constant__ ThinParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using T = typename A::T;
  extern __shared__ __align__(128) unsigned char shared[];
  const Place place(p);
  Channels<T> channels(p, place, shared);
  const int warp = threadIdx.x / 32;
  const int column_warps = kThinWarps / p.row_warps;
  const int first = warp % column_warps * p.warp_columns, row_tile = warp / column_warps * kMi;
  const int count = min(kMi, place.row_tiles - row_tile);
  const auto* const biases = reinterpret_cast<const float*>(shared + p.bias_at) + row_tile * kThinRowTile;
  auto* const staged = reinterpret_cast<uint16_t*>(shared + p.staged_at + warp * p.staged_warp);
  const Products<A, kPhases, kMi> products(p, shared, row_tile, count);
  const auto sample_of = [&](int tile) { return static_cast<int>(p.sample_tiles.divide(tile)); };
  const auto position_of = [&](int tile, int n) {
    return (tile - n * static_cast<int>(p.sample_tiles.value)) * column_warps * p.warp_columns;
  };
  const auto copy = [&](int tile) {
    channels.copy(p, sample_of(tile), position_of(tile, sample_of(tile)));
    ptx::copy_async_commit();
  };
  copy(place.first_tile);
  channels.clear_missing(p);
  fill_table(p, reinterpret_cast<int*>(shared + p.table_at));
  fill_weights<T>(p, place, reinterpret_cast<uint4*>(shared));
  fill_biases<T>(p, place, reinterpret_cast<float*>(shared + p.bias_at));
#pragma unroll 1
  for (int tile = place.first_tile; tile < place.end_tile; ++tile) {
    ptx::copy_async_wait<0>();
    __syncthreads();  // the channels are complete, and the words of the tile before have been read
    channels.pair(p);
    __syncthreads();
    if (tile + 1 < place.end_tile) copy(tile + 1);
    const int n = sample_of(tile);
    const int m = position_of(tile, n) + first;
    if (count <= 0 || m >= p.positions) continue;
    bool nan = false;
#pragma unroll 1
    for (int at = 0; at < p.warp_columns && m + at < p.positions; at += kThinColumns) {
      typename Products<A, kPhases, kMi>::Sums sums = {};
      products.add(first + at, sums);
#pragma unroll
      for (int i = 0; i < kMi; ++i) {
        if (i >= count) break;
        put<T, kPhases>(p, sums[i], biases + i * kThinRowTile,
                        staged + i * p.staged_tile / 2 + at * p.out_stride);
        nan = nan || any_nan(sums[i]);
      }
    }
    __syncwarp();
    nan = __any_sync(0xffffffffu, nan);
    for (int i = 0; i < count; ++i) {
      const WarpTile of = {n, m, place.first_row_tile + row_tile + i, place.group};
      take_rows<T, kPhases>(p, of, staged + i * p.staged_tile / 2);
      __syncwarp();
      if (nan) repair<T>(p, of, biases + i * kThinRowTile);
    }
  }
#endif
}

template <class A>
ThinFunctions functions_of() {
  return {{{thin_kernel<A, false, 1>, thin_kernel<A, false, 2>},
           {thin_kernel<A, true, 1>, thin_kernel<A, true, 2>}}};
}

}  // namespace tconv::cuda::sm80::thin
