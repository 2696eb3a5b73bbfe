// The kernel of cuda.sm90.weight; weight.hpp has its loop nest and layouts.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/sm80/weight.cuh"
#include "cuda/sm90/weight_operand.cuh"
#include "cuda/sm90/weight_product.cuh"
#include "cuda/sm90/weight_source.cuh"

namespace tconv::cuda::sm90::weight {

// What the sources need to know of a shape: ci is a column of the product here.
template <class S>
struct SourceShape {
  using Mode = typename S::Mode;
  static constexpr int kColumns = S::kN;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using sm80::weight::Column;

template <class T, int Sums>
__device__ inline void product(float (&sums)[Sums], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  if constexpr (std::is_same_v<T, float>) {
    ptx::wgmma_tf32<2 * Sums>(sums, a, b, accumulate);
  } else {
    constexpr ptx::Operand kType = std::is_same_v<T, __half> ? ptx::Operand::f16 : ptx::Operand::bf16;
    ptx::wgmma<kType, 2 * Sums>(sums, a, b, accumulate);
  }
}

template <class S>
struct Product : ProductSums<S> {
  using ProductSums<S>::sums, ProductSums<S>::accumulate;

  __device__ void multiply(const Sm90WeightParams& params, const LaneRows<S>& rows,
                           const Skew<typename S::Mode::T>& skew, int64_t stage, uint32_t slot) {
    using T = typename S::Mode::T;
    constexpr int kElement = sizeof(T);
    const WeightParams& p = params.k;
    const int steps = p.piece * kElement / kWeightStepBytes;
    uint32_t x = 0;  // byte of positions
    for (int piece = 0; piece < p.stage_pieces; ++piece) {
      const uint32_t sample = skew.of_sample(Piece(p, (stage << p.pieces_shift) + piece).n);
      const uint32_t y = slot + piece * p.piece_pitch * kElement;
      uint32_t at[S::kRowBlocks][2];
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        at[b][0] = rows.address(b, 0, y, sample);
        at[b][1] = rows.address(b, 1, y, sample);
      }
      RawOperand<typename S::Mode> raw[S::kRowBlocks];
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) raw[b].load(at[b], 0, p.stride);
      uint32_t on = 0;
#pragma unroll 1
      for (int left = steps; left > 0; --left) {
        const uint32_t block = x / kSm90WeightBlock, inside = x % kSm90WeightBlock;
        const uint64_t b_at = ptx::swizzled_descriptor(slot + block * S::kN * kSm90WeightBlock + inside);
        uint32_t a[S::kRowBlocks][4];
#pragma unroll
        for (int b = 0; b < S::kRowBlocks; ++b) raw[b].convert(a[b]);
        ptx::wgmma_fence();
#pragma unroll
        for (int b = 0; b < S::kRowBlocks; ++b) {
          product<typename S::Mode::T>(sums[b], a[b], b_at, accumulate);
        }
        ptx::wgmma_commit();
        // The next ones arrive meanwhile. None after the last step: a load that nobody uses might still be on
        // its way when the slot is released.
        if (left > 1) {
          on += p.stride * kWeightStepBytes;
#pragma unroll
          for (int b = 0; b < S::kRowBlocks; ++b) raw[b].load(at[b], on, p.stride);
        }
        ptx::wgmma_wait<0>(sums);
        x += kWeightStepBytes;
        accumulate = 1;
      }
    }
  }

  // Adds the sums to the split's part, or stores them. Returns whether one may include a product that does
  // not exist.
  __device__ bool finish(const WeightParams& p, const Place& at, int warpgroup, bool first) const {
    using Mode = typename S::Mode;
    using T = typename Mode::T;
    const int m_first = threadIdx.x % 4 * 2;
    float* part = sm80::weight::part_of<S>(p, at);
    bool again = false;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int c = LaneRows<S>::row(warpgroup, b, half);
        const Column column_at(p, at, c);
        if (!column_at.there) continue;
#pragma unroll
        for (int j = 0; j < S::kN / 8; ++j) {
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const int m = j * 8 + m_first + side;
            if (at.row + m >= p.cin_group) continue;
            const float v = sums[b][4 * j + 2 * half + side];
            again = again || sm80::weight::suspicious<Mode>(v);
            if (p.direct) {
              static_cast<T*>(p.output)[column_at.output(p, at, m)] = narrow<T>(v);
            } else {
              float* to = part + m * S::kColumns + c;
              *to = first ? v : *to + v;
            }
          }
        }
      }
    }
    return again;
  }
};

// Recomputes the thread's suspicious sums over all chains.
template <class S>
__device__ __noinline__ void repair(const WeightParams& p, int warpgroup, int64_t first, int64_t end) {
  const Place at = sm80::weight::place_of(p, S::kRows);
#pragma unroll 1
  for (int e = 0; e < S::kRowBlocks * S::kN / 2; ++e) {
    const int b = e / (S::kN / 2), i = e % (S::kN / 2);
    const int c = LaneRows<S>::row(warpgroup, b, i / 2 % 2), m = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    sm80::weight::repair_sum<S>(p, at, c, m, first, end);
  }
}

template <class S>
__device__ inline void bring(const Sm90WeightParams& params, const Place& at, const RingBarriers& barriers,
                             uint32_t slots, int64_t first, int64_t end) {
  const WeightParams& p = params.k;
  const SourceX<SourceShape<S>> x(params, at);
  const SourceY<SourceShape<S>> y(p, at, threadIdx.x);
  RingPlace place;
  for (int64_t stage = first; stage < end; ++stage) {
    const uint32_t slot = slots + place.at * p.slot_bytes, full = barriers.full(place.at);
    ptx::barrier_wait(barriers.empty(place.at), place.parity ^ 1);
    if (!params.tensor) {
      x.copy_elements(stage, slot, threadIdx.x);
      ptx::fence_async();
    } else if (threadIdx.x == 0) {
      x.copy_tensor(stage, slot, full);
    }
    y.copy(stage, slot + params.x_bytes);
    ptx::copy_async_arrive(full);
    ptx::barrier_arrive(full);  // for what was stored element by element
    place.advance(params.slots);
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
}

template <class S>
__device__ inline void multiply(const Sm90WeightParams& params, const Place& at, const RingBarriers& barriers,
                                uint32_t slots, int64_t first, int64_t end) {
  const WeightParams& p = params.k;
  const int warpgroup = threadIdx.x / 128 - 1;
  const LaneRows<S> rows(params, warpgroup);
  const Skew<typename S::Mode::T> skew(p, at);
  Product<S> product;
  product.clear();
  RingPlace place;
  int64_t chain_first = first;
  bool again = false;
  for (int64_t stage = first; stage < end; ++stage) {
    ptx::barrier_wait(barriers.full(place.at), place.parity);
    product.multiply(params, rows, skew, stage, slots + place.at * p.slot_bytes);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(barriers.empty(place.at));
    place.advance(params.slots);
    if (stage + 1 - chain_first == p.chain && stage + 1 < end) {
      again |= product.finish(p, at, warpgroup, chain_first == first);
      product.accumulate = 0;
      chain_first = stage + 1;
    }
  }
  again |= product.finish(p, at, warpgroup, chain_first == first);
  if (again) repair<S>(p, warpgroup, first, end);
}

#endif

template <class S>
__global__ void __launch_bounds__(kSm90WeightThreads, 1) kernel(const __grid_constant__ Sm90WeightParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared) + kSm90WeightBarriers;
  const RingBarriers barriers{ptx::shared_address(shared), p.slots};
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.slots; ++i) {
      ptx::barrier_init(barriers.full(i), 2 * kSm90WeightProducers + (p.tensor ? 1 : 0));
      ptx::barrier_init(barriers.empty(i), 4 * kSm90WeightWarpgroups);
    }
    ptx::barrier_init_done();
  }
  __syncthreads();
  const Place at = sm80::weight::place_of(p.k, S::kRows);
  const int64_t first = int64_t{p.k.stages} * at.split / p.k.splits;
  const int64_t end = int64_t{p.k.stages} * (at.split + 1) / p.k.splits;
  if (threadIdx.x < kSm90WeightProducers) {
    ptx::fewer_registers<40>();
    bring<S>(p, at, barriers, slots, first, end);
  } else {
    ptx::more_registers<232>();
    multiply<S>(p, at, barriers, slots, first, end);
  }
#endif
}

template <class Mode>
Sm90WeightFunctions functions_of() {
  return {{kernel<Shape<Mode, 3, 128>>, kernel<Shape<Mode, 1, 128>>, kernel<Shape<Mode, 3, 64>>}};
}

}  // namespace tconv::cuda::sm90::weight
