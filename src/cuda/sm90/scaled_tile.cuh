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
    } else if (piece_ + lane - kPieces <= last_piece_) {
      word_ = tiny_[piece_ + lane - kPieces];
    }
  }

  // By all lanes.
  __device__ Seen seen() const {
    constexpr uint32_t kMany = 1 << 24;  // float32 counts as far
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint32_t tiny = lane < kPieces ? 0 : min(word_, kMany);
#pragma unroll 1
    for (int piece = piece_ + 32 - kPieces + lane; piece <= last_piece_; piece += 32)
      tiny = min(tiny + min(tiny_[piece], kMany), kMany);
    tiny = __reduce_add_sync(~0u, tiny);
    if (__any_sync(~0u, lane < kMarks && word_ != 0)) {
      tiny += min(static_cast<uint32_t>(p_.sizes.cin_group) * static_cast<uint32_t>(p_.sizes.taps), kMany);
    }
    const int exponent = static_cast<int>(__shfl_sync(~0u, word_, kMarks));
    return {false, power_of_two(exponent), static_cast<float>(tiny) * p_.marks.least_sum};
  }

 private:
  static constexpr int kMarks = kSm90RowMarks / 4, kPieces = kMarks + 1;  // the first lanes with either

  const Sm90ScaledParams& p_;
  int piece_, last_piece_;
  const uint32_t* tiny_;
  uint32_t word_ = 0;
};

#endif

}  // namespace tconv::cuda::sm90
