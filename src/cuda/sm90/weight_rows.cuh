// The main kernel of cuda.sm90.weight_rows; weight_rows.hpp has its loop nest.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/device/ptx/sm90_tf32.cuh"
#include "cuda/sm90/weight_blocked_parts.cuh"
#include "cuda/sm90/weight_blocked_sums.cuh"
#include "cuda/sm90/weight_product.cuh"
#include "cuda/sm90/weight_rows_source.cuh"

namespace tconv::cuda::sm90::weight_rows {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::store_last;
using weight_blocked::store_part;

// Where a lane's rows of the product are in a slot at the stage's first position, two in each block of 64. A
// row that belongs to no output reads any.
template <class S>
struct LaneRows {
  uint32_t at[S::kRowBlocks][2];

  __device__ LaneRows(const Sm90WeightRowsParams& p, const Place& place, const TileTaps& taps,
                      const TileUnits<S>& units, int warpgroup) {
    const BoxRows x(p, p.x_raw, units.x);
    const int lane = threadIdx.x % 32, of_lane = (lane / 4 * p.x_raw.width + lane % 4) * 4;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
      const int block = place.row_block + warpgroup * S::kRowBlocks + b;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        at[b][half] = of_lane;
        if (block >= p.row_blocks) continue;
        const RowBlock rows(p, block);
        const int plane = rows.plane / 8 + threadIdx.x / 32 % 4 * 2 + half;
        const int v = static_cast<int>(p.by_x_units.divide(plane));
        const int unit = plane - v * static_cast<int>(p.by_x_units.value);
        if (v >= p.x_planes || unit >= units.x.first + units.x.count) continue;
        const int shift = (taps.last_tap - rows.tap) * p.shift + (p.x_planes - 1 - v) * p.x_raw.step;
        at[b][half] += x.unit(unit) + shift * 4;
      }
    }
  }
};

// dy's planes of 32 bytes of positions.
template <class S>
__device__ inline uint64_t planes_at(const Sm90WeightRowsParams& p, uint32_t at) {
  return ptx::matrix_descriptor(at, 128, p.stage_positions * (S::kParts == 1 ? 32 : 16));
}

// A stage, in steps of 32 positions. Loads of an operand are hidden behind the wgmma of the one before, which
// has registers of its own.
template <class S>
struct Tf32Product : ProductSums<S> {
  using ProductSums<S>::sums;

  __device__ void multiply(const Sm90WeightRowsParams& p, const LaneRows<S>& rows, uint32_t slot) {
    constexpr int kSteps = S::kSteps, kGroups = 4 / kSteps * S::kRowBlocks;
    uint32_t y = slot + p.y_at;
#pragma unroll 1
    for (int left = p.stage_positions; left > 0; left -= 32, slot += 128, y += 1024) {
      uint32_t a[2][kSteps][4];
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const int b = i % S::kRowBlocks, first = i / S::kRowBlocks * kSteps;
        ptx::wgmma_wait<1>();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            a[i % 2][step][e] =
                ptx::load_shared4(slot + rows.at[b][e % 2] + ((first + step) * 8 + e / 2 * 4) * 4);
          }
        }
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          ptx::wgmma_tf32<S::kN>(sums[b], a[i % 2][step], planes_at<S>(p, y + (first + step) * 256), 1);
        }
        ptx::wgmma_commit();
      }
    }
    ptx::wgmma_wait<0>(sums);
  }
};

template <class S>
__device__ inline void release(const Barriers& barriers, int slot) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(barriers.empty(slot));
}

// tf32: sums accumulate over a chain of stages.
template <class S>
__device__ inline void multiply(const Sm90WeightRowsParams& p, const Place& at, const LaneRows<S>& rows,
                                const Barriers& barriers, uint32_t slots, int first, int end) {
  const int warpgroup = threadIdx.x / 128;
  Tf32Product<S> product;
  RingPlace place;
  int stage = first;
#pragma unroll 1
  do {
    const int chain_first = stage, chain_end = min(end, stage + p.chain);
    product.clear();
#pragma unroll 1
    for (; stage < chain_end; ++stage) {
      ptx::barrier_wait(barriers.x_full(place.at), place.parity);
      ptx::barrier_wait(barriers.y_full(place.at), place.parity);
      product.multiply(p, rows, slots + place.at * p.slot_bytes);
      release<S>(barriers, place.at);
      place.advance(p.slots);
    }
    if (stage >= end) {
      ptx::named_barrier(1, 256);  // the other warpgroup may still read a slot, and sums are staged there
      store_last<S>(p, at, warpgroup, product.sums, chain_first == first, slots);
    } else {
      store_part<S>(p, at, warpgroup, product.sums, chain_first == first);
    }
  } while (stage < end);
}

// 64 rows of x by 32 positions in three parts. The depth of 16 positions that a wgmma takes is in the order
// of a lane's loads, 4 apart, as the planes of dy have it.
struct PartsOperand {
  uint32_t words[3][2][4];  // part, 16 positions

  __device__ void load(uint32_t slot, const uint32_t (&at)[2]) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const uint32_t from = slot + at[e % 2] + (step * 16 + e / 2 * 8) * 4;
        uint32_t parts[3];
        IeeeMode::split(__uint_as_float(ptx::load_shared4(from)),
                        __uint_as_float(ptx::load_shared4(from + 16)), parts);
#pragma unroll
        for (int part = 0; part < 3; ++part) words[part][step][e] = parts[part];
      }
    }
  }
};

// The sums of 64 rows and 32 positions, products of low parts first.
template <class S>
__device__ inline void multiply_parts(const Sm90WeightRowsParams& p, const PartsOperand& x, uint32_t y,
                                      float (&sums)[S::kN / 2]) {
#pragma unroll
  for (int places = 2; places >= 0; --places) {
    ptx::wgmma_fence();
#pragma unroll
    for (int part = 0; part <= places; ++part) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint64_t columns = planes_at<S>(p, y + (places - part) * p.part_bytes + step * 256);
        ptx::wgmma<ptx::Operand::bf16, S::kN>(sums, x.words[part][step], columns,
                                              places == 2 && part == 0 && step == 0 ? 0 : 1);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(sums);
    if (places == 0) break;
#pragma unroll
    for (int i = 0; i < S::kN / 2; ++i) sums[i] *= IeeeMode::kDown;
  }
}

// ieee: the sums of 32 positions are added to a total.
template <class S>
__device__ inline void multiply_ieee(const Sm90WeightRowsParams& p, const Place& at, const LaneRows<S>& rows,
                                     const Barriers& barriers, uint32_t slots, int first, int end) {
  const int warpgroup = threadIdx.x / 128;
  ProductSums<S> total;
  total.clear();
  RingPlace place;
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    ptx::barrier_wait(barriers.x_full(place.at), place.parity);
    ptx::barrier_wait(barriers.y_full(place.at), place.parity);
    uint32_t slot = slots + place.at * p.slot_bytes, y = slot + p.y_at;
#pragma unroll 1
    for (int left = p.stage_positions; left > 0; left -= 32, slot += 128, y += 512) {
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        PartsOperand x;
        float sums[S::kN / 2];
        x.load(slot, rows.at[b]);
        multiply_parts<S>(p, x, y, sums);
#pragma unroll
        for (int i = 0; i < S::kN / 2; ++i) total.sums[b][i] += sums[i];
      }
    }
    release<S>(barriers, place.at);
    place.advance(p.slots);
  }
  ptx::named_barrier(1, 256);  // the other warpgroup may still read a slot, and sums are staged there
  store_last<S>(p, at, warpgroup, total.sums, true, slots);
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) kernel(const __grid_constant__ Sm90WeightRowsParams p) {
  wait_for_launch_before();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared) + kSm90WeightRowsHead;
  const Barriers barriers{ptx::shared_address(shared), p.slots, p.places};
  auto* const table = reinterpret_cast<PlaneRows*>(shared + kSm90WeightRowsBarriers);
  if (threadIdx.x == 0) barriers.init(S::kMovers);
  const Place at(p, S::kRowBlocks, S::kN);
  const TileTaps taps(p, at, S::kRowBlocks);
  const TileUnits<S> units(p, at, taps);
  make_plane_rows<S>(p, units, table);
  const int first = static_cast<int>(int64_t{p.stages} * at.split / p.splits);
  const int end = static_cast<int>(int64_t{p.stages} * (at.split + 1) / p.splits);
  __syncthreads();
  if (threadIdx.x >= 256) {
    ptx::fewer_registers<S::kProducer>();
    if (threadIdx.x < 256 + 32 * S::kMovers) {
      const Mover<S> mover(p, at, units, table, slots);
      mover.run(barriers, slots, first, end);
      if constexpr (S::kSumsY) mover.finish(at, slots);
    } else if (ptx::elect_one()) {
      copy_rows<S>(p, at, units, barriers, slots, first, end);
    }
  } else {
    ptx::more_registers<S::kConsumer>();
    const LaneRows<S> rows(p, at, taps, units, threadIdx.x / 128);
    if constexpr (S::kParts == 1) {
      multiply<S>(p, at, rows, barriers, slots, first, end);
    } else {
      multiply_ieee<S>(p, at, rows, barriers, slots, first, end);
    }
  }
#endif
}

template <class Mode, int I = 0>
void set_shapes(Sm90WeightRowsFunctions& f) {
  constexpr Sm90WeightBlockedShape kShape = kSm90WeightRowsShapeTable[I];
  if constexpr (weight_rows_has(Mode::kMode, I)) {
    f.shapes[0][I] = kernel<RowsShape<Mode, kShape.row_blocks, kShape.columns, false>>;
    if constexpr (weight_rows_sums(Mode::kMode, I)) {
      f.shapes[1][I] = kernel<RowsShape<Mode, kShape.row_blocks, kShape.columns, true>>;
    }
  }
  if constexpr (I + 1 < std::size(kSm90WeightRowsShapeTable)) set_shapes<Mode, I + 1>(f);
}

template <class Mode>
Sm90WeightRowsFunctions functions_of() {
  Sm90WeightRowsFunctions f{};
  set_shapes<Mode>(f);
  f.sum = weight_blocked::sum_kernel<typename Mode::T, true>;
  f.bias = weight_units::bias_kernel<typename Mode::T>;
  return f;
}

}  // namespace tconv::cuda::sm90::weight_rows
