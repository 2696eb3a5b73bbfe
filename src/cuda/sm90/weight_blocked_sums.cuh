// Where the sums of cuda.sm90.weight_blocked go: which dw a sum is, the parts of splits, sums that are made
// again, and the sum of all parts.
#pragma once

#include "cuda/device/ptx/sm90.cuh"
#include "cuda/sm90/weight_blocked_pass.cuh"

namespace tconv::cuda::sm90::weight_blocked {

template <class M, int RowBlocks, int N>
struct Shape {
  using Mode = M;
  static constexpr Sm90WeightBlockedLayout kLayout = weight_blocked_layout(M::kMode);
  static constexpr int kRowBlocks = RowBlocks, kN = N, kRows = 128 * RowBlocks;
  static constexpr int kPositions = kLayout.positions, kParts = kLayout.parts,
                       kRowBytes = kLayout.row_bytes();
  static constexpr int kPitch = N + 8;  // floats of a staged row: stores of two are free of conflicts
  static_assert(kLayout.unit_planes == M::kPlanes && kLayout.unit_positions == M::kPositions &&
                kParts == M::kParts);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static constexpr ptx::Operand kType = M::kMode == Arithmetic::tf32  ? ptx::Operand::tf32
                                        : M::kMode == Arithmetic::f16 ? ptx::Operand::f16
                                                                      : ptx::Operand::bf16;
#endif
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void store_shared8(uint32_t to, const float2& v) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};\n" ::"r"(to), "f"(v.x), "f"(v.y) : "memory");
}

// The part of the problem that a block of threads has: first row block, first dy plane.
struct Place {
  int tile, split, group, row_block, column;
  __device__ Place(const Sm90WeightBlockedParams& p, int row_blocks, int columns) {
    split = blockIdx.x / p.tiles;
    tile = blockIdx.x - split * p.tiles;
    int rest = tile / p.row_tiles;
    row_block = (tile - rest * p.row_tiles) * 2 * row_blocks;
    group = rest / p.column_tiles;
    column = (rest - group * p.column_tiles) * columns;
  }
};

// The first x plane and the shift of 64 rows. Shifts run fastest: they read the same planes.
struct RowBlock {
  int plane, tap;
  __device__ RowBlock(const Sm90WeightBlockedParams& p, int block) {
    const int planes = static_cast<int>(p.by_taps.divide(block));
    tap = block - planes * p.taps;
    plane = planes * 64;
  }
};

// ci and the part of k that a row of the product says; k < 0: no one's row.
struct Row {
  int ci, k;
  __device__ Row(const Sm90WeightBlockedParams& p, int block, int inside) {
    k = -1;
    ci = 0;
    if (block >= p.row_blocks) return;
    const RowBlock rows(p, block);
    ci = static_cast<int>(p.by_x_planes.divide(rows.plane + inside));
    if (ci >= p.cin_group) return;
    const int v = rows.plane + inside - ci * p.x_planes;
    const int64_t tap = (v + int64_t{rows.tap} * p.x_planes) * p.tap_stride;
    if (tap < p.k) k = static_cast<int>(tap);
  }
};

struct Column {
  int co, a;
  __device__ Column(const Sm90WeightBlockedParams& p, int plane) {
    co = static_cast<int>(p.by_y_planes.divide(plane));
    a = plane - co * p.y_planes;
  }
  __device__ int64_t output(const Sm90WeightBlockedParams& p, const Place& at, const Row& row) const {
    return ((int64_t{at.group} * p.cin_group + row.ci) * p.cout_group + co) * p.k + row.k + a;
  }
};

template <class S>
__device__ inline float* part_of(const Sm90WeightBlockedParams& p, const Place& at) {
  return static_cast<float*>(p.parts) + (int64_t{at.split} * p.tiles + at.tile) * S::kRows * S::kN;
}

template <class Mode>
__device__ inline bool suspicious(float v) {
  return Mode::kRounds ? !is_finite(v) : v != v;
}

// Of sum i of row block b of a thread (wgmma's accumulator).
template <class S>
struct SumPlace {
  int block, inside, column;
  __device__ SumPlace(const Place& at, int warpgroup, int b, int i) {
    block = warpgroup * S::kRowBlocks + b;
    inside = threadIdx.x / 32 % 4 * 16 + i / 2 % 2 * 8 + threadIdx.x % 32 / 4;
    column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
  }
};

// Adds the sums to the split's part, or stores them; the last ones of a direct plan are left in `staging`
// instead, a warp's own rows of kPitch floats. Whether one may have come from a product that does not exist.
template <class S>
__device__ inline bool store_sums(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                  const float (&sums)[S::kRowBlocks][S::kN / 2], bool first, bool last,
                                  uint32_t staging) {
  first = first && p.chunk == 0;
  const int columns = p.cout_group * p.y_planes - at.column;
  bool again = false;
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const SumPlace<S> place(at, warpgroup, b, 2 * half);
      const Row row(p, at.row_block + place.block, place.inside);
      if (row.k < 0) continue;
      float* const part = part_of<S>(p, at) + (place.block * 64 + place.inside) * S::kN;
      const uint32_t stage = staging + (place.block * 64 + place.inside) * S::kPitch * 4;
#pragma unroll
      for (int j = 0; j < S::kN / 8; ++j) {
        const int column = place.column + 8 * j;
        if (column >= columns) break;
        float2 v = {sums[b][4 * j + 2 * half], sums[b][4 * j + 2 * half + 1]};
        float2* const to = reinterpret_cast<float2*>(part + column);
        if (!first) v = {to->x + v.x, to->y + v.y};
        again = again || suspicious<typename S::Mode>(v.x) ||
                (column + 1 < columns && suspicious<typename S::Mode>(v.y));
        if (last) {
          store_shared8(stage + column * 4, v);
        } else {
          *to = v;
        }
      }
    }
  }
  return again;
}

// Staged sums to dw, a row after the other: neighbouring lanes have neighbouring columns.
template <class S>
__device__ inline void store_output(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                                    uint32_t staging) {
  using T = typename S::Mode::T;
  const int lane = threadIdx.x % 32, columns = p.cout_group * p.y_planes - at.column;
  int to[S::kN / 32], a[S::kN / 32];  // from a row's first element on; k behind the row's
#pragma unroll
  for (int c = 0; c < S::kN / 32; ++c) {
    const Column column(p, at.column + lane + 32 * c);
    a[c] = lane + 32 * c < columns ? column.a : p.k;
    to[c] = column.co * p.k + column.a;
  }
  __syncwarp();
#pragma unroll 1
  for (int r = 0; r < 16 * S::kRowBlocks; ++r) {
    const int block = warpgroup * S::kRowBlocks + r / 16, inside = threadIdx.x / 32 % 4 * 16 + r % 16;
    const Row row(p, at.row_block + block, inside);
    if (row.k < 0) continue;
    T* const dw =
        static_cast<T*>(p.output) + (int64_t{at.group} * p.cin_group + row.ci) * p.cout_group * p.k + row.k;
    const uint32_t from = staging + ((block * 64 + inside) * S::kPitch + lane) * 4;
#pragma unroll
    for (int c = 0; c < S::kN / 32; ++c) {
      if (row.k + a[c] < p.k) dw[to[c]] = narrow<T>(__uint_as_float(ptx::load_shared4(from + 128 * c)));
    }
  }
  __syncwarp();
}

// Fused multiply-adds over the products that exist at places [first, end) of the axis of all samples.
template <class S>
__device__ inline float exact_sum(const Sm90WeightBlockedParams& p, const Place& at, const Row& row,
                                  const Column& column, int64_t first, int64_t end) {
  using T = typename S::Mode::T;
  const int k = row.k + column.a;
  const int64_t behind = row.k / p.tap_stride * p.step;  // u - i
  const T* x = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + row.ci) * p.x_step[1];
  const T* y = static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + column.co) * p.y_step[1];
  float sum = 0;
#pragma unroll 1
  for (int64_t n = divide(first, p.pitch); n < p.samples && n * p.pitch < end && sum == sum; ++n) {
    const int64_t from = max(int64_t{0}, max(first - n * p.pitch, int64_t{0}) - behind);
    const int64_t to = min(p.l, min(end - n * p.pitch, p.pitch) - behind);
#pragma unroll 1
    for (int64_t i = from; i < to; ++i) {
      const int64_t o = p.stride * i + p.dilation * k - p.padding;
      if (o < 0 || o >= p.lout) continue;
      const auto a = widen(__ldg(x + n * p.x_step[0] + i * p.x_step[2]));
      const auto b = widen(__ldg(y + n * p.y_step[0] + o * p.y_step[2]));
      sum = fma(S::Mode::operand(a), S::Mode::operand(b), sum);
    }
  }
  return sum;
}

// The thread's suspicious sums once more, of all chunks so far: those of its part, or of dw.
template <class S>
__device__ __noinline__ void repair(const Sm90WeightBlockedParams& p, int warpgroup, bool of_dw) {
  using T = typename S::Mode::T;
  const Place at(p, S::kRowBlocks, S::kN);
  const int columns = p.cout_group * p.y_planes - at.column;
#pragma unroll 1
  for (int e = 0; e < S::kRowBlocks * S::kN / 2; ++e) {
    const SumPlace<S> place(at, warpgroup, e / (S::kN / 2), e % (S::kN / 2));
    const Row row(p, at.row_block + place.block, place.inside);
    if (row.k < 0 || place.column >= columns) continue;
    const Column column(p, at.column + place.column);
    if (row.k + column.a >= p.k) continue;
    T* const dw = static_cast<T*>(p.output) + (of_dw ? column.output(p, at, row) : 0);
    float* const to = part_of<S>(p, at) + (place.block * 64 + place.inside) * S::kN + place.column;
    if (!suspicious<typename S::Mode>(of_dw ? widen(*dw) : *to)) continue;
    float sum = 0;
#pragma unroll 1
    for (int chunk = 0; chunk <= p.chunk && sum == sum; ++chunk) {
      const int64_t stages = chunk < p.chunk ? p.chunk_stages : p.stages;
      const int64_t origin = chunk * p.chunk_positions;
      int64_t stage = stages * at.split / p.splits;
      const int64_t end = stages * (at.split + 1) / p.splits;
      for (; stage < end && sum == sum; stage += p.chain) {
        sum += exact_sum<S>(p, at, row, column, origin + stage * S::kPositions,
                            origin + min(end, stage + p.chain) * S::kPositions);
      }
    }
    if (of_dw) {
      *dw = narrow<T>(sum);
    } else {
      *to = sum;
    }
  }
}

#endif

// A block adds the parts of some fours of neighbouring columns, of which some may be no one's: `runs` threads
// to each, whose runs of splits are added in order.
template <class T>
__global__ void __launch_bounds__(kSm90WeightSumThreads)
    sum_kernel(const __grid_constant__ Sm90WeightBlockedSumParams p) {
  __shared__ float4 of_runs[kSm90WeightSumThreads];
  const int outputs = kSm90WeightSumThreads / p.runs;
  const int run = static_cast<int>(threadIdx.x) / outputs, lane = threadIdx.x - run * outputs;
  const uint32_t e = blockIdx.x * static_cast<uint32_t>(outputs) + lane;
  const uint32_t row_in_all = p.by_units.divide(e), tile = p.by_tile_rows.divide(row_in_all);
  const uint32_t row = row_in_all - tile * p.tile_rows, of_columns = p.by_row_tiles.divide(tile);
  const uint32_t row_block = (tile - of_columns * p.by_row_tiles.value) * (p.tile_rows / 64) + row / 64;
  const uint32_t group = p.by_column_tiles.divide(of_columns);
  const uint32_t plane = (of_columns - group * p.by_column_tiles.value) * p.tile_columns +
                         (e - row_in_all * p.by_units.value) * 4;
  const uint32_t planes = p.by_taps.divide(row_block), tap = row_block - planes * p.by_taps.value;
  const uint32_t x_plane = planes * 64 + row % 64, ci = p.by_x_planes.divide(x_plane);
  const int64_t row_k = (x_plane - ci * p.x_planes + int64_t{tap} * p.x_planes) * p.tap_stride;
  const bool there = e < p.part_size / 4 && row_block < static_cast<uint32_t>(p.row_blocks) &&
                     ci < static_cast<uint32_t>(p.cin_group) && row_k < p.k &&
                     plane < static_cast<uint32_t>(p.cout_group * p.y_planes);
  float4 sum = {0, 0, 0, 0};
  auto add = [&](const float4& v) { sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w}; };
  if (there) {
    const float4* const at = static_cast<const float4*>(p.parts) + e;
    const int first = p.splits * run / p.runs, end = p.splits * (run + 1) / p.runs;
#pragma unroll 8
    for (int split = first; split < end; ++split) add(at[split * (p.part_size / 4)]);
  }
  of_runs[threadIdx.x] = sum;
  __syncthreads();
  if (run != 0 || !there) return;
  for (int r = 1; r < p.runs; ++r) add(of_runs[r * outputs + lane]);
  const float v[4] = {sum.x, sum.y, sum.z, sum.w};
  T* const dw = static_cast<T*>(p.output) + (int64_t{group} * p.cin_group + ci) * p.cout_group * p.k + row_k;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t co = p.by_y_planes.divide(plane + i), a = plane + i - co * p.y_planes;
    if (co < static_cast<uint32_t>(p.cout_group) && row_k + a < p.k)
      dw[int64_t{co} * p.k + a] = narrow<T>(v[i]);
  }
}

}  // namespace tconv::cuda::sm90::weight_blocked
