// The kernel of cuda.sm80.weight; weight.hpp has its loop nest and layouts.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm80/weight_product.cuh"
#include "cuda/sm80/weight_sum.cuh"

namespace tconv::cuda::sm80::weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// One sum of one chain, by fused multiply-adds over the products that exist. It ends soon after its first
// NaN, and keeps several loads under way: one pair at a time would wait for memory at each product.
template <class Mode>
__device__ inline typename Mode::Sum exact_sum(const WeightParams& p, const typename Mode::T* x,
                                               const typename Mode::T* y, int64_t origin, int64_t first_stage,
                                               int64_t end_stage) {
  constexpr int kAhead = 4;
  const int64_t end = min(int64_t{p.pieces}, end_stage << p.pieces_shift);
  typename Mode::Sum sum = 0;
#pragma unroll 1
  for (int64_t q = first_stage << p.pieces_shift; q < end && sum == sum; ++q) {
    const Piece piece(p, q);
    const int64_t last = min(p.l, piece.i + p.piece);
    const typename Mode::T* const x_row = x + piece.n * p.x_step[0];
    const typename Mode::T* const y_row = y + piece.n * p.y_step[0];
#pragma unroll 1
    for (int64_t i = piece.i; i < last && sum == sum; i += kAhead) {
      typename Mode::Sum a[kAhead], b[kAhead];
      bool there[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t o = p.stride * (i + j) + origin;
        there[j] = i + j < last && o >= 0 && o < p.lout;
        a[j] = there[j] ? widen(__ldg(x_row + (i + j) * p.x_step[2])) : 0;
        b[j] = there[j] ? widen(__ldg(y_row + o * p.y_step[2])) : 0;
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (there[j]) sum = fma(Mode::operand(a[j]), Mode::operand(b[j]), sum);
      }
    }
  }
  return sum;
}

// Which element of dw a column of the tile is, if any.
struct Column {
  int cout, phase, tap;
  bool there;
  __device__ Column(const WeightParams& p, const Place& at, int c) {
    const int local_tap = c / p.rows, row = c - local_tap * p.rows, local_cout = row / p.block_phases;
    cout = at.cout + local_cout;
    phase = at.phase + row - local_cout * p.block_phases;
    tap = at.tap + local_tap;
    there = local_tap < p.block_taps && tap < p.taps && phase < p.phases && cout < p.cout_group &&
            phase + tap * p.tap_stride < p.k;
  }
  __device__ int64_t output(const WeightParams& p, const Place& at, int row) const {
    const int64_t ci = int64_t{at.group} * p.cin_group + at.row + row;
    return (ci * p.cout_group + cout) * p.k + phase + int64_t{tap} * p.tap_stride;
  }
};

template <class S>
__device__ inline typename S::Mode::Sum* part_of(const WeightParams& p, const Place& at) {
  return static_cast<typename S::Mode::Sum*>(p.output) +
         (int64_t{at.split} * p.tiles + at.tile) * S::kRows * S::kColumns;
}

// Adds a chain's sums to the split's part, or stores them. Returns whether one may include a product that
// does not exist.
template <class S>
__device__ inline bool finish_chain(const Sums<S>& sums, const WeightParams& p, const Place& at, bool first) {
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / S::kWarpColumns * S::kMi * 16 + lane / 4;
  const int column = warp % S::kWarpColumns * S::kNi * 8 + lane % 4 * 2;
  bool again = false;
  Sum* part = part_of<S>(p, at);
#pragma unroll
  for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int c = column + j * 8 + side;
      const Column column_at(p, at, c);
      if (!column_at.there) continue;
#pragma unroll
      for (int e = 0; e < 2 * S::kMi; ++e) {
        const int m = row + e * 8;
        if (at.row + m >= p.cin_group) break;
        const Sum v = sums.total(e / 2, j, e % 2 * 2 + side);
        again = again || suspicious<Mode>(v);
        if (p.direct) {
          static_cast<T*>(p.output)[column_at.output(p, at, m)] = narrow<T>(v);
        } else {
          Sum* to = part + m * S::kColumns + c;
          *to = first ? v : *to + v;
        }
      }
    }
  }
  return again;
}

// Recomputes the sum of column c and row m of the tile, over all chains, if it is suspicious.
template <class S>
__device__ inline void repair_sum(const WeightParams& p, const Place& at, int c, int m, int64_t first_stage,
                                  int64_t end_stage) {
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  const Column column_at(p, at, c);
  if (!column_at.there || at.row + m >= p.cin_group) return;
  T* dw = static_cast<T*>(p.output) + (p.direct ? column_at.output(p, at, m) : 0);
  Sum* to = part_of<S>(p, at) + m * S::kColumns + c;
  if (!suspicious<Mode>(p.direct ? widen(*dw) : *to)) return;
  const T* x = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + at.row + m) * p.x_step[1];
  const T* y = static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + column_at.cout) * p.y_step[1];
  const int64_t origin =
      int64_t{column_at.tap} * p.step * p.stride + int64_t{column_at.phase} * p.dilation - p.padding;
  Sum sum = 0;
#pragma unroll 1
  for (int64_t stage = first_stage; stage < end_stage && sum == sum; stage += p.chain) {
    sum += exact_sum<Mode>(p, x, y, origin, stage, min(end_stage, stage + p.chain));
  }
  if (p.direct) {
    *dw = narrow<T>(sum);
  } else {
    *to = sum;
  }
}

// The thread's sums.
template <class S>
__device__ __noinline__ void repair(const WeightParams& p, int64_t first_stage, int64_t end_stage) {
  const Place at = place_of(p, S::kRows);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / S::kWarpColumns * S::kMi * 16 + lane / 4;
  const int column = warp % S::kWarpColumns * S::kNi * 8 + lane % 4 * 2;
#pragma unroll 1
  for (int e = 0; e < 4 * S::kMi * S::kNi; ++e) {
    repair_sum<S>(p, at, column + e / 2 % S::kNi * 8 + e % 2, row + e / (2 * S::kNi) * 8, first_stage,
                  end_stage);
  }
}

// Waits for the oldest of slots - 1 groups of copies.
__device__ inline void wait_for_oldest(int slots) {
  if (slots == kWeightMostSlots) {
    ptx::copy_async_wait<kWeightMostSlots - 2>();
  } else if (slots == kWeightSomeSlots) {
    ptx::copy_async_wait<kWeightSomeSlots - 2>();
  } else {
    ptx::copy_async_wait<kWeightLeastSlots - 2>();
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    weight_kernel(const __grid_constant__ WeightParams p) {
  wait_for_launch_before();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Mode = typename S::Mode;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared);
  const Place at = place_of(p, S::kRows);
  const RowsOfX<S> x(p, at);
  const RowsOfY<S> y(p, at);
  const Skew<typename Mode::T> skew(p, at);
  const Lane<S> lane(p);
  const int y_at = S::kRows * p.x_pitch;

  const int64_t first = int64_t{p.stages} * at.split / p.splits;
  const int64_t end = int64_t{p.stages} * (at.split + 1) / p.splits;
  const int slots_ahead = p.slots - 1;
  for (int ahead = 0; ahead < slots_ahead; ++ahead) {
    const uint32_t slot = slots + ahead * p.slot_bytes;
    if (first + ahead < end) {
      x.copy(first + ahead, slot);
      y.copy(first + ahead, slot + y_at);
    }
    ptx::copy_async_commit();
  }

  Sums<S> sums;
  sums.clear();
  int now = 0, next = slots_ahead;
  int64_t chain_first = first;
  bool again = false;
  for (int64_t stage = first; stage < end; ++stage) {
    wait_for_oldest(p.slots);
    __syncthreads();  // everybody has multiplied what lay in the slot of `later`
    const int64_t later = stage + slots_ahead;
    const uint32_t slot = slots + next * p.slot_bytes;
    if (later < end) {
      x.copy(later, slot);
      y.copy(later, slot + y_at);
    }
    ptx::copy_async_commit();
    multiply_stage<S>(sums, p, lane, skew, stage, slots + now * p.slot_bytes);
    now = now + 1 == p.slots ? 0 : now + 1;
    next = next + 1 == p.slots ? 0 : next + 1;
    if (stage + 1 - chain_first == p.chain && stage + 1 < end) {
      again |= finish_chain<S>(sums, p, at, chain_first == first);
      sums.clear();
      chain_first = stage + 1;
    }
  }
  again |= finish_chain<S>(sums, p, at, chain_first == first);
  if (again) repair<S>(p, first, end);
  ptx::copy_async_wait<0>();
#endif
}

template <class Mode>
WeightFunctions functions_of() {
  WeightFunctions f{};
  constexpr bool kWide = Mode::kCross || sizeof(typename Mode::T) == 8;  // sums take twice the registers
  if constexpr (!kWide) f.tiles[0] = weight_kernel<Shape<Mode, 2, 4, 4, 6, 1>>;
  if constexpr (!kWide) f.tiles[1] = weight_kernel<Shape<Mode, 2, 4, 4, 4, 1>>;
  f.tiles[2] = weight_kernel<Shape<Mode, 2, 4, 2, 4, kWide ? 1 : 2>>;
  f.tiles[3] = weight_kernel<Shape<Mode, 1, 8, 2, 4, kWide ? 1 : 2>>;
  f.tiles[4] = weight_kernel<Shape<Mode, 8, 1, 1, 4, 2>>;
  f.tiles[5] = weight_kernel<Shape<Mode, 1, 8, 1, 4, 2>>;
  f.sum = weight_sum_kernel<Mode>;
  return f;
}

}  // namespace tconv::cuda::sm80::weight
