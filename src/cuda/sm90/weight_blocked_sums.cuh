// Where the sums of cuda.sm90.weight_blocked go: the parts of splits, dw, and the sum of all parts.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_blocked_unscale.cuh"

namespace tconv::cuda::sm90::weight_blocked {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class Mode>
__device__ inline bool suspicious(float v) {
  return Mode::kRounds ? !is_finite(v) : v != v;
}

// The place of sum i in row block b of a thread (wgmma's accumulator).
template <class S>
struct SumPlace {
  int block, inside, column;
  __device__ SumPlace(int warpgroup, int b, int i) {
    block = warpgroup * S::kRowBlocks + b;
    inside = threadIdx.x / 32 % 4 * 16 + i / 2 % 2 * 8 + threadIdx.x % 32 / 4;
    column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
  }
};

// Adds the sums of a chain that is not the last one to the split's part, or stores them.
template <class S>
__device__ inline void store_part(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                  const float (&sums)[S::kRowBlocks][S::kN / 2], bool first) {
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const SumPlace<S> place(warpgroup, b, 2 * half);
      float* const part = part_of<S>(p, at) + (place.block * 64 + place.inside) * S::kN + place.column;
#pragma unroll
      for (int j = 0; j < S::kN / 8; ++j) {
        float2* const to = reinterpret_cast<float2*>(part + 8 * j);
        float2 v = {sums[b][4 * j + 2 * half], sums[b][4 * j + 2 * half + 1]};
        if (!first) v = {to->x + v.x, to->y + v.y};
        *to = v;
      }
    }
  }
}

// What a warp's lanes know of its 16 rows of a row block, a lane each: the address of the row's first element
// in dw, and the phases that it has (0: it belongs to no output).
template <class S>
struct RowsOfWarp {
  uint64_t first = 0;
  int phases = 0;
  __device__ RowsOfWarp(const Sm90WeightBlockedParams& p, const Place& at, int block) {
    const TapOfRow<S::kUnits> row(p, at.row_block + block, threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16);
    if (row.k < 0) return;
    const int64_t channel = int64_t{at.group} * p.cin_group + row.ci;
    first = reinterpret_cast<uint64_t>(static_cast<typename S::Mode::T*>(p.output) +
                                       channel * p.cout_group * p.k + row.k);
    phases = p.k - row.k;
  }
};

// A lane's part of a staged row of the warp.
template <class S>
__device__ inline void load_staged(float (&v)[S::kN / 32], int block, int row, uint32_t staging) {
  const uint32_t inside = threadIdx.x / 32 % 4 * 16 + row;
  const uint32_t staged = staging + ((block * 64 + inside) * S::kPitch + threadIdx.x % 32) * 4;
#pragma unroll
  for (int c = 0; c < S::kN / 32; ++c) v[c] = __uint_as_float(ptx::load_shared4(staged + 128 * c));
}

// Staged rows of a warp to dw. Apart from the loop that may call repair(), around which a lane's places in dw
// would not stay in registers (n2 ci1168 co584 l19 k16 s8 in tf32, H200: 112 us instead of 54). Returns
// whether no sum is suspicious. scales: what undoes those of the staged sums. No branch in a row: with one
// for each store a tile of 128 x 256 took 10 us.
template <class S, class Scales>
__device__ inline bool store_rows(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                  uint32_t staging, const Scales& scales) {
  using T = typename S::Mode::T;
  constexpr int kEach = S::kN / 32, kRows = 16, kUnroll = S::Mode::kScaled ? 2 : 4;
  const int lane = threadIdx.x % 32, columns = p.columns - at.column;
  uint32_t to[kEach];  // bytes from a row's first element on
  int phase[kEach];
#pragma unroll
  for (int c = 0; c < kEach; ++c) {
    const Column<S::kUnits> column(p, at.column + lane + 32 * c);
    phase[c] = lane + 32 * c < columns ? column.a : p.k;
    to[c] = static_cast<uint32_t>(column.co * p.k + column.a) * sizeof(T);
  }
  bool wrong = false;
#pragma unroll 1
  for (int b = 0; b < S::kRowBlocks; ++b) {
    const int block = warpgroup * S::kRowBlocks + b;
    const RowsOfWarp<S> rows(p, at, block);
#pragma unroll kUnroll
    for (int r = 0; r < kRows; ++r) {
      const int phases = __shfl_sync(~0u, rows.phases, r);
      const uint64_t row = __shfl_sync(~0u, rows.first, r);
      float v[kEach];
      load_staged<S>(v, block, r, staging);
      scales.undo(v, b * kRows + r);
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        const bool there = phase[c] < phases;
        const T value = narrow<T>(v[c]);
        wrong |= there & suspicious<typename S::Mode>(v[c]);
        if (there) *reinterpret_cast<T*>(row + to[c]) = value;
      }
    }
  }
  return !wrong;
}

// The same to the split's part.
template <class S, class Scales>
__device__ inline bool store_parts(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                   uint32_t staging, const Scales& scales) {
  constexpr int kEach = S::kN / 32, kRows = 16, kUnroll = S::Mode::kScaled ? 2 : 4;
  const int lane = threadIdx.x % 32, columns = p.columns - at.column;
  bool wrong = false;
#pragma unroll 1
  for (int b = 0; b < S::kRowBlocks; ++b) {
    const int block = warpgroup * S::kRowBlocks + b;
    const uint32_t rows = __ballot_sync(~0u, RowsOfWarp<S>(p, at, block).phases > 0);
    float* const part = part_of<S>(p, at) + (block * 64 + threadIdx.x / 32 % 4 * 16) * S::kN + lane;
#pragma unroll kUnroll
    for (int r = 0; r < kRows; ++r) {
      float v[kEach];
      load_staged<S>(v, block, r, staging);
      scales.undo(v, b * kRows + r);
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        const bool counts = (rows >> r & 1) != 0 && lane + 32 * c < columns;
        wrong |= counts & suspicious<typename S::Mode>(v[c]);
        part[r * S::kN + 32 * c] = v[c];
      }
    }
  }
  return !wrong;
}

// Staged sums of a chunk, of which some may have to be recomputed. They stay scaled until the last chunk.
template <class S>
__device__ inline void store_carefully(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                       bool first, uint32_t staging) {
  constexpr int kEach = S::kN / 32;
  constexpr bool kScaled = S::Mode::kScaled;
  const bool last = p.chunk + 1 == p.chunks, final = p.direct && last;
  const int lane = threadIdx.x % 32, columns = p.columns - at.column;
  if constexpr (kScaled) {
    if (last) unscale<S>(p, at, warpgroup, staging, first);
  }
  const bool add = !first && !(kScaled && last), check = !kScaled || last;
#pragma unroll 1
  for (int r = 0; r < 16 * S::kRowBlocks; ++r) {
    const int block = warpgroup * S::kRowBlocks + r / 16, inside = threadIdx.x / 32 % 4 * 16 + r % 16;
    const uint32_t staged = staging + (block * 64 + inside) * S::kPitch * 4;
    float* const part = part_of<S>(p, at) + (block * 64 + inside) * S::kN + lane;
    uint32_t marked = 0, nan = 0;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const uint32_t place = staged + (lane + 32 * c) * 4;
      float v = __uint_as_float(ptx::load_shared4(place));
      if (add) {
        v += part[32 * c];
        ptx::store_shared4(place, __float_as_uint(v));
      }
      if (check && lane + 32 * c < columns && suspicious<typename S::Mode>(v)) {
        marked |= 1u << c;
        nan |= uint32_t{v != v && (!kScaled || __float_as_uint(v) != kMissing)} << c;
      }
    }
    // Rows that belong to no output may hold anything.
    if (__any_sync(~0u, marked != 0) && TapOfRow<S::kUnits>(p, at.row_block + block, inside).k >= 0) {
      repair<S>(p, block, inside, marked, nan, staged);
    }
    if (final) continue;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      part[32 * c] = __uint_as_float(ptx::load_shared4(staged + (lane + 32 * c) * 4));
    }
  }
  __syncwarp();
  if (final) store_rows<S>(p, at, warpgroup, staging, NoScales{});
}

// The last sums of a chunk, through shared memory: neighbouring lanes then have neighbouring columns, and a
// row takes few instructions, which matters because a block with little to multiply must first fetch them.
// They go to the split's part or to dw, as if all were right. If some may include a product that does not
// exist, or miss one, the warp stores its rows again, with these recomputed.
template <class S>
__device__ inline void store_last(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                  const float (&sums)[S::kRowBlocks][S::kN / 2], bool first,
                                  uint32_t staging) {
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < S::kN / 2; i += 2) {
      const SumPlace<S> place(warpgroup, b, i);
      store_shared8(staging + ((place.block * 64 + place.inside) * S::kPitch + place.column) * 4,
                    {sums[b][i], sums[b][i + 1]});
    }
  }
  __syncwarp();
  const bool last = p.chunk + 1 == p.chunks;
  bool right = first && (last || !S::Mode::kScaled);
  if (right) {
    const WarpScales<S> scales(p, at, warpgroup);
    right = scales.plain();
    if (right) {
      right = p.direct && last ? store_rows<S>(p, at, warpgroup, staging, scales)
                               : store_parts<S>(p, at, warpgroup, staging, scales);
    }
  }
  if (!__all_sync(~0u, right)) store_carefully<S>(p, at, warpgroup, first, staging);
}

#endif

// A block adds the parts of some groups of four neighbouring columns of an x plane (some may belong to no
// output) for all its shifts, because these write contiguous elements of dw. Each has `runs` threads, whose
// runs of splits are added in order.
template <class T, bool Units>
__global__ void __launch_bounds__(kSm90WeightSumThreads)
    sum_kernel(const __grid_constant__ Sm90WeightBlockedSumParams p) {
  wait_for_launch_before();
  __shared__ float4 of_runs[kSm90WeightSumThreads];
  const int outputs = kSm90WeightSumThreads / p.runs;
  const int run = static_cast<int>(threadIdx.x) / outputs, lane = threadIdx.x - run * outputs;
  const uint32_t e = blockIdx.x * static_cast<uint32_t>(outputs) + lane;
  const uint32_t row_in_all = p.by_units.divide(e), unit = e - row_in_all * p.by_units.value;
  const uint32_t group = p.by_planes.divide(row_in_all), x_plane = row_in_all - group * p.by_planes.value;
  const uint32_t column_tile = p.by_tile_units.divide(unit),
                 tile_unit = unit - column_tile * p.by_tile_units.value;
  const XPlane<Units> x(p, static_cast<int>(x_plane));
  const uint32_t plane = unit * 4;
  const bool there = e < p.units && x.ci < p.cin_group && plane < static_cast<uint32_t>(p.columns);
  const int first = p.splits * run / p.runs, end = p.splits * (run + 1) / p.runs;
  const uint32_t blocks = p.tile_rows / 64;  // of rows, in a tile: 2 or 4
#pragma unroll 1
  for (int tap = 0; tap < p.taps; ++tap) {
    const int64_t row_k = (x.shift + int64_t{tap} * p.x_planes) * p.tap_stride;
    float4 sum = {0, 0, 0, 0};
    auto add = [&](const float4& v) { sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w}; };
    if (there && row_k < p.k) {
      const uint32_t row_block = p.in_rows.block(static_cast<int>(x_plane / 64), static_cast<int>(tap));
      const int64_t tile =
          int64_t{group} * p.in_tiles.of_group +
          p.in_tiles.tile(static_cast<int>(row_block / blocks), static_cast<int>(column_tile));
      const uint32_t row = row_block % blocks * 64 + x_plane % 64;
      const float4* const at = static_cast<const float4*>(p.parts) +
                               (tile * p.tile_rows + row) * p.by_tile_units.value + tile_unit;
#pragma unroll 8
      for (int split = first; split < end; ++split) add(at[split * (p.part_size / 4)]);
    }
    if (p.runs > 1) {
      of_runs[threadIdx.x] = sum;
      __syncthreads();
      for (int r = 1; run == 0 && r < p.runs; ++r) add(of_runs[r * outputs + lane]);
      __syncthreads();
    }
    if (run != 0 || !there || row_k >= p.k) continue;
    const float v[4] = {sum.x, sum.y, sum.z, sum.w};
    T* const dw =
        static_cast<T*>(p.output) + (int64_t{group} * p.cin_group + x.ci) * p.cout_group * p.k + row_k;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Column<Units> column(p, static_cast<int>(plane) + i);
      if (column.co < p.cout_group && row_k + column.a < p.k)
        dw[int64_t{column.co} * p.k + column.a] = narrow<T>(v[i]);
    }
  }
}

// The same for whole lines of dw: a block adds the parts of some columns for all rows of an input channel,
// its shifts and x planes, and stores them as they lie in dw, through shared memory. Its splits are fewer
// than kSm90WeightMostSplits.
template <class T>
__global__ void __launch_bounds__(kSm90WeightSumThreads)
    sum_lines_kernel(const __grid_constant__ Sm90WeightBlockedSumParams p) {
  wait_for_launch_before();
  constexpr int kAtOnce = 4;        // fours of columns of a thread, whose loads are under way together
  extern __shared__ float4 sums[];  // [row of the channel][unit of the chunk]
  const uint32_t channel = p.by_chunks.divide(blockIdx.x), group = p.by_cin.divide(channel);
  const uint32_t chunk = blockIdx.x - channel * p.by_chunks.value, ci = channel - group * p.by_cin.value;
  const uint32_t chunk_units = p.by_chunk_units.value, first_unit = chunk * chunk_units;
  const uint32_t blocks = p.tile_rows / 64, items = p.line_rows * chunk_units;
  const int64_t split_step = p.part_size / 4;
#pragma unroll 1
  for (uint32_t item = threadIdx.x; item < items; item += kAtOnce * kSm90WeightSumThreads) {
    const float4* at[kAtOnce];
    float4 sum[kAtOnce];
#pragma unroll
    for (int q = 0; q < kAtOnce; ++q) {
      const uint32_t i = min(item + q * kSm90WeightSumThreads, items - 1);
      const uint32_t of_line = p.by_chunk_units.divide(i);
      const uint32_t unit = min(first_unit + i - of_line * chunk_units, p.by_units.value - 1);
      const uint32_t tap = p.by_x_planes.divide(of_line);
      const uint32_t x_plane = ci * p.by_x_planes.value + of_line - tap * p.by_x_planes.value;
      const uint32_t column_tile = p.by_tile_units.divide(unit),
                     tile_unit = unit - column_tile * p.by_tile_units.value;
      const uint32_t row_block = p.in_rows.block(static_cast<int>(x_plane / 64), static_cast<int>(tap));
      const int64_t tile =
          int64_t{group} * p.in_tiles.of_group +
          p.in_tiles.tile(static_cast<int>(row_block / blocks), static_cast<int>(column_tile));
      const uint32_t row = row_block % blocks * 64 + x_plane % 64;
      at[q] = static_cast<const float4*>(p.parts) + (tile * p.tile_rows + row) * p.by_tile_units.value +
              tile_unit;
      sum[q] = {0, 0, 0, 0};
    }
#pragma unroll 2
    for (int split = 0; split < p.splits; ++split) {
      float4 v[kAtOnce];
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q) v[q] = at[q][split * split_step];
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q) {
        sum[q] = {sum[q].x + v[q].x, sum[q].y + v[q].y, sum[q].z + v[q].z, sum[q].w + v[q].w};
      }
    }
#pragma unroll
    for (int q = 0; q < kAtOnce; ++q) {
      if (item + q * kSm90WeightSumThreads < items) sums[item + q * kSm90WeightSumThreads] = sum[q];
    }
  }
  __syncthreads();
  const uint32_t first = first_unit * 4;
  const uint32_t end = min(first + chunk_units * 4, static_cast<uint32_t>(p.columns));
  auto* const dw = static_cast<T*>(p.output) + (int64_t{group} * p.cin_group + ci) * p.cout_group * p.k;
  const auto first_run = static_cast<uint32_t>(p.in_columns.first_run);
  const auto first_end = static_cast<uint32_t>(p.cout_group * p.in_columns.first);
  auto store = [&](uint32_t from, uint32_t to, uint32_t run, int phase, const Divisor& phases) {
    if (from >= to) return;
    const uint32_t co0 = phases.divide(from - run), channels = phases.divide(to - 1 - run) + 1 - co0;
    for (uint32_t i = threadIdx.x; i < channels * p.line_rows * phases.value; i += kSm90WeightSumThreads) {
      const uint32_t line = phases.divide(i), a = i - line * phases.value;
      const uint32_t of_co = p.by_line_rows.divide(line), tap = line - of_co * p.line_rows;
      const uint32_t column = run + (co0 + of_co) * phases.value + a;
      const int64_t k = phase + a + int64_t{tap} * p.tap_stride;
      if (column < from || column >= to || k >= p.k) continue;
      const float v = reinterpret_cast<const float*>(sums)[tap * chunk_units * 4 + column - first];
      dw[int64_t{co0 + of_co} * p.k + k] = narrow<T>(v);
    }
  };
  store(first, min(end, first_end), 0, 0, p.in_columns.by_first);
  store(max(first, first_run), end, first_run, p.in_columns.first, p.in_columns.by_rest);
}

}  // namespace tconv::cuda::sm90::weight_blocked
