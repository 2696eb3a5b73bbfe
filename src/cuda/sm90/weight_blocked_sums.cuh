// Where the sums of cuda.sm90.weight_blocked go: the parts of splits, or dw.
#pragma once

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

}  // namespace tconv::cuda::sm90::weight_blocked
