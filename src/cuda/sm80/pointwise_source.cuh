// The copies of cuda.sm80.pointwise (pointwise.hpp): which tile a block has, and how rows come into its
// stages.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/pointwise.hpp"

namespace tconv::cuda::sm80::pointwise {

template <class Arithmetic, int kTileIndex, bool kWeightsTurned>
struct Shape {
  using A = Arithmetic;
  using T = typename A::T;
  static constexpr PointwiseTile kTile = kPointwiseTiles[kTileIndex];
  static constexpr bool kTurned = kWeightsTurned;
  static constexpr int kElement = sizeof(T);
  static constexpr int kRows = kTile.rows, kColumns = kTile.columns;
  static constexpr int kMi = kTile.warp_rows() / 16, kNi = kTile.warp_columns() / 8;
  static constexpr int kSlab = kPointwiseSlabBytes / kElement, kSteps = kSlab / A::kDepth;
  static constexpr int kWeightPitch = kTurned ? pointwise_pitch(kRows, kElement) : kPointwiseRowPitch;
  static constexpr int kXPitch = pointwise_pitch(kColumns, kElement);
  static constexpr int kXAt = pointwise_weight_bytes(kTile, kElement, kTurned);
  static constexpr int kStageBytes = pointwise_stage_bytes(kTile, kElement, kTurned);
  static constexpr int kSumPitch = kColumns + kPointwiseSumPad;
  static_assert(kTile.row_warps * kTile.column_warps * 32 == kPointwiseThreads && kNi % 2 == 0);
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Which tile a block has, and which part of its depth.
struct Place {
  int rank, group, first_row, rows, n, columns;
  int64_t first_column;
  int first_slab, end_slab;

  __device__ Place(const PointwiseParams& p, int tile_rows, int tile_columns) {
    const auto tile = static_cast<int>(p.splits_div.divide(blockIdx.x));
    rank = static_cast<int>(blockIdx.x) - tile * p.splits;
    const auto high = static_cast<int>(p.low_tiles.divide(tile));
    const int low = tile - high * static_cast<int>(p.low_tiles.value);
    const int column = p.rows_first ? high : low, row = p.rows_first ? low : high;
    group = static_cast<int>(p.row_tiles.divide(row));
    first_row = (row - group * static_cast<int>(p.row_tiles.value)) * tile_rows;
    rows = min(tile_rows, p.rows - first_row);
    n = static_cast<int>(p.column_tiles.divide(column));
    first_column = int64_t{column - n * static_cast<int>(p.column_tiles.value)} * tile_columns;
    columns = static_cast<int>(min(int64_t{tile_columns}, p.l - first_column));
    first_slab = static_cast<int>(int64_t{p.slabs} * rank / p.splits);
    end_slab = static_cast<int>(int64_t{p.slabs} * (rank + 1) / p.splits);
  }
};

// Copies the first `bytes` of eight from global to shared memory; the rest become zeros.
__device__ __forceinline__ void copy_async8(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// A word of two 16-bit elements, of which `there` exist.
template <class T>
__device__ __forceinline__ uint32_t load_two(const T* from, int there) {
  const auto* half = reinterpret_cast<const uint16_t*>(from);
  if (there >= 2 && reinterpret_cast<uintptr_t>(from) % 4 == 0) {
    return __ldg(reinterpret_cast<const uint32_t*>(from));
  }
  const uint32_t low = there > 0 ? __ldg(half) : 0u;
  return there > 1 ? low | static_cast<uint32_t>(__ldg(half + 1)) << 16 : low;
}

// Copies `all` rows of kColumns elements, kPitch bytes apart, in pieces of kBytes: of the first `rows` rows
// the first `columns` elements; the rest become zeros. Single elements pass through registers, by words.
template <class T, int kColumns, int kPitch, int kBytes>
__device__ __forceinline__ void copy_rows(uint32_t to, const T* from, int64_t step, int rows, int all,
                                          int columns) {
  constexpr int kElement = sizeof(T), kPiece = kBytes < 4 ? 4 : kBytes;
  constexpr int kPieces = kColumns * kElement / kPiece, kApart = kPointwiseThreads / kPieces;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  int row = static_cast<int>(threadIdx.x) / kPieces;
  const int bytes = min(kPiece, max(0, columns * kElement - piece * kPiece));
  to += row * kPitch + piece * kPiece;
  from += row * step + piece * (kPiece / kElement);
  step *= kApart;
  if constexpr (kBytes < 4) {
    constexpr int kAhead = 8;
#pragma unroll 1
    for (; row < all; row += kAhead * kApart) {
      uint32_t held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        held[i] = load_two(from + i * step, row + i * kApart < rows ? bytes / kElement : 0);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (row + i * kApart < all) ptx::store_shared4(to + i * kApart * kPitch, held[i]);
      }
      to += kAhead * kApart * kPitch;
      from += kAhead * step;
    }
  } else {
#pragma unroll 4
    for (; row < all; row += kApart, to += kApart * kPitch, from += step) {
      const int there = row < rows ? bytes : 0;
      if constexpr (kBytes == 16) {
        ptx::copy_async16(to, from, there);
      } else if constexpr (kBytes == 8) {
        copy_async8(to, from, there);
      } else {
        ptx::copy_async4(to, from, there);
      }
    }
  }
}

template <class T, int kColumns, int kPitch>
__device__ __forceinline__ void copy_rows(int piece, uint32_t to, const T* from, int64_t step, int rows,
                                          int all, int columns) {
  if (piece == 16) {
    copy_rows<T, kColumns, kPitch, 16>(to, from, step, rows, all, columns);
  } else if (piece == 8) {
    copy_rows<T, kColumns, kPitch, 8>(to, from, step, rows, all, columns);
  } else if (sizeof(T) == 4 || piece == 4) {
    copy_rows<T, kColumns, kPitch, 4>(to, from, step, rows, all, columns);
  } else {
    copy_rows<T, kColumns, kPitch, sizeof(T)>(to, from, step, rows, all, columns);
  }
}

// Whether a 16-bit element is the second of its word.
template <class T>
__device__ __forceinline__ int inside_word(const T* at) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(at) % 4 / 2);
}

// The same for 16-bit rows that begin at any element, word by word from the word in which they begin. x
// itself begins on a word, so the element before a row is also one of x. ends: x may end with the last row,
// inside a word; that word's one element passes through registers. (A copy of 2 bytes would read no more, but
// compute-sanitizer takes it for one of 4.)
template <class T, int kColumns, int kPitch>
__device__ __forceinline__ void copy_shifted(uint32_t to, const T* from, int64_t step, int rows, int all,
                                             int columns, bool ends) {
  constexpr int kWords = kColumns / 2, kApart = kPointwiseThreads / kWords;
  const auto copy = [&](int row, int word) {
    const T* at = from + row * step;
    const int before = inside_word(at);
    const int bytes = min(4, max(0, (columns + before - 2 * word) * 2));
    const uint32_t place = to + row * kPitch + word * 4;
    if (ends && row == rows - 1 && bytes == 2) {
      ptx::store_shared4(place, load_two(at - before + 2 * word, 1));
    } else {
      ptx::copy_async4(place, at - before + 2 * word, row < rows ? bytes : 0);
    }
  };
  const int word = static_cast<int>(threadIdx.x) % kWords;
#pragma unroll 4
  for (int row = static_cast<int>(threadIdx.x) / kWords; row < all; row += kApart) copy(row, word);
  // If a row begins inside a word, its last column lies in one word more.
  if (static_cast<int>(threadIdx.x) < all) copy(static_cast<int>(threadIdx.x), kWords);
}

// Moves rows that begin inside a word to where a stage has its rows. Several lanes of a warp move a row.
template <class T, int kColumns, int kPitch>
__device__ __forceinline__ void move_rows(unsigned char* stage, const T* from, int64_t step, int all) {
  constexpr int kPieces = kColumns / 8, kApart = kPointwiseThreads / kPieces;
  static_assert(kPieces <= 32 && 128 / sizeof(T) <= kPointwiseThreads);
  const int piece = static_cast<int>(threadIdx.x) % kPieces, first = static_cast<int>(threadIdx.x) / kPieces;
  const int turns = (all + kApart - 1) / kApart;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    const int row = first + turn * kApart;
    const bool moved = row < all && inside_word(from + row * step) != 0;
    unsigned char* at = stage + row * kPitch + piece * 16;
    uint4 v{};
    uint32_t behind = 0;
    if (moved) {
      v = *reinterpret_cast<const uint4*>(at);
      behind = *reinterpret_cast<const uint32_t*>(at + 16);
    }
    __syncwarp();
    if (moved) {
      *reinterpret_cast<uint4*>(at) = {__funnelshift_r(v.x, v.y, 16), __funnelshift_r(v.y, v.z, 16),
                                       __funnelshift_r(v.z, v.w, 16), __funnelshift_r(v.w, behind, 16)};
    }
  }
}

// A block's share of the operands, slab by slab.
template <class S>
class Source {
 public:
  using T = typename S::T;

  __device__ Source(const PointwiseParams& p, const Place& place)
      : x_(static_cast<const T*>(p.x) + place.n * p.x_step[0] + int64_t{place.group} * p.depth * p.x_step[1] +
           place.first_column),
        weight_(static_cast<const T*>(p.weight) + int64_t{place.group} * p.rows * p.depth +
                place.first_row * (S::kTurned ? 1 : p.weight_step)) {}

  // The channels of a slab.
  __device__ static int channels(const PointwiseParams& p, int slab) {
    return min(S::kSlab, p.depth - slab * S::kSlab);
  }

  __device__ __forceinline__ void load(const PointwiseParams& p, const Place& place, int slab,
                                       uint32_t stage) const {
    constexpr int kDepth = S::A::kDepth;
    const int there = channels(p, slab), all = (there + kDepth - 1) / kDepth * kDepth;
    const int64_t first = int64_t{slab} * S::kSlab;
    const T* x = x_ + first * p.x_step[1];
    bool shifted = false;
    if constexpr (sizeof(T) == 2) {
      shifted = p.x_shifted;
      if (shifted) {
        copy_shifted<T, S::kColumns, S::kXPitch>(stage + S::kXAt, x, p.x_step[1], there, all, place.columns,
                                                 first + there == p.depth);
      }
    }
    if (!shifted) {
      copy_rows<T, S::kColumns, S::kXPitch>(p.x_copy, stage + S::kXAt, x, p.x_step[1], there, all,
                                            place.columns);
    }
    if constexpr (S::kTurned) {
      copy_rows<T, S::kRows, S::kWeightPitch>(p.weight_copy, stage, weight_ + first * p.weight_step,
                                              p.weight_step, there, all, place.rows);
    } else {
      copy_rows<T, S::kSlab, S::kWeightPitch>(p.weight_copy, stage, weight_ + first, p.weight_step,
                                              place.rows, S::kRows, there);
    }
  }

  // Call it after copies of shifted rows.
  __device__ __forceinline__ void straighten(const PointwiseParams& p, int slab, unsigned char* stage) const {
    move_rows<T, S::kColumns, S::kXPitch>(stage + S::kXAt, x_ + int64_t{slab} * S::kSlab * p.x_step[1],
                                          p.x_step[1], channels(p, slab));
  }

 private:
  const T* x_;
  const T* weight_;
};

#endif

}  // namespace tconv::cuda::sm80::pointwise
