// How a warp turns boxes of raw rows, for turned_stages.cuh.
#pragma once

#include <type_traits>

#include "cuda/device/ptx/stmatrix.cuh"
#include "cuda/sm90/turned_source.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Turns boxes of a channel block, box by box, all pieces of one at once: a piece has 8 channels x 32
// positions. Of a piece's four matrices of 8 channels x 8 positions, lane i stores position i; for ldmatrix
// it has row i%8, a channel. Where each lane stores follows from phases, which cost ten instructions a piece;
// in the next box all of it is the same number of columns further, if a box is a multiple of the stride long.
template <class S>
class BoxTurner {
 public:
  // Where a position of x goes.
  struct Place {
    int column, phase;
  };

  // nowhere: 16 bytes of the lane's own, which nobody reads.
  __device__ BoxTurner(const Sm90TurnedParams& p, uint32_t nowhere) : p_(p), nowhere_(nowhere) {}

  // unit: in lane i, where the unit of phase i begins, or 0. at: of the lane's first position.
  __device__ void turn(uint32_t from, uint32_t unit, Place at, int boxes) const {
    const int lane = threadIdx.x % 32;
    from += kWords ? 4 * lane : lane % 8 * p_.raw.box * 2 + lane / 8 * 16;
    switch (p_.raw.pieces) {
      case 3:
        return turn_boxes<3>(from, unit, at, boxes);
      case 4:
        return turn_boxes<4>(from, unit, at, boxes);
      case 5:
        return turn_boxes<5>(from, unit, at, boxes);
      case 6:
        return turn_boxes<6>(from, unit, at, boxes);
      default:
        return turn_boxes<7>(from, unit, at, boxes);
    }
  }

 private:
  static constexpr int kSize = sizeof(typename S::Mode::T);
  static constexpr bool kWords = kSize == 4;
  static constexpr int kPieceBytes = kSm90TurnedPiece * kSize;  // of a row

  template <int kPieces>
  __device__ void turn_boxes(uint32_t from, uint32_t unit, Place at, int boxes) const {
    uint32_t to[kPieces], step[kPieces];
    set_targets(unit, at, to, step);
#pragma unroll 1
    while (true) {
      move<kPieces>(from, to);
      if (--boxes == 0) return;
      from += p_.raw.box_bytes;
      if (p_.raw.box_columns == 0) {
        set_targets(unit, at, to, step);
        continue;
      }
#pragma unroll
      for (int q = 0; q < kPieces; ++q) to[q] += step[q];
    }
  }
  // Of a box, and how far the next box's are; then `at` is of the next box.
  template <int kPieces>
  __device__ void set_targets(uint32_t unit, Place& at, uint32_t (&to)[kPieces],
                              uint32_t (&step)[kPieces]) const {
    if (p_.raw.phases_over == 0) {
      const uint32_t of_phase = __shfl_sync(0xffffffffu, unit, at.phase);
      uint32_t next = of_phase != 0 ? of_phase + 16 * at.column : nowhere_;
      const uint32_t piece = of_phase != 0 ? 16 * p_.raw.columns : 0;
#pragma unroll
      for (int q = 0; q < kPieces; ++q, next += piece) {
        to[q] = next;
        step[q] = kPieces * piece;
      }
      return;
    }
#pragma unroll
    for (int q = 0; q < kPieces; ++q) {
      const uint32_t of_phase = __shfl_sync(0xffffffffu, unit, at.phase);
      to[q] = of_phase != 0 ? of_phase + 16 * at.column : nowhere_;
      step[q] = of_phase != 0 ? 16 * p_.raw.box_columns : 0;
      asm volatile("" : "+r"(step[q]));  // or it is found anew for each box
      next_piece(at);
    }
  }
  __device__ void next_piece(Place& at) const {
    at.phase += p_.raw.phases_over;
    at.column += p_.raw.columns;
    if (at.phase >= p_.raw.stride) {
      at.phase -= p_.raw.stride;
      ++at.column;
    }
  }

  template <int kPieces>
  __device__ void move(uint32_t row, const uint32_t (&to)[kPieces]) const {
    // A piece of float32 takes eight registers.
    constexpr int kAtOnce = kWords ? 2 : kPieces;
#pragma unroll
    for (int q = 0; q < kPieces; q += kAtOnce) {
      Piece pieces[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce && q + i < kPieces; ++i) pieces[i] = load(row + (q + i) * kPieceBytes);
#pragma unroll
      for (int i = 0; i < kAtOnce && q + i < kPieces; ++i) store(to[q + i], pieces[i]);
    }
  }

  // A lane's share of 8 channels x 32 positions: of each channel a word, or what ldmatrix gives.
  struct Words {
    uint32_t of[8];
  };
  using Piece = std::conditional_t<kWords, Words, uint4>;

  __device__ Piece load(uint32_t row) const {
    if constexpr (kWords) {
      Words v;
#pragma unroll
      for (int c = 0; c < 8; ++c) v.of[c] = ptx::load_shared4(row + c * (p_.raw.box * 4));
      return v;
    } else {
      return ptx::load_matrices(row);
    }
  }
  // A whole unit or, of float32, its halves: 4 channels each.
  __device__ void store(uint32_t to, const Piece& v) const {
    if constexpr (kWords) {
      const uint32_t half = to == nowhere_ ? 0 : p_.source.pitch * 16u;
      ptx::store_shared16(to, {v.of[0], v.of[1], v.of[2], v.of[3]});
      ptx::store_shared16(to + half, {v.of[4], v.of[5], v.of[6], v.of[7]});
    } else {
      ptx::store_matrices_transposed(to, v);
    }
  }

  const Sm90TurnedParams& p_;
  uint32_t nowhere_;
};

#endif

}  // namespace tconv::cuda::sm90
