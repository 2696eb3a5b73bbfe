// The second kernel of cuda.sm90.weight_blocked: adds the parts of splits in order.
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_blocked_repair.cuh"

namespace tconv::cuda::sm90::weight_blocked {

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
