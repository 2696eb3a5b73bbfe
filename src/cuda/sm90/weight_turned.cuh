// The main kernel of cuda.sm90.weight_turned; weight_turned.hpp has its loop nest.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_blocked_parts.cuh"
#include "cuda/sm90/weight_blocked_sums.cuh"
#include "cuda/sm90/weight_product.cuh"
#include "cuda/sm90/weight_turner.cuh"

namespace tconv::cuda::sm90::weight_turned {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::Place;
using weight_blocked::store_last;
using weight_blocked::store_part;

template <class S>
struct Product : ProductSums<S> {
  using ProductSums<S>::sums, ProductSums<S>::accumulate;
  uint32_t x_at[S::kRowBlocks];  // in a slot, of a row block's x planes at the stage's first position
  uint32_t x_rows, y_rows;       // bytes from 8 planes to the next

  __device__ Product(const Sm90WeightTurnedParams& p, const Place& at, const TileTaps& taps, int warpgroup)
      : x_rows(p.x_raw.pitch * 16), y_rows(p.y_raw.pitch * 16) {
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
      const int block = at.row_block + warpgroup * S::kRowBlocks + b;
      x_at[b] = block < p.row_blocks ? planes_of(p, taps, block) : 0;
    }
    this->clear();
  }

  // Of parts x_part and y_part, a stage.
  __device__ void multiply(const Sm90WeightTurnedParams& p, uint32_t slot, int x_part, int y_part) {
    constexpr int kStepBytes = 256;
    const uint32_t x = slot + x_part * p.part_bytes, y = slot + y_part * p.part_bytes + p.y_at;
#pragma unroll
    for (int step = 0; step < S::kPositions / 16; ++step) {
      const uint64_t columns = ptx::matrix_descriptor(y + step * kStepBytes, 128, y_rows);
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        ptx::wgmma_along_depth<S::kType, S::kN>(
            sums[b], ptx::matrix_descriptor(x + x_at[b] + step * kStepBytes, 128, x_rows), columns,
            step == 0 ? accumulate : 1);
      }
    }
    accumulate = 1;
  }
};

// Operands of one part: sums accumulate over a chain of stages.
template <class S>
__device__ inline void multiply(const Sm90WeightTurnedParams& p, const Place& at, const TileTaps& taps,
                                const RingBarriers& barriers, uint32_t slots, int first, int end) {
  const int warpgroup = threadIdx.x / 128;
  Product<S> product(p, at, taps, warpgroup);
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
      product.multiply(p, slots + place.at * p.slot_bytes, 0, 0);
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
      store_last<S>(p, at, warpgroup, product.sums, chain_first == first, slots);
    } else {
      store_part<S>(p, at, warpgroup, product.sums, chain_first == first);
    }
  } while (stage < end);
}

// Operands of three parts: the sums of a stage, products of low parts first, are added to a total.
template <class S>
__device__ inline void multiply_parts(const Sm90WeightTurnedParams& p, const Place& at, const TileTaps& taps,
                                      const RingBarriers& barriers, uint32_t slots, int first, int end) {
  const int warpgroup = threadIdx.x / 128;
  Product<S> product(p, at, taps, warpgroup);
  ProductSums<S> total;
  total.clear();
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
      for (int part = 0; part <= places; ++part) product.multiply(p, slot, part, places - part);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(product.sums);
      if (places == 0) break;
      product.scale(S::Mode::kDown);
    }
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(barriers.empty(place.at));
    place.advance(p.slots);
    total.add(product);
  }
  ptx::named_barrier(1, 256);  // the other warpgroup may still read a slot, and sums are staged there
  store_last<S>(p, at, warpgroup, total.sums, true, slots);
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) kernel(const __grid_constant__ Sm90WeightTurnedParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t barriers = ptx::shared_address(shared), slots = barriers + kSm90WeightTurnedHead;
  const RingBarriers of_slots{barriers, p.slots}, of_pieces{barriers + 16 * p.slots, p.pieces};
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.slots; ++i) {
      ptx::barrier_init(of_slots.full(i), S::kTurners);
      ptx::barrier_init(of_slots.empty(i), 2);
    }
    for (int i = 0; i < p.pieces; ++i) {
      ptx::barrier_init(of_pieces.full(i), 1);
      ptx::barrier_init(of_pieces.empty(i), 1);
    }
    ptx::barrier_init_done();
  }
  const Place at(p, S::kRowBlocks, S::kN);
  const TileTaps taps(p, at, S::kRowBlocks);
  const TileUnits<S> units(p, at, taps);
  const Pieces pieces = make_pieces<S>(p, units, shared + kSm90WeightTurnedBarriers);
  const int first = static_cast<int>(int64_t{p.stages} * at.split / p.splits);
  const int end = static_cast<int>(int64_t{p.stages} * (at.split + 1) / p.splits);
  __syncthreads();
  if (threadIdx.x >= 256) {
    ptx::fewer_registers<S::kProducer>();
    const uint32_t ring = slots + p.slots * p.slot_bytes;
    const int warp = threadIdx.x / 32 - 8;
    if (warp < S::kTurners) {
      Turner<S> turner(p, at, units.x.planes, pieces, ring, of_pieces, slots, warp);
      turner.run(of_slots, slots, first, end);
      if constexpr (S::kSumsY) turner.finish(at, slots);
    } else if (ptx::elect_one()) {
      copy_pieces<S>(p, at, pieces, ring, of_pieces, first, end);
    }
  } else {
    ptx::more_registers<S::kConsumer>();
    if constexpr (S::kParts == 1) {
      multiply<S>(p, at, taps, of_slots, slots, first, end);
    } else {
      multiply_parts<S>(p, at, taps, of_slots, slots, first, end);
    }
  }
#endif
}

template <class Mode, int I = 0>
void set_shapes(Sm90WeightTurnedFunctions& f) {
  constexpr Sm90WeightBlockedShape kShape = kSm90WeightBlockedShapeTable[I];
  if constexpr (weight_turned_has(Mode::kMode, I)) {
    f.shapes[0][I] = kernel<TurnedShape<Mode, kShape.row_blocks, kShape.columns, false>>;
    if constexpr (weight_turned_sums(Mode::kMode, I)) {
      f.shapes[1][I] = kernel<TurnedShape<Mode, kShape.row_blocks, kShape.columns, true>>;
    }
  }
  if constexpr (I + 1 < std::size(kSm90WeightBlockedShapeTable)) set_shapes<Mode, I + 1>(f);
}

template <class Mode>
Sm90WeightTurnedFunctions functions_of() {
  Sm90WeightTurnedFunctions f{};
  set_shapes<Mode>(f);
  f.sum = weight_blocked::sum_kernel<typename Mode::T, true>;
  f.bias = weight_units::bias_kernel<typename Mode::T>;
  return f;
}

}  // namespace tconv::cuda::sm90::weight_turned
