// The stages of cuda.sm80.weight: how x and dy get into shared memory.
#pragma once

#include "cuda/sm80/weight_modes.cuh"

namespace tconv::cuda::sm80::weight {

// A tile shape in one mode: Rw x Cw warps of Mi x Ni mma tiles (16 x 8).
template <class M, int Rw, int Cw, int Mi, int Ni, int MinBlocks>
struct Shape {
  using Mode = M;
  static constexpr int kWarpRows = Rw, kWarpColumns = Cw, kMi = Mi, kNi = Ni, kMinBlocks = MinBlocks;
  static constexpr int kWarps = Rw * Cw, kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * Rw * Mi, kColumns = 8 * Cw * Ni;
};

// A block's part of the problem.
struct Place {
  int group, row, cout, phase, tap;  // first of the tile: channels within the group
  int tile, split;
};

__device__ inline Place place_of(const WeightParams& p, int tile_rows) {
  Place at;
  int rest = blockIdx.x;
  at.tile = rest % p.tiles;
  at.split = rest / p.tiles;
  rest = at.tile;
  at.row = rest % p.row_tiles * tile_rows;
  rest /= p.row_tiles;
  at.tap = rest % p.tap_blocks * p.block_taps;
  rest /= p.tap_blocks;
  at.phase = rest % p.phase_blocks * p.block_phases;
  rest /= p.phase_blocks;
  at.cout = rest % p.cout_blocks * p.block_couts;
  at.group = rest / p.cout_blocks;
  return at;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Copies sixteen bytes to shared memory: `bytes` of them are read, the others are zeros.
__device__ inline void copy_async16(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async4(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async8(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void store_shared2(uint32_t to, uint32_t v) {
  asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(to), "h"(static_cast<uint16_t>(v)) : "memory");
}

// The sample and first position of a piece; there is no sample beyond the last.
struct Piece {
  int64_t n, i;
  bool there;
  __device__ Piece(const WeightParams& p, int64_t index) {
    there = index < p.pieces;
    const auto q = static_cast<uint32_t>(there ? index : 0);
    const uint32_t sample = p.by_sample.divide(q);
    n = sample;
    i = static_cast<int64_t>(q - sample * p.by_sample.value) * p.piece;
  }
};

template <class S>
class RowsOfX {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T);

  __device__ RowsOfX(const WeightParams& p, const Place& at)
      : p_(p),
        x_(static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + at.row) * p.x_step[1]),
        rows_(min(S::kRows, p.cin_group - at.row)) {}

  // Channels beyond the last keep whatever is there: nothing uses their sums.
  __device__ void copy(int64_t stage, uint32_t to) const {
    if (p_.copy == WeightCopy::vectors) {
      copy_units<16 / kElement>(stage, to);
    } else if (p_.copy == WeightCopy::words || kElement > 2) {
      copy_units<kElement == 2 ? 2 : 1>(stage, to);
    } else {
      copy_elements(stage, to);
    }
  }

 private:
  // The positions of a stage are a power of two, so that a thread keeps its own.
  template <int Unit>
  __device__ void copy_units(int64_t stage, uint32_t to) const {
    const int shift = p_.piece_shift + p_.pieces_shift - log2_of(Unit);
    const int unit = threadIdx.x & (1 << shift) - 1, position = unit * Unit;
    const Piece piece(p_, (stage << p_.pieces_shift) + (position >> p_.piece_shift));
    const int64_t i = piece.i + (position & p_.piece - 1);
    const int64_t inside = piece.there ? min(int64_t{Unit}, max(int64_t{0}, p_.l - i)) : 0;
    const int bytes = static_cast<int>(inside) * kElement;
    const T* from = x_ + (inside > 0 ? piece.n * p_.x_step[0] + i * p_.x_step[2] : 0);
    const int row_step = S::kThreads >> shift;
    const int row = static_cast<int>(threadIdx.x) >> shift;
    from += row * p_.x_step[1];
    to += row * p_.x_pitch + position * kElement;
    const int64_t next = row_step * p_.x_step[1];
#pragma unroll 4
    for (int r = row; r < rows_; r += row_step) {
      if constexpr (Unit * kElement == 16) {
        copy_async16(to, from, bytes);
      } else if constexpr (Unit * kElement == 8) {
        copy_async8(to, from, bytes);
      } else {
        copy_async4(to, from, bytes);
      }
      from += next;
      to += row_step * p_.x_pitch;
    }
  }

  __device__ void copy_elements(int64_t stage, uint32_t to) const {
    const int shift = p_.piece_shift + p_.pieces_shift;
    const int position = threadIdx.x & (1 << shift) - 1;
    const Piece piece(p_, (stage << p_.pieces_shift) + (position >> p_.piece_shift));
    const int64_t i = piece.i + (position & p_.piece - 1);
    const bool inside = piece.there && i < p_.l;
    const auto* from = reinterpret_cast<const unsigned short*>(x_) +
                       (inside ? piece.n * p_.x_step[0] + i * p_.x_step[2] : 0);
    const int row_step = S::kThreads >> shift, row = static_cast<int>(threadIdx.x) >> shift;
    from += row * p_.x_step[1];
    to += row * p_.x_pitch + position * kElement;
    const int64_t next = row_step * p_.x_step[1];
    constexpr int kAtOnce = 8;
    for (int r = row; r < rows_; r += kAtOnce * row_step) {
      uint32_t held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        held[j] = inside && r + j * row_step < rows_ ? __ldg(from + j * next) : 0u;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (r + j * row_step < rows_) store_shared2(to + j * row_step * p_.x_pitch, held[j]);
      }
      from += kAtOnce * next;
      to += kAtOnce * row_step * p_.x_pitch;
    }
  }

  __device__ static constexpr int log2_of(int v) {
    return v == 1 ? 0 : 1 + log2_of(v / 2);
  }

  const WeightParams& p_;
  const T* x_;
  int rows_;
};

// How many elements of dy lie between the 16-byte boundary before an element and the element: rows begin
// anywhere, and are copied from the boundary on. All pieces of a sample have the same number.
template <class T>
struct Skew {
  static constexpr int kUnit = 16 / sizeof(T);
  const WeightParams& p;
  int64_t origin;  // of the tile: what the first cout's first o has to stride*i
  uint32_t first;

  __device__ Skew(const WeightParams& params, const Place& at)
      : p(params),
        origin(int64_t{at.tap} * params.step * params.stride + int64_t{at.phase} * params.dilation -
               params.padding),
        first(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(params.y) / sizeof(T)) +
              static_cast<uint32_t>((int64_t{at.group} * params.cout_group + at.cout) * params.y_step[1] +
                                    origin)) {}
  // Of a sample's first cout; a cout on adds y_step[1].
  __device__ uint32_t of_sample(int64_t n) const {
    return first + static_cast<uint32_t>(n) * static_cast<uint32_t>(p.y_step[0]);
  }
  __device__ int of(uint32_t sample, int cout) const {
    return static_cast<int>(sample + static_cast<uint32_t>(cout) * static_cast<uint32_t>(p.y_step[1])) &
           kUnit - 1;
  }
};

// Sixteen bytes of which element `begin` is the first in its row.
template <class T>
__device__ inline void copy_head(uint32_t to, const T* from, int begin, int end) {
  constexpr int kElement = sizeof(T), kUnit = 16 / kElement;
#pragma unroll 1
  for (int e = 0; e < kUnit; ++e) {
    const bool inside = e >= begin && e < end;
    if constexpr (kElement == 2) {
      const auto* bits = reinterpret_cast<const unsigned short*>(from);
      store_shared2(to + 2 * e, inside ? __ldg(bits + e) : 0u);
    } else if constexpr (kElement == 4) {
      copy_async4(to + 4 * e, inside ? from + e : from + kUnit - 1, inside ? 4 : 0);
    } else {
      copy_async8(to + 8 * e, inside ? from + e : from + kUnit - 1, inside ? 8 : 0);
    }
  }
}

// Elements [begin, end) of a line of `length` are in its row of dy; o: of its first element.
struct PartInRow {
  int length, begin, end;
  __device__ PartInRow(const WeightParams& p, const Piece& piece, int64_t o) : length(p.piece_pitch) {
    const int64_t all = length;
    begin = static_cast<int>(min(all, max(int64_t{0}, -o)));
    end = piece.there ? static_cast<int>(min(all, max(int64_t{0}, p.lout - o))) : 0;
  }
};

// A line's units first, first + step, ...; what is outside its row is zero. y: any address of dy.
template <class T>
__device__ inline void copy_line(uint32_t to, const T* from, const T* y, int first, int step,
                                 const PartInRow& part) {
  constexpr int kElement = sizeof(T), kUnit = 16 / kElement;
  for (int unit = first; unit < part.length; unit += step) {
    if (unit < part.begin && unit + kUnit > part.begin) {
      copy_head(to + unit * kElement, from + unit, part.begin - unit, part.end - unit);
    } else {
      const int elements = unit < part.begin ? 0 : min(kUnit, max(0, part.end - unit));
      copy_async16(to + unit * kElement, elements > 0 ? from + unit : y, elements * kElement);
    }
  }
}

// Rows of dy; a line is a piece of one cout. line_lanes threads copy a line, sixteen bytes each.
template <class S>
class RowsOfY {
 public:
  using T = typename S::Mode::T;
  static constexpr int kElement = sizeof(T), kUnit = 16 / kElement;

  __device__ RowsOfY(const WeightParams& p, const Place& at)
      : p_(p),
        skew_(p, at),
        y_(static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + at.cout) * p.y_step[1]),
        couts_(min(p.block_couts, p.cout_group - at.cout)) {}

  __device__ void copy(int64_t stage, uint32_t to) const {
    const int lines = couts_ << p_.pieces_shift;
    const int lane = threadIdx.x & (1 << p_.line_shift) - 1, lanes = 1 << p_.line_shift;
    for (int line = static_cast<int>(threadIdx.x) >> p_.line_shift; line < lines;
         line += S::kThreads >> p_.line_shift) {
      const int index = line & (1 << p_.pieces_shift) - 1, cout = line >> p_.pieces_shift;
      const Piece piece(p_, (stage << p_.pieces_shift) + index);
      const int skew = skew_.of(skew_.of_sample(piece.n), cout);
      const int64_t o = piece.i * p_.stride + skew_.origin - skew;
      const T* from = y_ + piece.n * p_.y_step[0] + cout * p_.y_step[1] + o;
      const uint32_t place = to + cout * p_.y_pitch + index * p_.piece_pitch * kElement;
      copy_line(place, from, y_, lane * kUnit, lanes * kUnit, PartInRow(p_, piece, o));
    }
  }

 private:
  const WeightParams& p_;
  Skew<T> skew_;
  const T* y_;
  int couts_;
};

#endif

}  // namespace tconv::cuda::sm80::weight
