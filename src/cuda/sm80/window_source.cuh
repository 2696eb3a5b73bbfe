// The copies of cuda.sm80.window (window.hpp): which tile a block has, and how weights and windows of dy come
// into its stages.
#pragma once

#include "cuda/device/arithmetic.cuh"
#include "cuda/sm80/window.hpp"

namespace tconv::cuda::sm80::window {

template <class Arithmetic, int kTileIndex>
struct Shape {
  using A = Arithmetic;
  using T = typename A::T;
  static constexpr WindowTile kTile = kWindowTiles[kTileIndex];
  static constexpr int kRows = kTile.rows, kColumns = kTile.columns;
  static constexpr int kMi = kTile.warp_rows() / 16, kNi = kTile.warp_columns() / 8;
  static constexpr int kSumPitch = kColumns + kWindowSumPad;
  static_assert(kTile.row_warps * kTile.column_warps * 32 == kWindowThreads);
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Which tile a block has, and which part of its depth.
struct Place {
  int rank, group, first_row, rows, column_tile;
  int first_slab, end_slab;

  __device__ Place(const WindowParams& p, int tile_rows) {
    const auto tile = static_cast<int>(p.splits_div.divide(blockIdx.x));
    rank = static_cast<int>(blockIdx.x) - tile * p.splits;
    const auto high = static_cast<int>(p.low_tiles.divide(tile));
    const int low = tile - high * static_cast<int>(p.low_tiles.value);
    column_tile = p.rows_first ? high : low;
    const int row = p.rows_first ? low : high;
    group = static_cast<int>(p.row_tiles.divide(row));
    first_row = (row - group * static_cast<int>(p.row_tiles.value)) * tile_rows;
    rows = min(tile_rows, p.cin_group - first_row);
    first_slab = static_cast<int>(int64_t{p.slabs} * rank / p.splits);
    end_slab = static_cast<int>(int64_t{p.slabs} * (rank + 1) / p.splits);
  }
};

// A slab's first channel and tap, and how many elements of a row of weights it has.
struct Slab {
  int channel, tap, channels, elements;

  __device__ Slab(const WindowParams& p, int index) : channel(index * p.channels), tap(0) {
    if (p.chunks > 1) {
      channel = index / p.chunks;
      tap = (index - channel * p.chunks) * p.taps;
    }
    channels = min(p.channels, p.cout_group - channel);
    elements = channels * min(p.taps, p.k - tap);
  }
};

// A row of a stage in pieces, which `lanes` threads take; other threads take other rows.
struct Turn {
  int piece, row, rows;

  __device__ explicit Turn(const WindowPieces& p)
      : piece(threadIdx.x & (p.lanes - 1)), row(threadIdx.x / p.lanes), rows(kWindowThreads / p.lanes) {}
};

// Copies a piece of rows row, row + step, ... below `end` to `to`: its first `bytes`; the rest are zeros.
template <WindowCopy kCopy, class T>
__device__ __forceinline__ void copy_rows(T* to, int to_step, const T* from, int64_t from_step, int row,
                                          int step, int end, int bytes) {
  to += row * to_step;
  from += row * from_step;
  to_step *= step;
  from_step *= step;
  if constexpr (kCopy == WindowCopy::element) {
    constexpr int kAhead = 8;
#pragma unroll 1
    for (; row < end; row += kAhead * step) {
      T held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        held[i] = bytes > 0 && row + i * step < end ? __ldg(from + i * from_step) : T(0.f);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (row + i * step < end) to[i * to_step] = held[i];
      }
      to += kAhead * to_step;
      from += kAhead * from_step;
    }
  } else {
    constexpr int kBytes = static_cast<int>(kCopy);
    uint32_t at = ptx::shared_address(to);
    to_step *= static_cast<int>(sizeof(T));
    if (bytes == kBytes) {
#pragma unroll 4
      for (; row < end; row += step, at += to_step, from += from_step) {
        if constexpr (kBytes == 16) {
          ptx::copy_async16(at, from);
        } else {
          ptx::copy_async4(at, from, kBytes);
        }
      }
    } else if (bytes > 0) {
#pragma unroll 1
      for (; row < end; row += step, at += to_step, from += from_step) {
        if constexpr (kBytes == 16) {
          ptx::copy_async16(at, from, bytes);
        } else {
          ptx::copy_async4(at, from, bytes);
        }
      }
    } else {
#pragma unroll 1
      for (; row < end; row += step, at += to_step) {
        if constexpr (kBytes == 16) {
          ptx::store_shared16(at, {});
        } else {
          ptx::store_shared4(at, 0);
        }
      }
    }
  }
}

template <WindowCopy kCopy, class T>
inline constexpr int kPieceElements = kCopy == WindowCopy::element
                                          ? 1
                                          : static_cast<int>(kCopy) / static_cast<int>(sizeof(T));

// Calls load_as() with the copy as a constant. Elements of 4 bytes are words.
template <class Copies>
__device__ __forceinline__ void load_by(WindowCopy copy, const Copies& copies, const WindowParams& p,
                                        const Slab& slab, unsigned char* stage) {
  constexpr bool kHalf = sizeof(typename Copies::T) == 2;
  if (copy == WindowCopy::vector) {
    copies.template load_as<WindowCopy::vector>(p, slab, stage);
  } else if (!kHalf || copy == WindowCopy::word) {
    copies.template load_as<WindowCopy::word>(p, slab, stage);
  } else {
    copies.template load_as<kHalf ? WindowCopy::element : WindowCopy::word>(p, slab, stage);
  }
}

// Rows of weights, [ci][element], zeros after the slab's elements.
template <class S>
class WeightCopies {
 public:
  using T = typename S::T;

  __device__ WeightCopies(const WindowParams& p, const Place& place)
      : rows_(place.rows),
        from_(static_cast<const T*>(p.weight) +
              (int64_t{place.group} * p.cin_group + place.first_row) * p.weight_row) {}

  // Rows of weights that the tile lacks are set to zero once, in every stage.
  __device__ void clear(const WindowParams& p, unsigned char* stages, int count) const {
    const int words = p.weight_pitch / 4, all = (S::kRows - rows_) * words;
    for (int i = threadIdx.x; i < all; i += kWindowThreads) {
      for (int slot = 0; slot < count; ++slot) {
        reinterpret_cast<uint32_t*>(stages + slot * p.stage_bytes)[rows_ * words + i] = 0;
      }
    }
  }

  __device__ __forceinline__ void load(const WindowParams& p, const Slab& slab, unsigned char* stage) const {
    load_by(p.weight_pieces.copy, *this, p, slab, stage);
  }
  template <WindowCopy kCopy>
  __device__ __forceinline__ void load_as(const WindowParams& p, const Slab& slab,
                                          unsigned char* stage) const {
    constexpr int kPiece = kPieceElements<kCopy, T>, kBytes = kPiece * static_cast<int>(sizeof(T));
    const Turn turn(p.weight_pieces);
    const T* from = from_ + int64_t{slab.channel} * p.k + slab.tap;
    const int bytes = slab.elements * static_cast<int>(sizeof(T));
    for (int piece = turn.piece; piece < p.weight_pieces.pieces; piece += p.weight_pieces.lanes) {
      copy_rows<kCopy>(reinterpret_cast<T*>(stage) + piece * kPiece,
                       p.weight_pitch / static_cast<int>(sizeof(T)), from + piece * kPiece, p.weight_row,
                       turn.row, turn.rows, rows_, min(kBytes, bytes - piece * kBytes));
    }
  }

  int rows_;
  const T* from_;
};

// Windows of dy, [channel][q], zeros outside dy.
template <class S>
class DyCopies {
 public:
  using T = typename S::T;

  __device__ DyCopies(const WindowParams& p, const Place& place)
      : from_(static_cast<const T*>(p.dy) + int64_t{place.group} * p.cout_group * p.dy_step[1]) {
    const int q = place_of(p, place.column_tile * S::kColumns);
    const int piece = p.dy_pieces.copy == WindowCopy::element
                          ? 1
                          : static_cast<int>(p.dy_pieces.copy) / static_cast<int>(sizeof(T));
    first_ = q - ((q - p.padding) & (piece - 1));  // pieces begin on boundaries in dy
  }

  // q of a column's first tap.
  __device__ static int place_of(const WindowParams& p, int column) {
    const int n = static_cast<int>(p.length.divide(column));
    return n * static_cast<int>(p.sample_window.value) + (column - n * static_cast<int>(p.l)) * p.stride +
           static_cast<int>(window_lead(sizeof(T)));
  }
  __device__ int first() const { return first_; }

  __device__ __forceinline__ void load(const WindowParams& p, const Slab& slab, unsigned char* stage) const {
    load_by(p.dy_pieces.copy, *this, p, slab, stage);
  }
  template <WindowCopy kCopy>
  __device__ __forceinline__ void load_as(const WindowParams& p, const Slab& slab,
                                          unsigned char* stage) const {
    constexpr int kPiece = kPieceElements<kCopy, T>;
    const Turn turn(p.dy_pieces);
    const T* from = from_ + slab.channel * p.dy_step[1];
    const int window = static_cast<int>(p.sample_window.value);
    const int ahead = p.dilation * slab.tap - p.padding - static_cast<int>(window_lead(sizeof(T)));
    for (int piece = turn.piece; piece < p.dy_pieces.pieces; piece += p.dy_pieces.lanes) {
      const int q = first_ + piece * kPiece;
      const int n = static_cast<int>(p.sample_window.divide(q)), inside = q - n * window;
      const int64_t o = int64_t{inside} + ahead;
      const bool there = n < p.samples && inside + kPiece <= window && o >= 0 && o + kPiece <= p.lout;
      T* to = reinterpret_cast<T*>(stage + p.window_at) + piece * kPiece;
      copy_rows<kCopy>(to, p.window_pitch, from + (there ? n * p.dy_step[0] + o : 0), p.dy_step[1], turn.row,
                       turn.rows, slab.channels, there ? kPiece * static_cast<int>(sizeof(T)) : 0);
      // Channels that a shorter slab lacks meet weights of zero; they must be finite.
      if (slab.channels < p.channels) {
        copy_rows<kCopy>(to, p.window_pitch, from, p.dy_step[1], slab.channels + turn.row, turn.rows,
                         p.channels, 0);
      }
    }
  }

  const T* from_;
  int first_;
};

#endif

}  // namespace tconv::cuda::sm80::window
