// The sources of cuda.sm90.weight: how x and dy get into a slot. The threads of the first warpgroup run both.
#pragma once

#include "cuda/device/ptx/sm90_tf32.cuh"
#include "cuda/sm80/weight_stage.cuh"
#include "cuda/sm90/weight.hpp"

namespace tconv::cuda::sm90::weight {

using sm80::weight::Place;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using sm80::weight::Piece;
using sm80::weight::Skew;

// Rounds to tf32 as a tensor copy does.
__device__ inline uint32_t to_tf32_nearest(uint32_t u) {
  uint32_t r;
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(__uint_as_float(u)));
  return r;
}

template <class S>
class SourceX {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T), kBlock = kSm90WeightBlock / kElement;

  __device__ SourceX(const Sm90WeightParams& p, const Place& at)
      : p_(p), channel_(at.group * p.k.cin_group + at.row), rows_(min(S::kColumns, p.k.cin_group - at.row)) {}

  // Run by one thread: blocks of 128 bytes, zeros beyond the sample.
  __device__ void copy_tensor(int64_t stage, uint32_t to, uint32_t full) const {
    const int blocks = (p_.k.piece << p_.k.pieces_shift) / kBlock;
    ptx::barrier_arrive_expect(full, blocks * p_.box_rows * kSm90WeightBlock);
    for (int b = 0; b < blocks; ++b) {
      const int position = b * kBlock;
      const Piece piece(p_.k, (stage << p_.k.pieces_shift) + (position >> p_.k.piece_shift));
      const int i = static_cast<int>(piece.i) + (position & p_.k.piece - 1);
      // No sample: beyond the last position all is zero.
      const int at[4] = {piece.there ? i : static_cast<int>(p_.k.l), channel_, static_cast<int>(piece.n), 0};
      ptx::tensor_load(to + b * S::kColumns * kSm90WeightBlock, &p_.map, at, full);
    }
  }

  // Fills the same slot by elements. A thread keeps its position, a stage's positions being a power of two.
  __device__ void copy_elements(int64_t stage, uint32_t to, int thread) const {
    const int shift = p_.k.piece_shift + p_.k.pieces_shift;
    const int turns = max(1, 1 << shift >> 7);  // of 128 threads along positions
    for (int turn = 0; turn < turns; ++turn) {
      const int position = (thread & (1 << shift) - 1) + turn * kSm90WeightProducers;
      const Piece piece(p_.k, (stage << p_.k.pieces_shift) + (position >> p_.k.piece_shift));
      const int64_t i = piece.i + (position & p_.k.piece - 1);
      const bool inside = piece.there && i < p_.k.l;
      const T* from = static_cast<const T*>(p_.k.x) + channel_ * p_.k.x_step[1] +
                      (inside ? piece.n * p_.k.x_step[0] + i * p_.k.x_step[2] : 0);
      const int row_step = shift >= 7 ? 1 : kSm90WeightProducers >> shift;
      const int byte = position % kBlock * kElement, unit = byte / 16;
      const uint32_t block = to + position / kBlock * S::kColumns * kSm90WeightBlock + byte % 16;
      copy_rows(from, inside, block, unit, shift >= 7 ? 0 : thread >> shift, row_step);
    }
  }

 private:
  __device__ void copy_rows(const T* from, bool inside, uint32_t block, int unit, int first, int step) const {
    constexpr int kAtOnce = 8;
    using Bits = std::conditional_t<kElement == 2, unsigned short, uint32_t>;
    for (int r = first; r < rows_; r += kAtOnce * step) {
      uint32_t held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int row = r + j * step;
        held[j] =
            inside && row < rows_ ? __ldg(reinterpret_cast<const Bits*>(from + row * p_.k.x_step[1])) : 0u;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int row = r + j * step;
        if (row >= rows_) break;
        const uint32_t place = block + row * kSm90WeightBlock + ((unit ^ row % 8) << 4);
        if constexpr (kElement == 2) {
          ptx::store_shared2(place, static_cast<uint16_t>(held[j]));
        } else {
          ptx::store_shared4(place, to_tf32_nearest(held[j]));
        }
      }
    }
  }

  const Sm90WeightParams& p_;
  int channel_, rows_;
};

// Rows of dy; a line is a piece of one cout. 2^line_shift threads copy a line, sixteen bytes each.
template <class S>
class SourceY {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T), kUnit = 16 / kElement;

  __device__ SourceY(const WeightParams& p, const Place& at, int thread)
      : p_(p),
        skew_(p, at),
        y_(static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + at.cout) * p.y_step[1]),
        couts_(min(p.block_couts, p.cout_group - at.cout)),
        line_(thread >> p.line_shift),
        lane_((thread & (1 << p.line_shift) - 1) * kUnit) {}

  __device__ void copy(int64_t stage, uint32_t to) const {
    const int lines = kSm90WeightProducers >> p_.line_shift;
    for (int index = 0; index < p_.stage_pieces; ++index) {
      const Piece piece(p_, (stage << p_.pieces_shift) + index);
      const int64_t o = piece.i * p_.stride + skew_.origin;
      // A line whose units all lie within the row, wherever in its first sixteen bytes it begins.
      const bool inner = piece.there && o >= kUnit - 1 && o + p_.piece_pitch <= p_.lout;
      const uint32_t sample = skew_.of_sample(piece.n);
      uint32_t place = to + line_ * p_.y_pitch + index * p_.piece_pitch * kElement;
      const T* row = y_ + piece.n * p_.y_step[0] + line_ * p_.y_step[1] + o;
      for (int cout = line_; cout < couts_; cout += lines) {
        const int skew = skew_.of(sample, cout);
        if (inner) {
          for (int unit = lane_; unit < p_.piece_pitch; unit += kUnit << p_.line_shift) {
            ptx::copy_async16(place + unit * kElement, row - skew + unit);
          }
        } else {
          copy_edges(sm80::weight::PartInRow(p_, piece, o - skew), row - skew, place);
        }
        row += lines * p_.y_step[1];
        place += lines * p_.y_pitch;
      }
    }
  }

 private:
  // Apart from the loop above, which would have too few registers.
  __device__ __noinline__ void copy_edges(sm80::weight::PartInRow part, const T* from, uint32_t place) const {
    sm80::weight::copy_line(place, from, y_, lane_, kUnit << p_.line_shift, part);
  }

  const WeightParams& p_;
  Skew<T> skew_;
  const T* y_;
  int couts_, line_, lane_;
};

#endif

}  // namespace tconv::cuda::sm90::weight
