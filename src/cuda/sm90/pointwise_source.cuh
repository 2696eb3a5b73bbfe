// The stages of cuda.sm90.pointwise (pointwise.hpp). An operand lies in boxes of rows of 128 bytes, as a
// tensor copy with the 128-byte swizzle leaves them: 16-byte unit u of row r is at u ^ r % 8.
//
//   x               boxes of 128 bytes of positions; a row for each channel of the slab
//   w[r][c]         one box; a row for each r, the slab's channels
//   w[c][r]         boxes of 128 bytes of r; a row for each channel
#pragma once

#include "cuda/device/ptx/sm90_tf32.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/sm80/pointwise_source.cuh"
#include "cuda/sm90/pointwise.hpp"

namespace tconv::cuda::sm90::pointwise {

// Has what Place, repair and store_outputs of cuda.sm80.pointwise ask of a shape.
template <class Arithmetic, int kTileIndex, bool kWeightsTurned, bool kCopiedByThreads>
struct Shape {
  using A = Arithmetic;
  using T = typename A::T;
  static constexpr Sm90PointwiseTile kTile = kSm90PointwiseTiles[kTileIndex];
  static constexpr bool kTurned = kWeightsTurned, kThreadsCopy = kCopiedByThreads;
  static constexpr int kElement = sizeof(T);
  static constexpr int kRows = kTile.rows, kColumns = kTile.columns;
  static constexpr int kSlab = kPointwiseSlabBytes / kElement, kSteps = kSlab / A::kDepth;
  static constexpr bool kTurns = sm90_pointwise_turns(kElement, kTurned);
  static constexpr int kBoxBytes = kSlab * 128;  // of x, and of weights w[c][r]
  static constexpr int kWide = 128 / kElement;   // elements of a row of a box
  static constexpr int kXAt = kRows * kPointwiseSlabBytes;
  static constexpr int kStageBytes = sm90_pointwise_stage_bytes(kTile);
  static constexpr int kSumPitch = kColumns + kSm90PointwiseSumPad;
  static constexpr int kN = kTile.wgmma_rows(), kProducts = kTile.group_rows() / kN;
  static_assert(kSteps == 4 && kRows % kWide == 0 && kColumns % kWide == 0);
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using sm80::pointwise::Place;

// By one thread: a slab to a stage.
template <class S>
__device__ __forceinline__ void copy_slab(const Sm90PointwiseParams& p, const Place& place, int slab,
                                          uint32_t stage, uint32_t full) {
  ptx::barrier_arrive_expect(full, S::kStageBytes);
  const int c = slab * S::kSlab;
#pragma unroll
  for (int box = 0; box < S::kColumns / S::kWide; ++box) {
    const int from[4] = {static_cast<int>(place.first_column) + box * S::kWide, c, place.group, place.n};
    ptx::tensor_load(stage + S::kXAt + box * S::kBoxBytes, &p.x_map, from, full);
  }
  if constexpr (S::kTurned) {
#pragma unroll
    for (int box = 0; box < S::kRows / S::kWide; ++box) {
      const int from[4] = {place.first_row + box * S::kWide, c, place.group, 0};
      ptx::tensor_load(stage + box * S::kBoxBytes, &p.weight_map, from, full);
    }
  } else {
    const int from[4] = {c, place.first_row, place.group, 0};
    ptx::tensor_load(stage, &p.weight_map, from, full);
  }
}

// Rounds to tf32 as tensor copies do: to nearest, ties to even.
__device__ __forceinline__ uint32_t rounded_as_copied(uint32_t u) {
  const uint32_t magnitude = u & 0x7fffffffu;
  return magnitude > kInfBits ? u | 0x400000u : u + 0xfffu + (u >> 13 & 1u) & kTf32Mask;
}

// By all threads: `rows` rows of kBoxes boxes, of which `there` rows and `columns` elements exist; the rest
// become zeros. kRounded: float32 is rounded, as tensor copies of weights do.
template <class T, int kBoxes, bool kRounded>
__device__ __forceinline__ void fill_boxes(uint32_t to, const T* from, int64_t step, int rows, int there,
                                           int columns) {
  constexpr int kElement = sizeof(T), kUnit = 16 / kElement, kUnits = kBoxes * 8;
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * kUnits; i += kPointwiseThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    alignas(16) T held[kUnit];
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      const int column = unit * kUnit + e;
      held[e] = row < there && column < columns ? __ldg(from + row * step + column) : T(0.f);
    }
    uint4 v = *reinterpret_cast<const uint4*>(held);
    if constexpr (kRounded)
      v = {rounded_as_copied(v.x), rounded_as_copied(v.y), rounded_as_copied(v.z), rounded_as_copied(v.w)};
    ptx::store_shared16(to + unit / 8 * rows * 128 + row * 128 + (unit % 8 ^ row % 8) * 16, v);
  }
}

template <class S>
__device__ __noinline__ void fill_slab(const Sm90PointwiseParams& p, int slab, uint32_t stage) {
  using T = typename S::T;
  constexpr bool kRounded = S::kElement == 4;
  const Place place(p, S::kRows, S::kColumns);
  const int c = slab * S::kSlab, channels = min(S::kSlab, p.depth - c);
  const T* x = static_cast<const T*>(p.x) + place.n * p.x_step[0] +
               (int64_t{place.group} * p.depth + c) * p.x_step[1] + place.first_column;
  fill_boxes<T, S::kColumns / S::kWide, false>(stage + S::kXAt, x, p.x_step[1], S::kSlab, channels,
                                               place.columns);
  const T* weight = static_cast<const T*>(p.weight) + int64_t{place.group} * p.rows * p.depth;
  if constexpr (S::kTurned) {
    fill_boxes<T, S::kRows / S::kWide, kRounded>(stage, weight + c * p.weight_step + place.first_row,
                                                 p.weight_step, S::kSlab, channels, place.rows);
  } else {
    fill_boxes<T, 1, kRounded>(stage, weight + place.first_row * p.weight_step + c, p.weight_step, S::kRows,
                               place.rows, channels);
  }
}

// Float32 weights w[c][r] of a stage on their way to rows r in the same place. A warp has four channels, a
// lane one of them and every eighth row. Between load and store, all threads must have loaded.
template <class S>
class Turned {
 public:
  __device__ __forceinline__ void load(uint32_t stage) {
    const int c = channel(), r = row();
    const uint32_t from = stage + c * 128 + r % 4 * 4;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int unit = i % 4 * 2 + r / 4;
      held_[i] = ptx::load_shared4(from + i / 4 * S::kBoxBytes + (unit ^ c % 8) * 16);
    }
  }
  __device__ __forceinline__ void store(uint32_t stage) const {
    const int c = channel(), r = row();
    const uint32_t to = stage + r * 128 + (c / 4 ^ r) * 16 + c % 4 * 4;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) ptx::store_shared4(to + i * 1024, held_[i]);
  }

 private:
  static constexpr int kOwn = S::kRows / 8;
  static_assert(kPointwiseThreads / 32 * 4 == S::kSlab || !S::kTurns);

  __device__ static int channel() {
    return static_cast<int>(threadIdx.x) / 32 * 4 + static_cast<int>(threadIdx.x) % 4;
  }
  __device__ static int row() {
    return static_cast<int>(threadIdx.x) % 32 / 4;
  }

  uint32_t held_[kOwn];
};

#endif

}  // namespace tconv::cuda::sm90::pointwise
