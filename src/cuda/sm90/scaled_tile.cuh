// What is known of a tile whose channel blocks hold float32 in float16 (blocked_scale.cuh): what undoes the
// scale of x, and below which magnitude a sum may be wrong.
#pragma once

#include "cuda/sm90/arithmetic.cuh"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/schedule.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// For a tile: whether an operand was too small to split, or sums may be wrong in float16; what undoes x's
// scale; and of channel blocks of float16, below which magnitude a sum may be wrong.
struct Seen {
  bool marked = false;
  float unscale = 1, least = 0;
};

// How many of a tile's columns, from this one on, the pass has written for: what later ones read is whatever
// was in memory.
template <class S>
__device__ inline int written_columns(const Sm90ScaledParams& p, int tile, int first) {
  const int of_row = p.columns.folded ? tile : tile % static_cast<int>(p.columns.sample_tiles.value);
  const int64_t column = int64_t{of_row} * S::kColumns + first;
  return static_cast<int>(max(int64_t{0}, min(p.pitch - p.front - column, int64_t{S::kColumns})));
}

// How often the sums of a tile go over all slabs, for the warps that load: twice if its scale is wide, with
// tails the second time.
template <class S>
class Sweeps {
 public:
  using Params = typename S::Params;
  __device__ explicit Sweeps(const Params& p) {
    if constexpr (kScaledBlocks<S>) any_ = *p.seen.any != 0;
  }
  template <class Walk>
  __device__ int of_tile(const Params& p, const Block& block, const Walk& walk) const {
    if constexpr (kScaledBlocks<S>) {
      const int n = p.columns.folded ? 0 : static_cast<int>(p.columns.sample_tiles.divide(walk.tile));
      return any_ && p.seen.wide[block.group * p.row_samples + n] != 0 ? 2 : 1;
    } else {
      return 1;
    }
  }

 private:
  bool any_ = false;
};

// Of a warp. One load brings all it must know, a word a lane: the marks of the row block, the exponent, and
// counters of tiny numbers.
template <class S>
class ScaledBlocksTile {
 public:
  __device__ ScaledBlocksTile(const Sm90ScaledParams& p, const Block& block, int tile, int row_block)
      : p_(p) {
    const int n = p.columns.folded ? 0 : static_cast<int>(p.columns.sample_tiles.divide(tile));
    const int of_row = p.columns.folded ? tile : tile - n * static_cast<int>(p.columns.sample_tiles.value);
    const int64_t scale = block.group * p.row_samples + n;
    const int64_t column = p.front + int64_t{of_row} * S::kColumns;
    piece_ = static_cast<int>(max(int64_t{0}, column - p.reach) / kSm90TinyUnits);
    last_piece_ = static_cast<int>(min(column + S::kColumns - 1, p.pitch - 1) / kSm90TinyUnits);
    tiny_ = p.seen.tiny + scale * p.seen.pieces;
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < kMarks) {
      const auto* marks = static_cast<const unsigned char*>(p.operands.packed) + p.weights.marks_at +
                          (int64_t{block.group} * p.sizes.row_blocks + row_block) * kSm90RowMarks;
      if (row_block < p.sizes.row_blocks) word_ = reinterpret_cast<const uint32_t*>(marks)[lane];
    } else if (lane == kMarks) {
      word_ = static_cast<uint32_t>(p.seen.exponents[scale]);
    } else if (lane == kMarks + 1) {
      word_ = p.seen.wide[scale];
    } else if (lane == kMarks + 2) {
      word_ = p.seen.lost[scale];
    } else if (piece_ + lane - kPieces <= last_piece_) {
      word_ = tiny_[piece_ + lane - kPieces];
    }
  }

  // By all lanes: whether sums go over tails too.
  __device__ bool wide() const { return __any_sync(~0u, threadIdx.x % 32 == kMarks + 1 && word_ != 0); }

  // By all lanes.
  __device__ Seen seen() const {
    constexpr uint32_t kMost = 1 << 24;  // float32 counts as far
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint32_t tiny = lane < kPieces ? 0 : min(word_, kMost);
#pragma unroll 1
    for (int piece = piece_ + 32 - kPieces + lane; piece <= last_piece_; piece += 32)
      tiny = min(tiny + min(tiny_[piece], kMost), kMost);
    tiny = __reduce_add_sync(~0u, tiny);
    float off = static_cast<float>(tiny);
    if (wide()) off = static_cast<float>(__shfl_sync(~0u, word_, kMarks + 2)) * kTailDown;
    if (__any_sync(~0u, lane < kMarks && word_ != 0)) {
      off += static_cast<float>(
          min(static_cast<uint32_t>(p_.sizes.cin_group) * static_cast<uint32_t>(p_.sizes.taps), kMost));
    }
    const int exponent = static_cast<int>(__shfl_sync(~0u, word_, kMarks));
    return {false, power_of_two(exponent), off * p_.marks.least_sum};
  }

 private:
  static constexpr int kMarks = kSm90RowMarks / 4, kPieces = kMarks + 3;  // the first lanes with either

  const Sm90ScaledParams& p_;
  int piece_, last_piece_;
  const uint32_t* tiny_;
  uint32_t word_ = 0;
};

#endif

}  // namespace tconv::cuda::sm90
