// The last sums of float32 held in float16 (weight_blocked_scale.cuh), of a warp: what undoes the scales of a
// row and a column, and whether a sum may miss too much.
#pragma once

#include "cuda/sm90/weight_blocked_repair.cuh"

namespace tconv::cuda::sm90::weight_blocked {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What undoes the scale of one plane, and how many of its numbers are tiny, or more.
struct PlaneScale {
  float factor = 1;
  uint32_t tiny = 0;
  PlaneScale() = default;
  __device__ PlaneScale(float factor, uint32_t tiny) : factor(factor), tiny(tiny) {}
  __device__ PlaneScale(const Sm90WeightSeen& seen, int rows, int64_t group, int plane) {
    if (plane >= rows * 8) return;
    factor = power_of_two(seen.exponents[group * rows * 8 + plane]);
    tiny = seen.tiny[group * rows + plane / 8];
  }
  __device__ int exponent() const { return exponent_in(factor); }
  // Nothing is missed, and products of a sum with two such factors stay in float32's range.
  __device__ bool plain() const {
    constexpr int kMost = 60;
    return tiny == 0 && exponent() <= kMost && exponent() >= -kMost;
  }
};

// Stands for a sum that is to be recomputed. The tensor cores make no such NaN.
constexpr uint32_t kMissing = 0x7fc55555u;

// Rounded once: the first factor goes half of the way.
__device__ inline float unscaled(float sum, const PlaneScale& row, const PlaneScale& column) {
  const uint32_t tiny = row.tiny + column.tiny;
  if (tiny != 0 && !(fabsf(sum) >= 16.f * static_cast<float>(tiny))) return __uint_as_float(kMissing);
  const int exponent = row.exponent() + column.exponent(), half = exponent / 2;
  return sum * power_of_two(half) * power_of_two(exponent - half);
}

// Sums that are not scaled, or no longer.
struct NoScales {
  template <int Each>
  __device__ void undo(float (&/*sums*/)[Each], int /*r*/) const {}
};

// The scales of a warp's rows and columns. Lanes have columns lane + 32*c; lane r knows row r.
template <class S, bool = S::Mode::kScaled>
class WarpScales : public NoScales {
 public:
  __device__ WarpScales(const Sm90WeightBlockedParams&, const Place&, int /*warpgroup*/) {}
  __device__ bool plain() const { return true; }
};

template <class S>
class WarpScales<S, true> {
 public:
  __device__ WarpScales(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup) {
    static_assert(S::kRowBlocks <= 2);  // 32 rows
    const int lane = threadIdx.x % 32, block = warpgroup * S::kRowBlocks + lane % (16 * S::kRowBlocks) / 16;
    const int inside = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane % 16;
    of_rows_ = {p.x_seen, p.x_rows, at.group, RowBlock(p, at.row_block + block).plane + inside};
#pragma unroll
    for (int c = 0; c < S::kN / 32; ++c) {
      columns_[c] = {p.y_seen, p.y_rows, at.group, at.column + lane + 32 * c};
    }
  }
  // The same in all lanes: whether nothing is missed, and undo() stays in float32's range.
  __device__ bool plain() const {
    bool plain = of_rows_.plain();
#pragma unroll
    for (const PlaneScale& column : columns_) plain = plain && column.plain();
    return __all_sync(~0u, plain);
  }
  __device__ void undo(float (&sums)[S::kN / 32], int r) const {
    const float factor = __shfl_sync(~0u, of_rows_.factor, r);
#pragma unroll
    for (int c = 0; c < S::kN / 32; ++c) sums[c] *= factor * columns_[c].factor;
  }
  // If it is not plain.
  __device__ void undo_carefully(float (&sums)[S::kN / 32], int r) const {
    const PlaneScale row(__shfl_sync(~0u, of_rows_.factor, r), __shfl_sync(~0u, of_rows_.tiny, r));
#pragma unroll
    for (int c = 0; c < S::kN / 32; ++c) sums[c] = unscaled(sums[c], row, columns_[c]);
  }

 private:
  PlaneScale of_rows_, columns_[S::kN / 32];
};

// The staged sums of a warp: adds the split's part, undoes the scales, and puts kMissing where a sum may miss
// too much, or where an infinity may have met a number that became zero.
template <class S>
__device__ inline void unscale(const Sm90WeightBlockedParams& p, const Place& at, int warpgroup,
                               uint32_t staging, bool first) {
  constexpr int kEach = S::kN / 32;
  const WarpScales<S> scales(p, at, warpgroup);
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int r = 0; r < 16 * S::kRowBlocks; ++r) {
    const int row = (warpgroup * S::kRowBlocks + r / 16) * 64 + threadIdx.x / 32 % 4 * 16 + r % 16;
    const uint32_t staged = staging + (row * S::kPitch + lane) * 4;
    const float* const part = part_of<S>(p, at) + row * S::kN + lane;
    float v[kEach];
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      v[c] = __uint_as_float(ptx::load_shared4(staged + 128 * c)) + (first ? 0.f : part[32 * c]);
    }
    scales.undo_carefully(v, r);
#pragma unroll
    for (int c = 0; c < kEach; ++c) ptx::store_shared4(staged + 128 * c, __float_as_uint(v[c]));
  }
  __syncwarp();
}

#endif

}  // namespace tconv::cuda::sm90::weight_blocked
