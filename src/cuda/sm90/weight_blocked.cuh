// The main kernel of cuda.sm90.weight_blocked; weight_blocked.hpp has its loop nest and layouts.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/ptx/sm90_operands.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/sm90/weight_blocked_parts.cuh"
#include "cuda/sm90/weight_blocked_sums.cuh"
#include "cuda/sm90/weight_product.cuh"

namespace tconv::cuda::sm90::weight_blocked {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A slot: [part][row block][...] of x, then [part] of dy. Row blocks and planes that do not exist keep
// whatever is there: nothing uses their sums.
template <class S>
__device__ inline void bring(const Sm90WeightBlockedParams& p, const Place& at, const RingBarriers& barriers,
                             uint32_t slots, int first, int end) {
  constexpr int kBlockBytes = 64 * S::kRowBytes / S::kParts, kPlaneBytes = S::kRowBytes / S::kParts;
  constexpr bool kUnits = S::Mode::kPlanes > 1;
  const int there = min(2 * S::kRowBlocks, p.row_blocks - at.row_block);
  const uint32_t bytes = S::kParts * (there * p.x_box + p.y_box) * kPlaneBytes;
  RingPlace place;
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    const uint32_t slot = slots + place.at * p.slot_bytes, full = barriers.full(place.at);
    ptx::barrier_wait(barriers.empty(place.at), place.parity ^ 1);
    ptx::barrier_arrive_expect(full, bytes);
    const int position = stage * S::kPositions;
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
      // Sixteen bytes of a row of 8 planes are two elements of the map.
#pragma unroll
      for (int b = 0; b < 2 * S::kRowBlocks; ++b) {
        if (b >= there) break;
        const RowBlock rows(p, at.row_block + b);
        const int i = p.front + position - rows.tap * p.shift;
        const int from[4] = {kUnits ? 2 * i : i, rows.plane / S::Mode::kPlanes, part, at.group};
        ptx::tensor_load(slot + (part * 2 * S::kRowBlocks + b) * kBlockBytes, &p.x_map, from, full);
      }
      const int from[4] = {kUnits ? 2 * position : position, at.column / S::Mode::kPlanes, part, at.group};
      ptx::tensor_load(slot + S::kRows * S::kRowBytes + part * S::kN * kPlaneBytes, &p.y_map, from, full);
    }
    place.advance(p.slots);
  }
}

template <class S>
__device__ inline uint64_t descriptor(uint32_t at) {
  if constexpr (S::Mode::kPlanes == 1) {
    return ptx::swizzled_descriptor(at);
  } else {
    return ptx::matrix_descriptor(at, 128, S::kPositions * 16);
  }
}

// Bytes from 32 bytes of a row's depth to the next ones.
template <class S>
inline constexpr int kStepBytes = S::Mode::kPlanes == 1 ? 32 : 256;

template <class S>
struct Product : ProductSums<S> {
  using ProductSums<S>::sums, ProductSums<S>::accumulate;
  static constexpr int kBlockBytes = 64 * S::kRowBytes / S::kParts;

  // Of parts x_part and y_part.
  __device__ void multiply(uint32_t slot, int warpgroup, int x_part, int y_part) {
    constexpr int kSteps = S::kRowBytes / S::kParts / 32;
    const uint32_t x = slot + (x_part * 2 + warpgroup) * S::kRowBlocks * kBlockBytes;
    const uint32_t y = slot + S::kRows * S::kRowBytes + y_part * S::kN * (S::kRowBytes / S::kParts);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        ptx::wgmma_along_depth<S::kType, S::kN>(
            sums[b], descriptor<S>(x + b * kBlockBytes + step * kStepBytes<S>),
            descriptor<S>(y + step * kStepBytes<S>), step == 0 ? accumulate : 1);
      }
      accumulate = 1;
    }
  }
};

// Operands of one part: sums accumulate over a chain of stages.
template <class S>
__device__ inline void multiply(const Sm90WeightBlockedParams& p, const Place& at,
                                const RingBarriers& barriers, uint32_t slots, int first, int end) {
  const int warpgroup = threadIdx.x / 128 - 1;
  Product<S> product;
  product.clear();
  RingPlace place;
  int stage = first;
#pragma unroll 1
  do {
    const int chain_first = stage, chain_end = min(end, stage + p.chain);
    product.accumulate = 0;
    int before = -1;
#pragma unroll 1
    for (; stage < chain_end; ++stage) {
      ptx::barrier_wait(barriers.full(place.at), place.parity);
      ptx::wgmma_fence();
      product.multiply(slots + place.at * p.slot_bytes, warpgroup, 0, 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();  // waits for the stage before, whose slot is then free
      if (before >= 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(barriers.empty(before));
      before = place.at;
      place.advance(p.slots);
    }
    ptx::wgmma_wait<0>(product.sums);
    if (before >= 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(barriers.empty(before));
    if (stage >= end) {
      ptx::named_barrier(1, 256);  // the other warpgroup may still read a slot, and sums are staged there
      store_last<S>(p, at, warpgroup, product.sums, chain_first == first && p.chunk == 0, slots);
    } else {
      store_part<S>(p, at, warpgroup, product.sums, chain_first == first && p.chunk == 0);
    }
  } while (stage < end);
}

// Operands of several parts: the sums of a stage, products of low parts first, are added to a total.
template <class S>
__device__ inline void multiply_parts(const Sm90WeightBlockedParams& p, const Place& at,
                                      const RingBarriers& barriers, uint32_t slots, int first, int end) {
  static_assert(S::kParts > 1 && S::kRowBlocks == 1);
  const int warpgroup = threadIdx.x / 128 - 1;
  Product<S> product;
  float total[1][S::kN / 2];
  product.clear();
#pragma unroll
  for (int i = 0; i < S::kN / 2; ++i) total[0][i] = 0;
  RingPlace place;
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    const uint32_t slot = slots + place.at * p.slot_bytes;
    ptx::barrier_wait(barriers.full(place.at), place.parity);
    product.accumulate = 0;
#pragma unroll
    for (int places = S::kParts - 1; places >= 0; --places) {
      ptx::wgmma_fence();
#pragma unroll
      for (int part = 0; part <= places; ++part) product.multiply(slot, warpgroup, part, places - part);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(product.sums);
      if (places == 0) break;
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) product.sums[0][i] *= S::Mode::kDown;
    }
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(barriers.empty(place.at));
    place.advance(p.slots);
#pragma unroll
    for (int i = 0; i < S::kN / 2; ++i) total[0][i] += product.sums[0][i];
  }
  ptx::named_barrier(1, 256);  // the other warpgroup may still read a slot, and sums are staged there
  store_last<S>(p, at, warpgroup, total, p.chunk == 0, slots);
}

#endif

template <class S>
__global__ void __launch_bounds__(kSm90WeightBlockedThreads, 1)
    kernel(const __grid_constant__ Sm90WeightBlockedParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared) + kSm90WeightBlockedBarriers;
  const RingBarriers barriers{ptx::shared_address(shared), p.slots};
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.slots; ++i) {
      ptx::barrier_init(barriers.full(i), 1);
      ptx::barrier_init(barriers.empty(i), 2);
    }
    ptx::barrier_init_done();
  }
  __syncthreads();
  const Place at(p, S::kRowBlocks, S::kN);
  const int first = static_cast<int>(int64_t{p.stages} * at.split / p.splits);
  const int end = static_cast<int>(int64_t{p.stages} * (at.split + 1) / p.splits);
  constexpr int kMost = 232, kLeast = 40;
  static_assert(
      ptx::registers_suffice(kSm90WeightBlockedThreads, kSm90WeightBlockedThreads - 128, kMost, kLeast));
  if (threadIdx.x < 128) {
    ptx::fewer_registers<kLeast>();
    if (threadIdx.x < 32 && ptx::elect_one()) bring<S>(p, at, barriers, slots, first, end);
  } else {
    ptx::more_registers<kMost>();
    if constexpr (S::kParts == 1) {
      multiply<S>(p, at, barriers, slots, first, end);
    } else {
      multiply_parts<S>(p, at, barriers, slots, first, end);
    }
  }
#endif
}

template <class Mode, int I = 0>
void set_shapes(Sm90WeightBlockedFunctions& f) {
  constexpr Sm90WeightBlockedShape kShape = kSm90WeightBlockedShapeTable[I];
  if constexpr (weight_blocked_has(Mode::kMode, I)) {
    f.shapes[I] = kernel<Shape<Mode, kShape.row_blocks, kShape.columns>>;
  }
  if constexpr (I + 1 < kSm90WeightBlockedShapes) set_shapes<Mode, I + 1>(f);
}

template <class Mode>
Sm90WeightBlockedFunctions functions_of() {
  Sm90WeightBlockedFunctions f{};
  set_shapes<Mode>(f);
  if constexpr (Mode::kScaled) f.look = look_kernel<typename Mode::Word>;
  f.pass = pass_kernel<Mode>;
  f.sum = sum_kernel<typename Mode::T, false>;
  f.sum_lines = sum_lines_kernel<typename Mode::T>;
  return f;
}

}  // namespace tconv::cuda::sm90::weight_blocked
