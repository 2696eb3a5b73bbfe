// Where the sums of cuda.sm90.weight_blocked go: the parts of splits, dw, and the sum of all parts.
#pragma once

#include "cuda/sm90/weight_blocked_repair.cuh"

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

// The last sums of a chunk, through shared memory: neighbouring lanes then have neighbouring columns, and a
// row takes few instructions, which matters because a block with little to multiply must first fetch them.
// They go to the split's part or to dw. Sums that may include a product that does not exist are recomputed.
template <class S>
__device__ inline void store_last(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                  const float (&sums)[S::kRowBlocks][S::kN / 2], bool first,
                                  uint32_t staging) {
  using T = typename S::Mode::T;
  constexpr int kEach = S::kN / 32;
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
  const bool final = p.direct && p.chunk + 1 == p.chunks;
  const int lane = threadIdx.x % 32, columns = p.cout_group * p.y_planes - at.column;
  int to[kEach], a[kEach];  // from a row's first element on; k behind the row's
#pragma unroll
  for (int c = 0; c < kEach; ++c) {
    const Column column(p, at.column + lane + 32 * c);
    a[c] = lane + 32 * c < columns ? column.a : p.k;
    to[c] = column.co * p.k + column.a;
  }
#pragma unroll 1
  for (int r = 0; r < 16 * S::kRowBlocks; ++r) {
    const int block = warpgroup * S::kRowBlocks + r / 16, inside = threadIdx.x / 32 % 4 * 16 + r % 16;
    const TapOfRow row(p, at.row_block + block, inside);
    if (row.k < 0) continue;
    const uint32_t staged = staging + (block * 64 + inside) * S::kPitch * 4;
    float* const part = part_of<S>(p, at) + (block * 64 + inside) * S::kN + lane;
    float v[kEach];
    uint32_t marked = 0, nan = 0;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      v[c] = __uint_as_float(ptx::load_shared4(staged + (lane + 32 * c) * 4));
      if (!first) v[c] += part[32 * c];
      if (lane + 32 * c < columns && suspicious<typename S::Mode>(v[c])) {
        marked |= 1u << c;
        nan |= uint32_t{v[c] != v[c]} << c;
      }
    }
    if (__any_sync(~0u, marked != 0)) {
      repair<S>(p, block, inside, marked, nan, staged);
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        if (marked >> c & 1) v[c] = __uint_as_float(ptx::load_shared4(staged + (lane + 32 * c) * 4));
      }
    }
    T* const dw =
        static_cast<T*>(p.output) + (int64_t{at.group} * p.cin_group + row.ci) * p.cout_group * p.k + row.k;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      if (!final) {
        part[32 * c] = v[c];
      } else if (row.k + a[c] < p.k) {
        dw[to[c]] = narrow<T>(v[c]);
      }
    }
  }
}

#endif

// A block adds the parts of some groups of four neighbouring columns of an x plane (some may belong to no
// output) for all its shifts, because these write contiguous elements of dw. Each has `runs` threads, whose
// runs of splits are added in order.
template <class T>
__global__ void __launch_bounds__(kSm90WeightSumThreads)
    sum_kernel(const __grid_constant__ Sm90WeightBlockedSumParams p) {
  __shared__ float4 of_runs[kSm90WeightSumThreads];
  const int outputs = kSm90WeightSumThreads / p.runs;
  const int run = static_cast<int>(threadIdx.x) / outputs, lane = threadIdx.x - run * outputs;
  const uint32_t e = blockIdx.x * static_cast<uint32_t>(outputs) + lane;
  const uint32_t row_in_all = p.by_units.divide(e), unit = e - row_in_all * p.by_units.value;
  const uint32_t group = p.by_planes.divide(row_in_all), x_plane = row_in_all - group * p.by_planes.value;
  const uint32_t column_tile = p.by_tile_units.divide(unit),
                 tile_unit = unit - column_tile * p.by_tile_units.value;
  const uint32_t ci = p.by_x_planes.divide(x_plane), plane = unit * 4;
  const bool there = e < p.units && ci < static_cast<uint32_t>(p.cin_group) &&
                     plane < static_cast<uint32_t>(p.cout_group * p.y_planes);
  const int first = p.splits * run / p.runs, end = p.splits * (run + 1) / p.runs;
  const uint32_t blocks = p.tile_rows / 64;  // of rows, in a tile: 2 or 4
#pragma unroll 1
  for (int tap = 0; tap < p.taps; ++tap) {
    const int64_t row_k = (x_plane - ci * p.x_planes + int64_t{tap} * p.x_planes) * p.tap_stride;
    float4 sum = {0, 0, 0, 0};
    auto add = [&](const float4& v) { sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w}; };
    if (there && row_k < p.k) {
      const uint32_t row_block = x_plane / 64 * p.taps + tap, row_tile = row_block / blocks;
      const int64_t tile = (int64_t{group} * p.column_tiles + column_tile) * p.row_tiles + row_tile;
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
        static_cast<T*>(p.output) + (int64_t{group} * p.cin_group + ci) * p.cout_group * p.k + row_k;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t co = p.by_y_planes.divide(plane + i), a = plane + i - co * p.y_planes;
      if (co < static_cast<uint32_t>(p.cout_group) && row_k + a < p.k) {
        dw[int64_t{co} * p.k + a] = narrow<T>(v[i]);
      }
    }
  }
}

}  // namespace tconv::cuda::sm90::weight_blocked
