// TmaSource: raw rows of x into a warpgroup's ring of stages, [channel][position], zeros where there is no x.
#pragma once

#include "cuda/sm90/rings.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// By boxes; one lane issues the copies.
template <class S>
class TmaSource {
 public:
  __device__ TmaSource(const Sm90TmaParams& p, const Block& block, unsigned char* shared, int warpgroup)
      : p_(p), block_(block), warpgroup_(warpgroup) {
    to_ = ptx::shared_address(shared) + warpgroup * p.source.stages * p.source.stage_bytes;
    tiles_ = reinterpret_cast<int*>(shared + p.source.shared_tiles) + warpgroup * kSm90MaxStages;
  }

  __device__ void run(const Rings<S>& rings) const {
    RingPlace raw;
    WarpgroupTiles<S> turns(p_, block_, warpgroup_);
    const int steps = p_.grid.slabs * (32 / S::kChannels);
    for (int tile = turns.take();; tile = turns.take()) {
      const ColumnPlace place = place_of(p_, max(tile, 0));
      const int first = static_cast<int>(p_.columns.first_u) - p_.source.halo + place.column;
      for (int step = 0; step < steps; ++step) {
        const uint32_t full = rings.full(warpgroup_, raw.at);
        ptx::barrier_wait(rings.empty(warpgroup_, raw.at), raw.parity ^ 1);
        if (step < S::kFirst) tiles_[raw.at] = tile;
        if (tile >= 0) {
          ptx::barrier_arrive_expect(full, S::kChannels * p_.source.pitch);
          copy(to_ + raw.at * p_.source.stage_bytes, full, place.n, first, step);
        } else {
          ptx::barrier_arrive(full);
          if (step == S::kFirst - 1) return;
        }
        raw.advance(p_.source.stages);
      }
    }
  }

 private:
  __device__ void copy(uint32_t stage, uint32_t full, int n, int first, int step) const {
    if (S::kGroup > 0 || p_.source.row_classes == 1) {
      const int at[4] = {first, step * S::kChannels, block_.group, n};
      ptx::tensor_load(stage, &p_.source.maps[0], at, full);
      return;
    }
    const int row = n * p_.source.sample_rows + block_.group * p_.sizes.cin_group + step * S::kChannels;
    const int shift = __ffs(p_.source.row_classes) - 1;
#pragma unroll 1
    for (int m = 0; m < p_.source.row_classes; ++m) {
      const int row_of_map = (row - m + p_.source.row_classes - 1) >> shift;  // its first one from there on
      const int at[4] = {first, row_of_map, 0, 0};
      ptx::tensor_load(stage + m * p_.source.region_bytes, &p_.source.maps[m], at, full);
    }
  }

  const Sm90TmaParams& p_;
  const Block& block_;
  int warpgroup_;
  uint32_t to_;
  volatile int* tiles_;
};

// The same if x does not begin on 16 bytes, as tensor copies require: a warp loads the elements of a stage
// one by one, each to where its copy would bring it.
template <class S>
class ElementSource {
 public:
  __device__ ElementSource(const Sm90TmaParams& p, const Block& block, unsigned char* shared, int warpgroup)
      : p_(p), block_(block), warpgroup_(warpgroup), lane_(threadIdx.x % 32) {
    to_ = shared + warpgroup * p.source.stages * p.source.stage_bytes;
    tiles_ = reinterpret_cast<int*>(shared + p.source.shared_tiles) + warpgroup * kSm90MaxStages;
  }

  __device__ void run(const Rings<S>& rings) const {
    const int steps = p_.grid.slabs * (32 / S::kChannels);
    RingPlace raw;
    WarpgroupTiles<S> turns(p_, block_, warpgroup_, lane_ == 0);
    for (;;) {
      const int tile = __shfl_sync(0xffffffffu, lane_ == 0 ? turns.take() : 0, 0);
      for (int step = 0; step < steps; ++step) {
        ptx::barrier_wait(rings.empty(warpgroup_, raw.at), raw.parity ^ 1);
        if (lane_ == 0 && step < S::kFirst) tiles_[raw.at] = tile;
        if (tile >= 0) fill(to_ + raw.at * p_.source.stage_bytes, tile, step);
        ptx::barrier_arrive(rings.full(warpgroup_, raw.at));
        if (tile < 0 && step == S::kFirst - 1) return;
        raw.advance(p_.source.stages);
      }
    }
  }

 private:
  using Word = typename S::Mode::Word;
  static constexpr int kSize = sizeof(Word), kVector = 16 / kSize;

  // A channel of a stage: its element e is from[e], or zero if e is not in [begin, end).
  struct Row {
    const Word* from;
    unsigned char* to;
    int begin, end;
  };

  __device__ Row row_of(unsigned char* stage, int n, int first, int step, int c) const {
    const int classes = S::kGroup > 0 ? 1 : p_.source.row_classes, channel = step * S::kChannels + c;
    const int m = (n * p_.source.sample_rows + block_.group * p_.sizes.cin_group + channel) & (classes - 1);
    const int position = first - (m * p_.source.class_turn & (kVector - 1));  // of element 0
    const bool there = n < p_.sizes.samples && channel < p_.sizes.cin_group;
    Row row;
    row.from = static_cast<const Word*>(p_.operands.x) + n * p_.sizes.x_step[0] +
               (int64_t{block_.group} * p_.sizes.cin_group + channel) * p_.sizes.x_step[1] + position;
    row.to = stage + m * p_.source.region_bytes + c / classes * p_.source.pitch;
    row.begin = max(-position, 0);
    row.end = there ? static_cast<int>(min(p_.sizes.l - position, int64_t{p_.source.width})) : 0;
    return row;
  }

  __device__ void fill(unsigned char* stage, int tile, int step) const {
    const ColumnPlace place = place_of(p_, tile);
    const int first = static_cast<int>(p_.columns.first_u) - p_.source.halo + place.column;
#pragma unroll 1
    for (int c = 0; c < S::kChannels; ++c) {
      const Row row = row_of(stage, place.n, first, step, c);
      if constexpr (kSize == 4) {
#pragma unroll 1
        for (int e = lane_; e < p_.source.width; e += 32) {
          const bool there = e >= row.begin && e < row.end;
          ptx::copy_async4(ptx::shared_address(row.to) + e * 4, there ? row.from + e : p_.operands.x, there);
        }
      } else {
        load(row);
      }
    }
    if constexpr (kSize == 4) {
      ptx::copy_async_commit();
      ptx::copy_async_wait<0>();
    }
  }
  __device__ void load(const Row& row) const {
    constexpr int kLoads = 5;
#pragma unroll 1
    for (int first = lane_; first < p_.source.width; first += 32 * kLoads) {
      Word v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + 32 * i;
        v[i] = e >= row.begin && e < row.end ? __ldg(row.from + e) : Word(0);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + 32 * i;
        if (e < p_.source.width) *reinterpret_cast<Word*>(row.to + e * kSize) = v[i];
      }
    }
  }

  const Sm90TmaParams& p_;
  const Block& block_;
  int warpgroup_, lane_;
  unsigned char* to_;
  volatile int* tiles_;
};

#endif

}  // namespace tconv::cuda::sm90
