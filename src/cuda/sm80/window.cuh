// The kernel of window.hpp.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/raw_operands.cuh"
#include "cuda/sm80/window_source.cuh"
#include "cuda/sm80/window_store.cuh"

namespace tconv::cuda::sm80::window {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Where in a window, in bytes, the elements of a slab lie: for each step and lane%4, those that the words of
// B hold. Elements beyond the slab meet weights of zero, so any place is good for them; so it is for the
// steps that are loaded ahead.
template <class T>
inline constexpr int kLaneElements = sizeof(T) == 2 ? 4 : 2;

template <class T>
__device__ inline void fill_table(const WindowParams& p, int* table) {
  constexpr int kEach = kLaneElements<T>;
  for (int i = threadIdx.x; i < (p.steps + kWindowStepsAhead) * 4 * kEach; i += kWindowThreads) {
    const int step = i / (4 * kEach), t = i / kEach % 4, r = i % kEach;
    const int e = sizeof(T) == 2 ? step * 16 + 2 * t + r % 2 + r / 2 * 8 : step * 8 + t + r * 4;
    const int channel = static_cast<int>(p.taps_div.divide(e)), tap = e - channel * p.taps;
    table[i] = channel < p.channels
                   ? (channel * p.window_pitch + tap * p.dilation) * static_cast<int>(sizeof(T))
                   : 0;
  }
}

// Fragments and products of a warp's tile.
template <class S>
class Warp {
 public:
  using A = typename S::A;
  using T = typename S::T;
  using Sums = float[S::kMi][S::kNi][MmaAccumulator::kRegisters];

  __device__ Warp(const WindowParams& p, const Place& place, int first_q)
      : first_row(static_cast<int>(threadIdx.x) / 32 / S::kTile.column_warps * S::kTile.warp_rows()),
        first_column(static_cast<int>(threadIdx.x) / 32 % S::kTile.column_warps * S::kTile.warp_columns()) {
    const int lane = threadIdx.x % 32;
    weight_ = (first_row + lane % 16) * p.weight_pitch + lane / 16 * 16;
    row_pitch_ = 16 * p.weight_pitch;
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      const int column = place.column_tile * S::kColumns + first_column + j * 8 + lane / 4;
      const int q = DyCopies<S>::place_of(p, min(column, p.columns - 1)) - first_q;
      column_[j] = p.window_at + q * static_cast<int>(sizeof(T));
    }
    row_tiles_ = min(S::kMi, max(0, (place.rows - first_row + 15) / 16));
  }

  // While a step is multiplied, the fragments of the next are on their way (after the last, any).
  __device__ __forceinline__ void multiply_slab(const unsigned char* stage, const int* table, int steps,
                                                Sums& sums) {
    if (row_tiles_ == 0) return;
    const Entry* entries = reinterpret_cast<const Entry*>(table) + threadIdx.x % 4;
    const unsigned char* weights = stage + weight_;
    Raw raw[2];
    Entry at = entries[0];
    load(stage, weights, at, raw[0]);
    at = entries[4];
#pragma unroll 1
    for (int step = 0; step < steps; step += 2) {
      load(stage, weights + kWindowStepBytes, at, raw[1]);
      at = entries[8];
      multiply_step(raw[0], sums);
      if (step + 1 == steps) break;
      weights += 2 * kWindowStepBytes;
      load(stage, weights, at, raw[0]);
      at = entries[12];
      entries += 8;
      multiply_step(raw[1], sums);
    }
  }

  __device__ bool has_unfit() const {
    return unfit_.any();
  }

  const int first_row, first_column;

 private:
  using Entry = std::conditional_t<sizeof(T) == 2, int4, int2>;
  // As they lie in the stage.
  struct Raw {
    uint4 a[S::kMi];
    uint32_t b[S::kNi][kLaneElements<T>];
  };
  __device__ __forceinline__ void load(const unsigned char* stage, const unsigned char* weights,
                                       const Entry& at, Raw& raw) const {
    using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      raw.a[i] = ptx::load_matrices(ptx::shared_address(weights + i * row_pitch_));
    }
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      const unsigned char* column = stage + column_[j];
      raw.b[j][0] = *reinterpret_cast<const Word*>(column + at.x);
      raw.b[j][1] = *reinterpret_cast<const Word*>(column + at.y);
      if constexpr (sizeof(T) == 2) {
        raw.b[j][2] = *reinterpret_cast<const Word*>(column + at.z);
        raw.b[j][3] = *reinterpret_cast<const Word*>(column + at.w);
      }
    }
  }

  __device__ __forceinline__ void multiply_step(const Raw& raw, Sums& sums) {
    uint2 b[S::kNi][A::kParts];
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      if constexpr (sizeof(T) == 2) {
        b[j][0] = {__byte_perm(raw.b[j][0], raw.b[j][1], 0x5410),
                   __byte_perm(raw.b[j][2], raw.b[j][3], 0x5410)};
      } else {
        prepare_column<A>(raw.b[j][0], raw.b[j][1], unfit_, b[j]);
      }
    }
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      if (S::kMi > 2 && i >= row_tiles_) break;
      uint4 a[A::kParts];
      if constexpr (sizeof(T) == 2) {
        a[0] = raw.a[i];
      } else {
        prepare_weights<A>(raw.a[i], unfit_, a);
      }
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) multiply<A>(sums[i][j], a, b[j]);
    }
  }

  int weight_, row_pitch_, row_tiles_;
  int column_[S::kNi];
  Unfit<A> unfit_;
};

#endif

template <class S>
__global__ void __launch_bounds__(kWindowThreads, S::kRows* S::kColumns > 4096 ? 3 : 4)
    window_kernel(const __grid_constant__ WindowParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using T = typename S::T;
  extern __shared__ __align__(128) unsigned char shared[];
  const Place place(p, S::kRows);
  const WeightCopies<S> weights(p, place);
  const DyCopies<S> windows(p, place);
  const auto load = [&](int slab, int slot) {
    if (slab < place.end_slab) {
      const Slab of(p, slab);
      unsigned char* stage = shared + slot * p.stage_bytes;
      weights.load(p, of, stage);
      windows.load(p, of, stage);
    }
    ptx::copy_async_commit();
  };
  if (place.rows < S::kRows) {
    weights.clear(p, shared, min(p.stages, place.end_slab - place.first_slab));
  }
#pragma unroll 1
  for (int i = 0; i < p.stages - 1; ++i) load(place.first_slab + i, i);
  int* const table = reinterpret_cast<int*>(shared + p.table_at);
  fill_table<T>(p, table);

  Warp<S> warp(p, place, windows.first());
  typename Warp<S>::Sums sums = {};
  int slot = 0;
#pragma unroll 1
  for (int slab = place.first_slab; slab < place.end_slab; ++slab) {
    wait_for_stage(p.stages);
    __syncthreads();  // the stage is complete, and the one before it has been read
    load(slab + p.stages - 1, slot == 0 ? p.stages - 1 : slot - 1);
    const int steps = (Slab(p, slab).elements + S::A::kDepth - 1) / S::A::kDepth;
    warp.multiply_slab(shared + slot * p.stage_bytes, table, steps, sums);
    slot = slot == p.stages - 1 ? 0 : slot + 1;
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  float* const staged = reinterpret_cast<float*>(shared);
  bool unsure = false;
#pragma unroll
  for (int i = 0; i < S::kMi; ++i) unsure = unsure | any_unsure<S>(sums[i]);
  stage_sums<S>(staged, sums, warp.first_row, warp.first_column);
  if (__syncthreads_or(unsure || warp.has_unfit())) {
    repair<S>(p, place, staged, __syncthreads_or(warp.has_unfit()));
    __syncthreads();
  }
  store_outputs<S>(p, place, staged);
#endif
}

template <class A>
WindowFunctions functions_of() {
  return {{window_kernel<Shape<A, 0>>, window_kernel<Shape<A, 1>>, window_kernel<Shape<A, 2>>,
           window_kernel<Shape<A, 3>>, window_kernel<Shape<A, 4>>, window_kernel<Shape<A, 5>>}};
}

}  // namespace tconv::cuda::sm80::window
