// The kernel of thin.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/nan.cuh"
#include "cuda/sm80/thin_source.cuh"
#include "cuda/sm80/thin_store.cuh"

namespace tconv::cuda::sm80::thin {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Words of a window as operands.
template <class A>
__device__ __forceinline__ void set(uint2 (&parts)[A::kParts], const uint2& v) {
  if constexpr (A::kParts == 2) {
    split_word(v.x, parts[0].x, parts[1].x), split_word(v.y, parts[0].y, parts[1].y);
  } else if constexpr (sizeof(typename A::T) == 4) {
    parts[0] = {tf32_word(v.x), tf32_word(v.y)};
  } else {
    parts[0] = v;
  }
}

// Sums of a warp: row tiles [row_tile, row_tile + count) of the block's, kThinColumns positions from `first`
// on. While a step is multiplied, the words of the next are on their way.
template <class A, bool kPhases, int kMi>
class Products {
 public:
  using Sums = float[kMi][kThinColumns / 8][4];

  __device__ Products(const ThinParams& p, const unsigned char* shared, int row_tile, int count)
      : count_(count), steps_(p.steps), tile_pitch_(p.steps * kStepBytes) {
    const int lane = threadIdx.x % 32, column = lane / 4;
    const uint32_t base = ptx::shared_address(shared);
    entries_ = base + p.table_at + lane % 4 * 8;
    window_ = base + p.window_at + column_of<kPhases>(0, column) * 4;
    fragments_ = base + row_tile * tile_pitch_ + lane * 16;
  }

  // first: the first position, and in words how far the window lies behind the first one.
  __device__ __forceinline__ void add(int first, Sums& sums) const {
    const uint32_t window = window_ + first * 4;
    Crosses crosses = {};
    Step step[2];
    uint2 at = ptx::load_shared8(entries_);
    load(window, at, 0, step[0]);
    at = ptx::load_shared8(entries_ + 32);
#pragma unroll 1
    for (int s = 0; s < steps_; s += 2) {
      load(window, at, s + 1, step[1]);
      at = ptx::load_shared8(entries_ + (s + 2) * 32);
      multiply_step(step[0], sums, crosses);
      if (s + 1 == steps_) break;
      load(window, at, s + 2, step[0]);
      at = ptx::load_shared8(entries_ + (s + 3) * 32);
      multiply_step(step[1], sums, crosses);
    }
    if constexpr (kSplit) {
#pragma unroll
      for (int i = 0; i < kMi * kThinColumns / 2; ++i) {
        float& sum = sums[i / (kThinColumns / 2)][i / 4 % (kThinColumns / 8)][i % 4];
        sum = fmaf(crosses[i / (kThinColumns / 2)][i / 4 % (kThinColumns / 8)][i % 4], kDown, sum);
      }
    }
  }

 private:
  // hi*hi goes to a fresh sum that is rounded into the sum; hi*lo + lo*hi to one of their own, 2^13 times as
  // large.
  static constexpr bool kSplit = A::kParts == 2;
  static constexpr int kStepBytes = A::kParts * kThinFragmentBytes;
  using Crosses = float[kSplit ? kMi : 1][kSplit ? kThinColumns / 8 : 1][4];

  struct Step {
    uint4 a[kMi][A::kParts];
    uint2 b[kThinColumns / 8];
  };
  __device__ __forceinline__ void load(uint32_t window, uint2 at, int step, Step& to) const {
#pragma unroll
    for (int i = 0; i < kMi; ++i) {
#pragma unroll
      for (int part = 0; part < A::kParts; ++part) {
        to.a[i][part] =
            ptx::load_shared16(fragments_ + i * tile_pitch_ + step * kStepBytes + part * kThinFragmentBytes);
      }
    }
#pragma unroll
    for (int j = 0; j < kThinColumns / 8; ++j) {
      const int ahead = column_of<kPhases>(j, 0) * 4;
      to.b[j] = {ptx::load_shared4(window + at.x + ahead), ptx::load_shared4(window + at.y + ahead)};
    }
  }
  __device__ __forceinline__ void multiply_step(const Step& step, Sums& sums, Crosses& crosses) const {
    uint2 b[kThinColumns / 8][A::kParts];
#pragma unroll
    for (int j = 0; j < kThinColumns / 8; ++j) set<A>(b[j], step.b[j]);
#pragma unroll
    for (int i = 0; i < kMi; ++i) {
      if (i > 0 && i >= count_) break;
#pragma unroll
      for (int j = 0; j < kThinColumns / 8; ++j) {
        if constexpr (kSplit) {
          float fresh[4] = {};
          ptx::mma_tf32(fresh, step.a[i][0], b[j][0].x, b[j][0].y);
          ptx::mma_tf32(crosses[i][j], step.a[i][1], b[j][0].x, b[j][0].y);
          ptx::mma_tf32(crosses[i][j], step.a[i][0], b[j][1].x, b[j][1].y);
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][j][e] += fresh[e];
        } else {
          multiply<A>(sums[i][j], step.a[i], b[j]);
        }
      }
    }
  }

  int count_, steps_, tile_pitch_;
  uint32_t entries_, window_, fragments_;
};

#endif

template <class A, bool kPhases, int kMi>
__global__ void __launch_bounds__(kThinThreads, thin_blocks(kMi, A::kParts))
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
  auto* const staged = reinterpret_cast<Staged<T>*>(shared + p.staged_at + warp * p.staged_warp);
  constexpr bool kPairs = sizeof(T) == 2;
  const Products<A, kPhases, kMi> products(p, shared, row_tile, count);
  const auto sample_of = [&](int tile) { return static_cast<int>(p.sample_tiles.divide(tile)); };
  const auto position_of = [&](int tile, int n) {
    return (tile - n * static_cast<int>(p.sample_tiles.value)) * column_warps * p.warp_columns;
  };
  const auto copy = [&](int tile, int buffer) {
    channels.copy(p, sample_of(tile), position_of(tile, sample_of(tile)), buffer);
    ptx::copy_async_commit();
  };
  copy(place.first_tile, 0);
  channels.clear_missing(p);
  fill_table(p, reinterpret_cast<int*>(shared + p.table_at));
  fill_weights<A>(p, place, reinterpret_cast<uint4*>(shared));
  fill_biases<T>(p, place, reinterpret_cast<float*>(shared + p.bias_at));
  int buffer = 0;  // bytes from the first window to the tile's
#pragma unroll 1
  for (int tile = place.first_tile; tile < place.end_tile; ++tile) {
    ptx::copy_async_wait<0>();
    __syncthreads();  // the channels are complete, and the words of the tile before have been read
    if constexpr (kPairs) {
      channels.pair(p);
      __syncthreads();
    }
    const int now = kPairs ? 0 : buffer;
    buffer = p.window_bytes - now;
    if (tile + 1 < place.end_tile) copy(tile + 1, buffer);
    const int n = sample_of(tile);
    const int m = position_of(tile, n) + first;
    if (count <= 0 || m >= p.positions) continue;
    bool again = false;
#pragma unroll 1
    for (int at = 0; at < p.warp_columns && m + at < p.positions; at += kThinColumns) {
      typename Products<A, kPhases, kMi>::Sums sums = {};
      products.add(first + at + now / 4, sums);
#pragma unroll
      for (int i = 0; i < kMi; ++i) {
        if (i >= count) break;
        put<T, kPhases>(p, sums[i], biases + i * kThinRowTile,
                        staged + i * p.staged_tile / static_cast<int>(sizeof(T)) + at * p.out_stride);
        again = again || any_suspicious<A>(sums[i]);
      }
    }
    __syncwarp();
    again = __any_sync(0xffffffffu, again);
    for (int i = 0; i < count; ++i) {
      const WarpTile of = {n, m, place.first_row_tile + row_tile + i, place.group};
      take_rows<T, kPhases>(p, of, staged + i * p.staged_tile / static_cast<int>(sizeof(T)));
      __syncwarp();
      if (again) repair<A>(p, of, biases + i * kThinRowTile);
    }
  }
#endif
}

template <class A>
ThinFunctions functions_of() {
  ThinFunctions f = {{{thin_kernel<A, false, 1>, nullptr}, {thin_kernel<A, true, 1>, nullptr}}};
  if constexpr (A::kParts == 1) {  // sums of two row tiles in parts are too many
    f.of_rows[0][1] = thin_kernel<A, false, 2>, f.of_rows[1][1] = thin_kernel<A, true, 2>;
  }
  return f;
}

}  // namespace tconv::cuda::sm80::thin
