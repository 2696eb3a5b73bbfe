// WindowWriter: windows of float32 rows if the stride is 1. Each row is staged as far after a 16-byte
// boundary as it lies in y, so that a lane's vector in shared memory is a vector of y. (TileWriter's other
// windows are all staged the same way, and each vector is put together from two.)
//
//   for each 32 packed rows:
//     stage 128 positions of each; wait for the warpgroup
//     each warp stores 8 rows' vectors, loads first: a load takes 30 cycles; wait
//
// Rows 8 apart lie alike in y except for whole sectors, whatever its length: what a lane and a warp need to
// know of rows is the same in all passes.
#pragma once

#include "cuda/sm90/staged_rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class WindowWriter : StagedRows<S> {
 public:
  using Mode = typename S::Mode;
  using Sums = TileSums<S>;
  static constexpr bool kAble = sizeof(typename Mode::T) == 4 && S::kOwn == 4;

  // rows: shared address of the lane's first packed row; at: its first position.
  __device__ WindowWriter(const StagedRows<S>& staged, uint32_t rows, int at)
      : StagedRows<S>(staged),
        rows_(rows),
        pitch_(p_.writer.row_pitch * 4),
        step_(p_.sizes.lout * 4),
        own_(staged_ + lane_ % 4 * 2 * pitch_ + at * 4) {}

  // Whether tiles with rows like the one at this address are stored this way.
  __device__ bool takes(uintptr_t row, int couts) const {
    return p_.writer.shifted && couts >= S::kRowBlocks * kSm90Rows && row % (kNeighbours ? 8 : 4) == 0 &&
           this->has_vectors();
  }

  // row: of the run's first cout, from the tile's first output on.
  __device__ void store(const Sums& sums, uintptr_t row, float unscale) const {
    const uint32_t low = static_cast<uint32_t>(row), step = static_cast<uint32_t>(step_);
    const uint32_t first = low + lane_ % 4 * 2 * step;
    Place place{own_ + (first & 15), own_ + pitch_ + ((first + step) & 15), {}, {}};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int r = warp_ + 4 * c;
      const uint32_t begin = low + r * step, before = this->before_window(begin);
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
    sync_warpgroup(warpgroup_);
    if (lane_ < p_.writer.row_vectors) copy(place);
    sync_warpgroup(warpgroup_);
    place.to[0] += 32 * step_;
    place.to[1] += 32 * step_;
    if constexpr (Pass + 1 < 2 * S::kRowBlocks) store_pass<Pass + 1>(sums, place, unscale);
  }
  template <int Pass>
  __device__ void stage(const Sums& sums, int j, int e, uint32_t to, float unscale) const {
    float v[4];
    tile_outputs<S>(sums, rows_, Pass * 4 + j, e, unscale, v);
    to += 8 * j * pitch_;
    if constexpr (kNeighbours) {
      ptx::store_shared8(to, {element_bits(v[0]), element_bits(v[1])});
      ptx::store_shared8(to + 8, {element_bits(v[2]), element_bits(v[3])});
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::store_shared4(to + i * S::kApart * 4, element_bits(v[i]));
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

  using StagedRows<S>::p_;
  using StagedRows<S>::lane_;
  using StagedRows<S>::warp_;
  using StagedRows<S>::warpgroup_;
  using StagedRows<S>::staged_;

  uint32_t rows_;
  int pitch_;
  int64_t step_;
  uint32_t own_;
};

#endif

}  // namespace tconv::cuda::sm90
