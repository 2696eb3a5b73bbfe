// The kernel of pointwise.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/pointwise_store.cuh"

namespace tconv::cuda::sm80::pointwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Fragments and products of a warp's tile.
template <class S>
class Warp {
 public:
  using A = typename S::A;
  using Sums = float[S::kMi][S::kNi][MmaAccumulator::kRegisters];
  static constexpr bool kWide = S::kElement == 4;

  __device__ Warp()
      : first_row(static_cast<int>(threadIdx.x) / 32 / S::kTile.column_warps * S::kTile.warp_rows()),
        first_column(static_cast<int>(threadIdx.x) / 32 % S::kTile.column_warps * S::kTile.warp_columns()) {
    const int lane = threadIdx.x % 32, quad = lane / 4, t = lane % 4;
    // Of matrices of 8 rows x 16 bytes, a lane addresses row lane%8 of matrix lane/8.
    if constexpr (kWide) {
      x_ = S::kXAt + t * S::kXPitch + (first_column + quad) * 4;
    } else {
      x_ = S::kXAt + lane % 16 * S::kXPitch + (first_column + lane / 16 * 8) * 2;
    }
    if constexpr (!S::kTurned) {
      weight_ = (first_row + lane % 16) * S::kWeightPitch + lane / 16 * 16;
    } else if constexpr (kWide) {
      weight_ = t * S::kWeightPitch + (first_row + quad) * 4;
    } else {
      weight_ = (lane / 16 * 8 + lane % 8) * S::kWeightPitch + (first_row + lane / 8 % 2 * 8) * 2;
    }
  }

  __device__ __forceinline__ void multiply_slab(uint32_t stage, int steps, Sums& sums) {
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
      if (step >= steps) break;
      multiply_step(stage, step, sums);
    }
  }

  __device__ bool has_unfit() const {
    return unfit_.any();
  }

  const int first_row, first_column;

 private:
  __device__ __forceinline__ void multiply_step(uint32_t stage, int step, Sums& sums) {
    uint2 b[S::kNi][A::kParts];
    load_x(stage + x_ + step * A::kDepth * S::kXPitch, b);
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      uint4 a[A::kParts];
      load_weights(stage + weight_, step, i, a);
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) multiply<A>(sums[i][j], a, b[j]);
    }
  }

  __device__ __forceinline__ void load_x(uint32_t at, uint2 (&b)[S::kNi][A::kParts]) {
    if constexpr (kWide) {
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) {
        const uint32_t low = ptx::load_shared4(at + j * 32);
        const uint32_t high = ptx::load_shared4(at + j * 32 + 4 * S::kXPitch);
        prepare_column<A>(low, high, unfit_, b[j]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < S::kNi; j += 2) {
        const uint4 v = ptx::load_matrices_transposed(at + j * 16);
        b[j][0] = {v.x, v.y};
        b[j + 1][0] = {v.z, v.w};
      }
    }
  }

  __device__ __forceinline__ uint4 raw_weights(uint32_t at, int step, int i) const {
    if constexpr (!S::kTurned) {
      return ptx::load_matrices(at + i * 16 * S::kWeightPitch + step * 32);
    } else if constexpr (kWide) {
      const uint32_t from = at + step * A::kDepth * S::kWeightPitch + i * 64;
      return {ptx::load_shared4(from), ptx::load_shared4(from + 32),
              ptx::load_shared4(from + 4 * S::kWeightPitch),
              ptx::load_shared4(from + 4 * S::kWeightPitch + 32)};
    } else {
      return ptx::load_matrices_transposed(at + step * A::kDepth * S::kWeightPitch + i * 32);
    }
  }

  __device__ __forceinline__ void load_weights(uint32_t at, int step, int i, uint4 (&a)[A::kParts]) {
    const uint4 raw = raw_weights(at, step, i);
    if constexpr (kWide) {
      prepare_weights<A>(raw, unfit_, a);
    } else {
      a[0] = raw;
    }
  }

  uint32_t x_, weight_;
  Unfit<A> unfit_;
};

#endif

template <class S>
__global__ void __launch_bounds__(kPointwiseThreads, S::kTile.blocks)
    pointwise_kernel(const __grid_constant__ PointwiseParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t stages = ptx::shared_address(shared);
  const Place place(p, S::kRows, S::kColumns);
  const Source<S> source(p, place);
  const auto load = [&](int slab, int slot) {
    if (slab < place.end_slab) source.load(p, place, slab, stages + slot * S::kStageBytes);
    ptx::copy_async_commit();
  };
#pragma unroll 1
  for (int i = 0; i < p.stages - 1; ++i) load(place.first_slab + i, i);
  Warp<S> warp;
  typename Warp<S>::Sums sums = {};
  int slot = 0;
#pragma unroll 1
  for (int slab = place.first_slab; slab < place.end_slab; ++slab) {
    wait_for_stage(p.stages);
    __syncthreads();  // the stage is complete, and the one before it has been read
    if constexpr (S::kElement == 2) {
      if (p.x_shifted) {
        source.straighten(p, slab, shared + slot * S::kStageBytes);
        __syncthreads();
      }
    }
    load(slab + p.stages - 1, slot == 0 ? p.stages - 1 : slot - 1);
    const int steps = (source.channels(p, slab) + S::A::kDepth - 1) / S::A::kDepth;
    warp.multiply_slab(stages + slot * S::kStageBytes, steps, sums);
    slot = slot == p.stages - 1 ? 0 : slot + 1;
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  float* const staged = reinterpret_cast<float*>(shared);
  stage_sums<S>(staged, sums, warp.first_row, warp.first_column);
  if constexpr (S::kElement == 4) {
    const bool all = __syncthreads_or(warp.has_unfit());
    if (__syncthreads_or(all || any_infinite(sums))) {
      repair<S>(p, staged, all);
      __syncthreads();
    }
  } else {
    __syncthreads();
  }
  store_outputs<S>(p, place, staged);
#endif
}

template <class A, bool kTurned, int... kTiles>
void set_tiles(PointwiseFunctions& functions, std::integer_sequence<int, kTiles...>) {
  ((functions.tiles[kTurned][kTiles] = pointwise_kernel<Shape<A, kTiles, kTurned>>), ...);
}

template <class A>
PointwiseFunctions functions_of() {
  PointwiseFunctions functions;
  set_tiles<A, false>(functions, std::make_integer_sequence<int, kPointwiseTileCount>());
  set_tiles<A, true>(functions, std::make_integer_sequence<int, kPointwiseTileCount>());
  return functions;
}

}  // namespace tconv::cuda::sm80::pointwise
