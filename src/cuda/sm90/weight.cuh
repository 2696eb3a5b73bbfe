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

// What a warp stages of its sums: 16 columns of 16 rows, so far apart that lanes store into all banks.
constexpr int kStagedColumns = 16, kStagedPitch = 20;
static_assert(kStagedColumns * kStagedPitch * 4 * 4 * kSm90WeightWarpgroups == kSm90WeightStaging);

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
#pragma unroll
        for (int b = 0; b < S::kRowBlocks; ++b) {
          ptx::wgmma_fence();  // for each: ptxas moves the conversion of the others behind the first wgmma
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

  // Adds the sums to the split's part, or stores them: 16 rows of the product by 16 columns at a time go
  // through the warp's `staging`, so that a lane has one row, whose place in dw it keeps, and 16 lanes store
  // side by side. Stored straight from registers, each of a lane's 192 sums takes code of its own, and a
  // block with few stages waits for that code (n1 ci1024 co512 l28 k8 s4 in tf32, H200: 70 us of one stage).
  // Returns whether a sum of the warp may include a product that does not exist.
  __device__ bool finish(const WeightParams& p, const Place& at, int warpgroup, bool first,
                         uint32_t staging) const {
    using Mode = typename S::Mode;
    using T = typename Mode::T;
    const int lane = threadIdx.x % 32, begin = lane / 16;
    const int columns = min(S::kN, p.cin_group - at.row);
    const int64_t step =
        p.direct ? int64_t{2} * p.cout_group * p.k * sizeof(T) : 2 * S::kColumns * sizeof(float);
    const uint32_t to = staging + (lane % 4 * 2 * kStagedPitch + lane / 4) * 4;
    const uint32_t from = staging + (begin * kStagedPitch + lane % 16) * 4;
    bool again = false;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
      char* out;
      int left;  // columns that the lane's row has from here on
      {
        const int c = LaneRows<S>::row(warpgroup, b, 0) - lane / 4 + lane % 16;
        const Column column_at(p, at, c);
        left = column_at.there ? columns - begin : 0;
        out = p.direct ? reinterpret_cast<char*>(static_cast<T*>(p.output) + column_at.output(p, at, begin))
                       : reinterpret_cast<char*>(sm80::weight::part_of<S>(p, at) + begin * S::kColumns + c);
      }
#pragma unroll
      for (int first_column = 0; first_column < S::kN; first_column += kStagedColumns) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kStagedColumns / 2; ++i) {
          const int place = (i / 4 * 8 + i % 2) * kStagedPitch + i / 2 % 2 * 8;
          ptx::store_shared4(to + place * 4, __float_as_uint(sums[b][first_column / 2 + i]));
        }
        __syncwarp();
#pragma unroll 1
        for (int m = 0; m < min(kStagedColumns, left); m += 2) {
          const float v = __uint_as_float(ptx::load_shared4(from + m * kStagedPitch * 4));
          again |= sm80::weight::suspicious<Mode>(v);
          if (p.direct) {
            *reinterpret_cast<T*>(out) = narrow<T>(v);
          } else {
            auto* part = reinterpret_cast<float*>(out);
            *part = first ? v : *part + v;
          }
          out += step;
        }
        left -= kStagedColumns;
      }
    }
    return __any_sync(~0u, again);
  }
};

// Recomputes the thread's suspicious sums over all chains, once its warp has stored all.
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
  const uint32_t staging = slots - kSm90WeightStaging +
                           (threadIdx.x - kSm90WeightProducers) / 32 * (kStagedColumns * kStagedPitch * 4);
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
      again |= product.finish(p, at, warpgroup, chain_first == first, staging);
      product.accumulate = 0;
      chain_first = stage + 1;
    }
  }
  again |= product.finish(p, at, warpgroup, chain_first == first, staging);
  __syncwarp();
  if (again) repair<S>(p, warpgroup, first, end);
}

#endif

template <class S>
__global__ void __launch_bounds__(kSm90WeightThreads, 1) kernel(const __grid_constant__ Sm90WeightParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared) + kSm90WeightHead;
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
  constexpr int kMost = 232, kLeast = 40;
  static_assert(
      ptx::registers_suffice(kSm90WeightThreads, kSm90WeightThreads - kSm90WeightProducers, kMost, kLeast));
  if (threadIdx.x < kSm90WeightProducers) {
    ptx::fewer_registers<kLeast>();
    bring<S>(p, at, barriers, slots, first, end);
  } else {
    ptx::more_registers<kMost>();
    multiply<S>(p, at, barriers, slots, first, end);
  }
#endif
}

template <class Mode>
Sm90WeightFunctions functions_of() {
  return {{kernel<Shape<Mode, 3, 128>>, kernel<Shape<Mode, 1, 128>>, kernel<Shape<Mode, 3, 64>>,
           kernel<Shape<Mode, 3, 32>>}};
}

}  // namespace tconv::cuda::sm90::weight
