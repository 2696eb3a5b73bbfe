// Windows of float32 rows where the stride is 1: each row is staged as far behind 16 bytes as it lies in y,
// so that a lane's vector of shared memory is a vector of y. (direct_store.cuh's other windows are staged
// alike, and each vector is put together from two.)
//
//   for each 32 packed rows:
//     stage 128 positions of each; wait for the warpgroup
//     each warp stores 8 rows' vectors, loads first: a load takes 30 cycles; wait
//
// (H200, ms: n64 ci128 co128 l65536 k3 in tf32, each warp by itself 1.26, in the other windows 1.31, in these
// 1.22; l65535 1.64 and 1.34 in these.)
//
// Rows 8 apart lie alike in y but for whole sectors, whatever its length: what a lane and a warp need to know
// of rows is the same in all passes.
#pragma once

#include "cuda/sm90/direct_rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class ShiftedWindows {
 public:
  using Mode = typename S::Mode;
  using Sums = DirectSums<S>;
  static constexpr bool kAble = sizeof(typename Mode::T) == 4 && S::kOwn == 4;

  // staged: the warpgroup's outputs in shared memory; rows: the lane's first packed row there; at: its first
  // position; warp: of the warpgroup.
  __device__ ShiftedWindows(const Sm90Params& p, uint32_t staged, uint32_t rows, int at, int warpgroup,
                            int warp, int lane)
      : p_(p),
        rows_(rows),
        lane_(lane),
        warpgroup_(warpgroup),
        warp_(warp),
        pitch_(p.row_pitch * 4),
        step_(p.lout * 4),
        staged_(staged),
        own_(staged + lane % 4 * 2 * pitch_ + at * 4) {}

  // Whether half tiles of rows like the one at this address are stored so.
  __device__ bool takes(uintptr_t row, int couts) const {
    return p_.shifted && couts >= S::kRowBlocks * kSm90Rows && row % (kNeighbours ? 8 : 4) == 0;
  }

  // row: of the run's first cout, from the half tile's first output on.
  __device__ void store(const Sums& sums, uintptr_t row, float unscale) const {
    const uint32_t low = static_cast<uint32_t>(row), step = static_cast<uint32_t>(step_);
    const uint32_t first = low + lane_ % 4 * 2 * step;
    Place place{own_ + (first & 15), own_ + pitch_ + ((first + step) & 15), {}, {}};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int r = warp_ + 4 * c;
      const uint32_t begin = low + r * step, before = -begin & 31;
      place.to[c] = row + r * step_ + before + lane_ * 16;
      place.from[c] = staged_ + r * pitch_ + (begin & 15) + before + lane_ * 16;
    }
    store_pass<0>(sums, place, unscale);
  }

 private:
  static constexpr bool kNeighbours = S::kApart == 1;

  struct Place {
    uint32_t even, odd;  // where the lane's outputs of rows 2t and 2t + 1 are staged
    uintptr_t to[2];     // its vectors of the warp's rows
    uint32_t from[2];
  };

  template <int Pass>
  __device__ void store_pass(const Sums& sums, Place& place, float unscale) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      stage<Pass>(sums, j, 0, place.even, unscale);
      stage<Pass>(sums, j, 1, place.odd, unscale);
    }
    ptx::named_barrier(1 + warpgroup_, 128);
    if (lane_ < p_.row_vectors) copy(place);
    ptx::named_barrier(1 + warpgroup_, 128);
    place.to[0] += 32 * step_;
    place.to[1] += 32 * step_;
    if constexpr (Pass + 1 < 2 * S::kRowBlocks) store_pass<Pass + 1>(sums, place, unscale);
  }
  template <int Pass>
  __device__ void stage(const Sums& sums, int j, int e, uint32_t to, float unscale) const {
    const DirectRow row =
        direct_row(rows_ + (Pass * 32 + 8 * j + e) * static_cast<uint32_t>(sizeof(DirectRow)));
    const float scale = row.scale * unscale;
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = kNeighbours ? i / 2 : i % 2, below = kNeighbours ? i % 2 : i / 2;
      v[i] = __float_as_uint(direct_output<Mode>(sums[m][Pass * 16 + 4 * j + below * 2 + e], row, scale));
    }
    to += 8 * j * pitch_;
    if constexpr (kNeighbours) {
      ptx::store_shared8(to, {v[0], v[1]});
      ptx::store_shared8(to + 8, {v[2], v[3]});
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::store_shared4(to + i * S::kApart * 4, v[i]);
    }
  }
  __device__ void copy(const Place& place) const {
    uint4 v[2][4];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[c][i] = ptx::load_shared16(place.from[c] + 8 * i * pitch_);
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::store_global16(place.to[c] + 8 * i * step_, v[c][i]);
    }
  }

  const Sm90Params& p_;
  uint32_t rows_;
  int lane_, warpgroup_, warp_, pitch_;
  int64_t step_;
  uint32_t staged_, own_;
};

#endif

}  // namespace tconv::cuda::sm90
