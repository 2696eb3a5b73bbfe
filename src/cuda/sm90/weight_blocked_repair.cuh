// Which element of dw a sum of cuda.sm90.weight_blocked is, and sums that are recomputed: if x or dy is not
// finite, a zero that stands for no element makes NaN of what is no product.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/floor_div.cuh"
#include "cuda/device/nan.cuh"
#include "cuda/device/ptx/sm90.cuh"
#include "cuda/sm90/weight_blocked_pass.cuh"

namespace tconv::cuda::sm90::weight_blocked {

template <class M, int RowBlocks, int N>
struct Shape {
  using Mode = M;
  static constexpr Sm90WeightBlockedLayout kLayout = weight_blocked_layout(M::kMode, M::kScaled);
  static constexpr int kRowBlocks = RowBlocks, kN = N, kRows = 128 * RowBlocks;
  static constexpr int kPositions = kLayout.positions, kParts = kLayout.parts,
                       kRowBytes = kLayout.row_bytes();
  static constexpr bool kUnits = false;  // planes are in UnitOrder
  static constexpr int kPitch = N + 8;   // floats of a staged row: stores of two have no bank conflicts
  static_assert(kLayout.unit_planes == M::kPlanes && kLayout.unit_positions == M::kPositions &&
                kParts == M::kParts);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static constexpr ptx::Operand kType = M::kScaled || M::kMode == Arithmetic::f16 ? ptx::Operand::f16
                                        : M::kMode == Arithmetic::tf32            ? ptx::Operand::tf32
                                                                                  : ptx::Operand::bf16;
#endif
};

// The channel of a plane of x, and its shift. Params: those of the main kernel or of the sum. Units: planes
// are in UnitOrder.
template <bool Units>
struct XPlane {
  int ci, shift;
  template <class Params>
  __device__ XPlane(const Params& p, int plane) {
    if constexpr (Units) {  // all channels at a shift, then at the next
      const int unit = plane / 8;
      shift = static_cast<int>(p.by_x_units.divide(unit));
      ci = p.x_units.channel(unit - shift * static_cast<int>(p.by_x_units.value), plane % 8);
      if (shift >= p.x_planes) ci = p.cin_group;  // no such plane
    } else {
      ci = static_cast<int>(p.by_x_planes.divide(plane));
      shift = plane - ci * p.x_planes;
    }
  }
};

// The channel of a plane of dy, and its phase, which is beyond all taps if there is no such channel.
template <bool Units>
struct Column {
  int co, a;
  template <class Params>
  __device__ Column(const Params& p, int plane) {
    if constexpr (Units) {  // 8 channels, then their next phase
      const int unit = plane / 8, block = static_cast<int>(p.by_y_planes.divide(unit));
      co = p.y_units.channel(block, plane % 8);
      a = co < p.cout_group ? unit - block * p.y_planes : p.k;
    } else {
      const WeightColumns& c = p.in_columns;
      const bool second = plane >= c.first_run;
      const int of_run = second ? plane - c.first_run : plane;
      co = static_cast<int>((second ? c.by_rest : c.by_first).divide(of_run));
      a = second ? c.first + of_run - co * c.rest : of_run - co * c.first;
      if (co >= p.cout_group) a = p.k;
    }
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void store_shared8(uint32_t to, const float2& v) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};\n" ::"r"(to), "f"(v.x), "f"(v.y) : "memory");
}

__device__ inline void store_shared4(uint32_t to, float v) {
  asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(to), "f"(v) : "memory");
}

// A block's part of the problem: first row block, first plane of dy.
struct Place {
  int tile, split, group, row_block, column;
  __device__ Place(const Sm90WeightBlockedParams& p, int row_blocks, int columns) {
    split = blockIdx.x / p.tiles;
    tile = blockIdx.x - split * p.tiles;
    group = tile / p.in_tiles.of_group;
    const WeightTiles::Place at = p.in_tiles.place(tile - group * p.in_tiles.of_group);
    row_block = at.row * 2 * row_blocks;
    column = at.column * columns;
  }
};

// The first x plane and the shift of 64 rows.
struct RowBlock {
  int plane, tap;
  __device__ RowBlock(const Sm90WeightBlockedParams& p, int block) {
    const WeightRows::Place at = p.in_rows.place(block);
    tap = at.shift;
    plane = at.planes * 64;
  }
};

// ci and the part of k for a row of the product; k < 0: the row belongs to no output.
template <bool Units>
struct TapOfRow {
  int ci, k;
  __device__ TapOfRow(const Sm90WeightBlockedParams& p, int block, int inside) {
    k = -1;
    ci = 0;
    if (block >= p.row_blocks) return;
    const RowBlock rows(p, block);
    const XPlane<Units> x(p, rows.plane + inside);
    ci = x.ci;
    if (ci >= p.cin_group) return;
    const int64_t tap = (x.shift + int64_t{rows.tap} * p.x_planes) * p.tap_stride;
    if (tap < p.k) k = static_cast<int>(tap);
  }
};

template <class S>
__device__ inline float* part_of(const Sm90WeightBlockedParams& p, const Place& at) {
  return static_cast<float*>(p.parts) + (int64_t{at.split} * p.tiles + at.tile) * S::kRows * S::kN;
}

// The position at a sample's first place.
template <class S>
__device__ inline int64_t first_place(const Sm90WeightBlockedParams& p) {
  return S::kUnits ? p.first_u : 0;
}

// Fused multiply-adds over the products that exist at places [first, end) of the axis of all samples, by all
// lanes of a warp, each with kAtOnce loads under way.
template <class S, int kAtOnce>
__device__ inline float exact_sum(const Sm90WeightBlockedParams& p, const Place& at,
                                  const TapOfRow<S::kUnits>& row, const Column<S::kUnits>& column,
                                  int64_t first, int64_t end) {
  using T = typename S::Mode::T;
  const int k = row.k + column.a, lane = threadIdx.x % 32;
  const int64_t behind = row.k / p.tap_stride * p.step;  // u - i
  const T* x = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + row.ci) * p.x_step[1];
  const T* y = static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + column.co) * p.y_step[1];
  float sum = 0;
#pragma unroll 1
  for (int64_t base = first; base < end && !__any_sync(~0u, sum != sum); base += 32 * kAtOnce) {
    T a[kAtOnce], b[kAtOnce];
    bool there[kAtOnce];
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const int64_t place = base + 32 * e + lane, n = p.by_pitch.divide(static_cast<uint32_t>(place));
      const int64_t i = place - n * p.pitch + first_place<S>(p) - behind,
                    o = p.stride * i + p.dilation * k - p.padding;
      there[e] = place < end && n < p.samples && i >= 0 && i < p.l && o >= 0 && o < p.lout;
      a[e] = there[e] ? __ldg(x + n * p.x_step[0] + i * p.x_step[2]) : T(0.f);
      b[e] = there[e] ? __ldg(y + n * p.y_step[0] + o * p.y_step[2]) : T(0.f);
    }
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      if (there[e]) sum = fma(S::Mode::operand(widen(a[e])), S::Mode::operand(widen(b[e])), sum);
    }
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  return sum;
}

// Whether an operand that is not finite meets zeros that stand for none, so that a sum may be NaN without any
// product: x where there is no dy, or dy where there is no x. Called by all lanes of a warp; it looks at few
// positions of a sample, those at its ends.
template <class S>
__device__ inline bool meets_zeros(const Sm90WeightBlockedParams& p, const Place& at,
                                   const TapOfRow<S::kUnits>& row, const Column<S::kUnits>& column) {
  using T = typename S::Mode::T;
  const int k = row.k + column.a, lane = threadIdx.x % 32;
  const int64_t behind = row.k / p.tap_stride * p.step, first = p.padding - int64_t{p.dilation} * k;
  // There is dy for i in [begin, end); places of a sample are those of i in [front, front + pitch).
  const int64_t begin = floor_div(first + p.stride - 1, p.stride),
                end = max(begin, floor_div(first + p.lout - 1, p.stride) + 1), l = p.l;
  const int64_t front = first_place<S>(p) - behind;
  const int64_t from[4] = {0, min(max(end, int64_t{0}), l), max(begin, front), max(begin, l)};
  const int64_t to[4] = {min(max(begin, int64_t{0}), l), l, min(end, int64_t{0}), min(end, front + p.pitch)};
  const T* x = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + row.ci) * p.x_step[1];
  const T* y = static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + column.co) * p.y_step[1];
  bool found = false;
#pragma unroll 1
  for (int range = 0; range < 4; ++range) {
    const int64_t each = to[range] - from[range];
#pragma unroll 1
    for (int64_t e = lane; e - lane < each * p.samples && !__any_sync(~0u, found); e += 32) {
      if (e >= each * p.samples) continue;
      const int64_t n = divide(e, each), i = from[range] + e - n * each;
      const T v = range < 2 ? __ldg(x + n * p.x_step[0] + i * p.x_step[2])
                            : __ldg(y + n * p.y_step[0] +
                                    (p.stride * i + int64_t{p.dilation} * k - p.padding) * p.y_step[2]);
      found = !is_finite(S::Mode::operand(widen(v)));
    }
  }
  return __any_sync(~0u, found);
}

// Recomputes the sums of a row that lanes have marked, over all chunks so far; bit c is for column lane +
// 32*c. They replace the staged ones. nan: those of the marked sums that are NaN; they stay NaN if only
// products can have made them so.
template <class S>
__device__ __noinline__ void repair(const Sm90WeightBlockedParams& p, int block, int inside, uint32_t marked,
                                    uint32_t nan, uint32_t staged) {
  const Place at(p, S::kRowBlocks, S::kN);
  const TapOfRow<S::kUnits> row(p, at.row_block + block, inside);
#pragma unroll 1
  for (int c = 0; c < S::kN / 32; ++c) {
    uint32_t lanes = __ballot_sync(~0u, marked >> c & 1);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int at_column = __ffs(static_cast<int>(lanes)) - 1 + 32 * c;
      const Column<S::kUnits> column(p, at.column + at_column);
      const bool there = row.k + column.a < p.k;
      const bool is_nan = __shfl_sync(~0u, nan >> c & 1, at_column % 32) != 0;
      // If everything is NaN, so are the first products. The parts of an infinite number in ieee float32 are
      // NaN.
      float sum = there ? exact_sum<S, 1>(p, at, row, column, 0, 32) : 0;
      const bool right =
          there && (sum != sum || (S::kParts == 1 && is_nan && !meets_zeros<S>(p, at, row, column)));
      sum = right ? __int_as_float(kNanF32) : 0;
#pragma unroll 1
      for (int chunk = 0; chunk <= p.chunk && there && !right; ++chunk) {
        const int64_t stages = chunk < p.chunk ? p.chunk_stages : p.stages;
        const int64_t origin = chunk * p.chunk_positions;
        sum += exact_sum<S, 8>(p, at, row, column, origin + stages * at.split / p.splits * p.stage_positions,
                               origin + stages * (at.split + 1) / p.splits * p.stage_positions);
      }
      if (threadIdx.x % 32 == 0) store_shared4(staged + at_column * 4, sum);
    }
  }
  __syncwarp();
}

#endif

}  // namespace tconv::cuda::sm90::weight_blocked
