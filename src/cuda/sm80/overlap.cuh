// The kernel of overlap.hpp.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/overlap_source.cuh"
#include "cuda/sm80/overlap_store.cuh"

namespace tconv::cuda::sm80::overlap {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Fragments of a stage: weights (kMi tiles of 16 rows) and x (kNi tiles of 8 columns), depth step by step.
template <class S>
class Fragments {
 public:
  using A = typename S::A;
  using T = typename S::T;

  __device__ Fragments(int first_row, int first_column) {
    const int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
      row_ = (lane / 16 * 8 + lane % 8) * S::kWeightPitch + first_row + lane / 8 % 2 * 8;
      column_ = (lane / 8 % 2 * 8 + lane % 8) * S::kXPitch + first_column + lane / 16 * 8;
    } else {
      row_ = lane % 4 * S::kWeightPitch + first_row + lane / 4;
      column_ = lane % 4 * S::kXPitch + first_column + lane / 4;
    }
  }

  // As they lie in the stage. They are rounded later, so that the loads for the next step can be under way.
  __device__ __forceinline__ void raw_weights(const T* stage, int step, uint4 (&a)[S::kMi]) const {
    const T* at = stage + row_ + step * A::kDepth * S::kWeightPitch;
#pragma unroll
    for (int i = 0; i < S::kMi; ++i, at += 16) {
      if constexpr (sizeof(T) == 2) {
        a[i] = ptx::load_matrices_transposed(ptx::shared_address(at));
      } else {
        constexpr int kHalf = 4 * S::kWeightPitch;
        a[i] = {bits(at[0]), bits(at[8]), bits(at[kHalf]), bits(at[kHalf + 8])};
      }
    }
  }
  __device__ __forceinline__ void round(const uint4 (&raw)[S::kMi], uint4 (&a)[S::kMi][A::kParts]) {
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      const uint32_t v[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
      if constexpr (sizeof(T) == 2) {
        a[i][0] = raw[i];
      } else if constexpr (A::kParts == 2) {
        for (const uint32_t u : v) small_.see(u);
        split_quickly(v[0], a[i][0].x, a[i][1].x);
        split_quickly(v[1], a[i][0].y, a[i][1].y);
        split_quickly(v[2], a[i][0].z, a[i][1].z);
        split_quickly(v[3], a[i][0].w, a[i][1].w);
      } else {
        A::operand(v, a[i]);
      }
    }
  }

  // Two tiles of columns, the j-th and the next. x comes rounded; split operands are split here.
  __device__ __forceinline__ void columns(const T* stage, int step, int j, uint2 (&b)[2][A::kParts]) const {
    const T* at = stage + column_ + step * A::kDepth * S::kXPitch + j * 8;
    if constexpr (sizeof(T) == 2) {
      const uint4 both = ptx::load_matrices_transposed(ptx::shared_address(at));
      b[0][0] = {both.x, both.y};
      b[1][0] = {both.z, both.w};
    } else {
      constexpr int kHalf = 4 * S::kXPitch;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if constexpr (A::kParts == 2) {
          split_quickly(bits(at[i * 8]), b[i][0].x, b[i][1].x);
          split_quickly(bits(at[kHalf + i * 8]), b[i][0].y, b[i][1].y);
        } else {
          b[i][0] = {bits(at[i * 8]), bits(at[kHalf + i * 8])};
        }
      }
    }
  }

  __device__ bool too_small() const {
    return small_.too_small();
  }

 private:
  __device__ static uint32_t bits(float v) {
    return __float_as_uint(v);
  }
  int row_, column_;
  Smallest small_;
};

// The block's slabs, one after another. Returns whether some operand does not fit in two parts.
template <class S, OverlapCopy kWeightCopy, OverlapCopy kXCopy>
__device__ __forceinline__ bool multiply_slabs(const OverlapParams& p, const Place& place,
                                               unsigned char* shared, int first_row, int first_column,
                                               float (&sums)[S::kMi][S::kNi][MmaAccumulator::kRegisters]) {
  using A = typename S::A;
  using T = typename S::T;
  WeightCopies<S, kWeightCopy> weights(p, place);
  XCopies<S, kXCopy> columns(p, place);
  constexpr int kX = S::kWeightBytes / sizeof(T);
  const auto stage_at = [&](int slot) { return reinterpret_cast<T*>(shared + slot * S::kStageBytes); };
  const int slabs = place.end_slab - place.first_slab;
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < slabs) {
      weights.load_next(stage_at(i));
      weights.store(stage_at(i));
    }
    ptx::copy_async_commit();
  }
  columns.load_next();
  columns.store(stage_at(0) + kX);
  Fragments<S> fragments(first_row, first_column);
  int slot = 0;
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();  // the stage is complete, and the one before it has been read
    const int free = slot == 0 ? S::kStages - 1 : slot - 1, next = slot == S::kStages - 1 ? 0 : slot + 1;
    if (slab + S::kStages - 1 < slabs) weights.load_next(stage_at(free));
    ptx::copy_async_commit();
    if (slab + 1 < slabs) columns.load_next();
    const T* stage = stage_at(slot);
    // Split operands leave no registers for the next step's.
    constexpr int kAhead = A::kParts == 1 ? 1 : 0;
    uint4 raw[1 + kAhead][S::kMi];
    if (kAhead == 1) fragments.raw_weights(stage, 0, raw[0]);
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
      uint4 a[S::kMi][A::kParts];
      if (step + kAhead < S::kSteps)
        fragments.raw_weights(stage, step + kAhead, raw[(step + kAhead) % (1 + kAhead)]);
      fragments.round(raw[step % (1 + kAhead)], a);
#pragma unroll
      for (int j = 0; j < S::kNi; j += 2) {
        uint2 b[2][A::kParts];
        fragments.columns(stage + kX, step, j, b);
#pragma unroll
        for (int i = 0; i < S::kMi; ++i) {
          multiply<A>(sums[i][j], a[i], b[0]);
          multiply<A>(sums[i][j + 1], a[i], b[1]);
        }
      }
    }
    if (slab + S::kStages - 1 < slabs) weights.store(stage_at(free));
    if (slab + 1 < slabs) columns.store(stage_at(next) + kX);
    slot = next;
  }
  return A::kParts == 2 && (fragments.too_small() || columns.too_small());
}

template <class S, OverlapCopy kWeightCopy, class... Rest>
__device__ __forceinline__ bool multiply_by_x(const OverlapParams& p, Rest&&... rest) {
  if (p.x_copy == OverlapCopy::vector) {
    return multiply_slabs<S, kWeightCopy, OverlapCopy::vector>(p, rest...);
  } else if (sizeof(typename S::T) == 4 || p.x_copy == OverlapCopy::word) {
    return multiply_slabs<S, kWeightCopy, OverlapCopy::word>(p, rest...);
  } else {
    constexpr OverlapCopy kLeast = sizeof(typename S::T) == 2 ? OverlapCopy::element : OverlapCopy::word;
    return multiply_slabs<S, kWeightCopy, kLeast>(p, rest...);
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(kOverlapThreads, 2)
    overlap_kernel(const __grid_constant__ OverlapParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using T = typename S::T;
  extern __shared__ __align__(128) unsigned char shared[];
  const Place place(p, S::kStagesOfSlab);
  const int warp = threadIdx.x / 32;
  const int first_row = warp % S::kRowWarps * S::kWarpRows;
  const int first_column = warp / S::kRowWarps * S::kWarpColumns;
  float sums[S::kMi][S::kNi][MmaAccumulator::kRegisters] = {};
  bool small;
  if (p.weight_copy == OverlapCopy::vector) {
    small = multiply_by_x<S, OverlapCopy::vector>(p, place, shared, first_row, first_column, sums);
  } else if (sizeof(T) == 4 || p.weight_copy == OverlapCopy::word) {
    small = multiply_by_x<S, OverlapCopy::word>(p, place, shared, first_row, first_column, sums);
  } else {
    constexpr OverlapCopy kLeast = sizeof(T) == 2 ? OverlapCopy::element : OverlapCopy::word;
    small = multiply_by_x<S, kLeast>(p, place, shared, first_row, first_column, sums);
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  const Products products = Products::of<S>(p, shared);
  if (p.columns_beside) {
    stage_products<S, true>(products.at, sums, first_row, first_column);
  } else {
    stage_products<S, false>(products.at, sums, first_row, first_column);
  }
  store_outputs<S>(p, place.rank, place, products, small);
#endif
}

template <class A>
OverlapFunctions functions_of() {
  return {{overlap_kernel<Shape<A, 0>>, overlap_kernel<Shape<A, 1>>, overlap_kernel<Shape<A, 2>>,
           overlap_kernel<Shape<A, 3>>, overlap_kernel<Shape<A, 4>>, overlap_kernel<Shape<A, 5>>}};
}

}  // namespace tconv::cuda::sm80::overlap
