// The kernel of cuda.sm80.weight; weight.hpp has its loop nest and layouts.
#pragma once

#include "cuda/sm80/weight_stage.cuh"

namespace tconv::cuda::sm80::weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

template <class S>
struct Sums {
  using Sum = typename S::Mode::Sum;
  static constexpr bool kCross = S::Mode::kCross;
  Sum main[S::kMi][S::kNi][4];
  Sum cross[kCross ? S::kMi : 1][kCross ? S::kNi : 1][4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          main[i][j][e] = 0;
          if constexpr (kCross) cross[i][j][e] = 0;
        }
      }
    }
  }
  __device__ Sum total(int i, int j, int e) const {
    if constexpr (kCross) return fma(cross[i][j][e], kDown, main[i][j][e]);
    return main[i][j][e];
  }
};

// Where a lane's fragments are in a slot, in bytes: of x, and of the Ni columns of v.
template <class S>
struct Lane {
  int x, v[S::kNi];

  __device__ explicit Lane(const WeightParams& p) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / S::kWarpColumns * S::kMi * 16, column = warp % S::kWarpColumns * S::kNi * 8;
    constexpr int kElement = sizeof(typename S::Mode::T);
    if constexpr (kElement == 8) {
      x = (row + lane / 4) * p.x_pitch + lane % 4 * 8;
    } else {
      x = (row + lane % 16) * p.x_pitch + lane / 16 * 16;
    }
    const int first = S::kRows * p.x_pitch;
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) {
      int c = column + j * 8 + lane / 4;
      if (c >= p.rows * p.block_taps) c = 0;  // no one's column
      const int tap = c / p.rows, shift = tap * p.step;
      v[j] = first + (c - tap * p.rows) * p.y_pitch;
      if constexpr (kElement == 2) {
        v[j] += shift / 2 * 4 + (shift % 2 != 0 ? p.y_bytes : 0) + lane % 4 * 4;
      } else {
        v[j] += (shift + lane % 4) * kElement;
      }
    }
  }
};

// Steps [first, end) of a stage.
template <class S>
__device__ inline void multiply_steps(Sums<S>& sums, const WeightParams& p, const Lane<S>& lane,
                                      uint32_t slot, int first, int end) {
  using Mode = typename S::Mode;
  constexpr int kElement = sizeof(typename Mode::T), kStep = kWeightStepBytes / kElement;
  const int apart = (p.piece_pitch - p.piece) * kElement;  // of a piece's place in v and in x
#pragma unroll 2
  for (int step = first; step < end; ++step) {
    const int at = step * kWeightStepBytes;
    const int at_v = at + (step * kStep >> p.piece_shift) * apart;
    typename Mode::A a[S::kMi];
    typename Mode::B b[S::kNi];
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      Mode::load(a[i], slot + lane.x + i * 16 * p.x_pitch + at, 8 * p.x_pitch);
    }
#pragma unroll
    for (int j = 0; j < S::kNi; ++j) Mode::load(b[j], slot + lane.v[j] + at_v);
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
      for (int j = 0; j < S::kNi; ++j) {
        Mode::multiply(sums.main[i][j], sums.cross[Mode::kCross ? i : 0][Mode::kCross ? j : 0], a[i], b[j]);
      }
    }
  }
}

// One sum of one chain by fused multiply-adds over the products that exist.
template <class Mode>
__device__ inline typename Mode::Sum exact_sum(const WeightParams& p, const typename Mode::T* x,
                                               const typename Mode::T* y, int64_t origin, int64_t first_stage,
                                               int64_t end_stage) {
  const int64_t end = min(int64_t{p.pieces}, end_stage << p.pieces_shift);
  typename Mode::Sum sum = 0;
#pragma unroll 1
  for (int64_t q = first_stage << p.pieces_shift; q < end && sum == sum; ++q) {
    const Piece piece(p, q);
    const int64_t last = min(p.l, piece.i + p.piece);
#pragma unroll 1
    for (int64_t i = piece.i; i < last; ++i) {
      const int64_t o = p.stride * i + origin;
      if (o < 0 || o >= p.lout) continue;
      const auto a = widen(__ldg(x + piece.n * p.x_step[0] + i * p.x_step[2]));
      const auto b = widen(__ldg(y + piece.n * p.y_step[0] + o * p.y_step[2]));
      sum = fma(Mode::operand(a), Mode::operand(b), sum);
    }
  }
  return sum;
}

// Which dw a column of the tile is, if it is one's.
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

template <class Mode>
__device__ inline bool suspicious(typename Mode::Sum v) {
  return Mode::kRounds ? !is_finite(v) : v != v;
}

// Adds a chain's sums to the split's part, or stores them. Whether one may have come from a product that does
// not exist.
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

// Makes the thread's suspicious sums of all chains again.
template <class S>
__device__ __noinline__ void repair(const WeightParams& p, int64_t first_stage, int64_t end_stage) {
  const Place at = place_of(p, S::kRows);
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / S::kWarpColumns * S::kMi * 16 + lane / 4;
  const int column = warp % S::kWarpColumns * S::kNi * 8 + lane % 4 * 2;
  Sum* part = part_of<S>(p, at);
#pragma unroll 1
  for (int e = 0; e < 4 * S::kMi * S::kNi; ++e) {
    const int m = row + e / (2 * S::kNi) * 8, c = column + e / 2 % S::kNi * 8 + e % 2;
    const Column column_at(p, at, c);
    if (!column_at.there || at.row + m >= p.cin_group) continue;
    T* dw = static_cast<T*>(p.output) + (p.direct ? column_at.output(p, at, m) : 0);
    Sum* to = part + m * S::kColumns + c;
    if (!suspicious<Mode>(p.direct ? widen(*dw) : *to)) continue;
    const T* x = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + at.row + m) * p.x_step[1];
    const T* y =
        static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + column_at.cout) * p.y_step[1];
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
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kMinBlocks)
    weight_kernel(const __grid_constant__ WeightParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  using Mode = typename S::Mode;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t slots = ptx::shared_address(shared);
  const Place at = place_of(p, S::kRows);
  const RowsOfX<S> x(p, at);
  RowsOfV<S> v(p, at);
  constexpr bool kPairs = RowsOfV<S>::kPairs;
  const Lane<S> lane(p);
  const int v_at = S::kRows * p.x_pitch;
  const int steps =
      (p.piece << p.pieces_shift) * static_cast<int>(sizeof(typename Mode::T)) / kWeightStepBytes;

  const int64_t first = int64_t{p.stages} * at.split / p.splits;
  const int64_t end = int64_t{p.stages} * (at.split + 1) / p.splits;
  for (int ahead = 0; ahead < kWeightSlots - 1; ++ahead) {
    const uint32_t slot = slots + ahead * p.slot_bytes;
    if (first + ahead < end) {
      x.copy(first + ahead, slot);
      if constexpr (kPairs) {
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
          v.load(first + ahead, chunk);
          v.store(slot + v_at);
        }
      } else {
        v.copy(first + ahead, slot + v_at);
      }
    }
    ptx::copy_async_commit();
  }

  Sums<S> sums;
  sums.clear();
  int now = 0, next = kWeightSlots - 1;
  int64_t chain_first = first;
  bool again = false;
  for (int64_t stage = first; stage < end; ++stage) {
    ptx::copy_async_wait<kWeightSlots - 2>();
    __syncthreads();  // the slot of two stages on has been multiplied by all
    const int64_t later = stage + kWeightSlots - 1;
    const uint32_t slot = slots + next * p.slot_bytes;
    const uint32_t here = slots + now * p.slot_bytes;
    if (later < end) x.copy(later, slot);
    if constexpr (kPairs) {
      ptx::copy_async_commit();
      // A part of the products while a chunk is under way.
      const int chunks = later < end ? p.chunks : 0;
      int step = 0;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        v.load(later, chunk);
        const int until = steps * (chunk + 1) / chunks;
        multiply_steps<S>(sums, p, lane, here, step, until);
        step = until;
        v.store(slot + v_at);
      }
      if (chunks == 0) multiply_steps<S>(sums, p, lane, here, 0, steps);
    } else {
      if (later < end) v.copy(later, slot + v_at);
      ptx::copy_async_commit();
      multiply_steps<S>(sums, p, lane, here, 0, steps);
    }
    now = now + 1 == kWeightSlots ? 0 : now + 1;
    next = next + 1 == kWeightSlots ? 0 : next + 1;
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

// A block adds the parts of kWeightSumOutputs outputs: kWeightSumGroups threads to each, whose runs of splits
// are added in order.
template <class Mode>
__global__ void __launch_bounds__(kWeightSumOutputs* kWeightSumGroups)
    weight_sum_kernel(const __grid_constant__ WeightSumParams p) {
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  __shared__ Sum of_groups[kWeightSumGroups][kWeightSumOutputs];
  const int column = threadIdx.x % kWeightSumOutputs, runs = threadIdx.x / kWeightSumOutputs;
  const int64_t e = int64_t{blockIdx.x} * kWeightSumOutputs + column;
  Sum sum = 0;
  if (e < p.elements) {
    const int64_t row = e / p.k;
    const int k = static_cast<int>(e - row * p.k), phase = k % p.tap_stride, tap = k / p.tap_stride;
    const int64_t ci_all = row / p.cout_group;
    const int co = static_cast<int>(row - ci_all * p.cout_group);
    const int64_t group = ci_all / p.cin_group;
    const int ci = static_cast<int>(ci_all - group * p.cin_group);
    const int c = tap % p.block_taps * p.rows + co % p.block_couts * p.block_phases + phase % p.block_phases;
    int64_t tile = (group * p.cout_blocks + co / p.block_couts) * p.phase_blocks + phase / p.block_phases;
    tile = (tile * p.tap_blocks + tap / p.block_taps) * p.row_tiles + ci / p.tile_rows;
    const Sum* at =
        static_cast<const Sum*>(p.parts) + (tile * p.tile_rows + ci % p.tile_rows) * p.tile_columns + c;
    const int first = p.splits * runs / kWeightSumGroups, end = p.splits * (runs + 1) / kWeightSumGroups;
#pragma unroll 8
    for (int split = first; split < end; ++split) sum += at[split * p.part_size];
  }
  of_groups[runs][column] = sum;
  __syncthreads();
  if (runs != 0 || e >= p.elements) return;
#pragma unroll
  for (int r = 1; r < kWeightSumGroups; ++r) sum += of_groups[r][column];
  static_cast<T*>(p.output)[e] = narrow<T>(sum);
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
