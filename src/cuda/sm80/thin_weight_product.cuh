// What a warp of cuda.sm80.thin_weight multiplies: its fragments, their places in shared memory, its sums.
#pragma once

#include "cuda/sm80/thin_weight_source.cuh"
#include "cuda/sm80/weight_modes.cuh"

namespace tconv::cuda::sm80::thin_weight {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

// Volatile: what follows from it is computed where it is asked for, not kept in registers from before a loop.
__device__ __forceinline__ int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
  return thread;
}

// The words of kCount rows (or columns) that a lane holds, of every eighth from its first one on: where that
// of its first position of a tile is.
template <class T, int kCount>
class Words {
 public:
  // For a tile whose first channel has this place. first: the warp's first row. base: of shared memory, with
  // the tile's buffer and the warp's first step.
  __device__ __forceinline__ void move(const ThinWeightSide& s, const Range& range, int first, uint32_t base,
                                       int place) {
    const int lane = thread_again() % 32;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      // A row that does not exist is as good as any.
      const int r = min(first + i * 8 + lane / 4, s.channels * s.taps - 1);
      const int channel = static_cast<int>(s.by_taps.divide(r)), tap = r - channel * s.taps;
      const int of_block = min(channel - range.first_channel, range.channels - 1);
      const int ahead = place + of_block * s.places & Channels<T>::kVector - 1;
      at_[i] = base + s.words_at + (of_block * s.pitch + ahead + tap * s.dilation + lane % 4 * s.stride) * 4;
    }
  }
  // The same tiles further on.
  __device__ __forceinline__ void shift(int by) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) at_[i] += by;
  }
  __device__ __forceinline__ uint32_t at(int i) const {
    return at_[i];
  }

 private:
  uint32_t at_[kCount];
};

template <class Mode, int kMi, int kNi>
class Products {
 public:
  using T = typename Mode::T;
  static constexpr bool kCross = Mode::kCross;

  __device__ explicit Products(const unsigned char* shared) : base_(ptx::shared_address(shared)) { clear(); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kMi; ++i) {
#pragma unroll
      for (int j = 0; j < kNi; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          main_[i][j][e] = 0;
          if constexpr (kCross) cross_[i][j][e] = 0;
        }
      }
    }
  }
  // Sum s of the lane.
  __device__ __forceinline__ float total(int s) const {
    const int i = s / 4 / kNi, j = s / 4 % kNi;
    if constexpr (kCross) return fma(cross_[i][j][s % 4], kDown, main_[i][j][s % 4]);
    return main_[i][j][s % 4];
  }
  // Of a tile whose first channels have these places, and whose words lie `buffer` bytes further than those
  // of the first.
  __device__ __forceinline__ void look(const ThinWeightParams& p, const Task& task, int buffer, int row_place,
                                       int column_place) {
    if (buffer != buffer_) {
      rows_.shift(buffer - buffer_), columns_.shift(buffer - buffer_);
      buffer_ = buffer;
    }
    if (row_place != row_place_) {
      rows_.move(p.rows, task.rows, (task.rows.first_tile + task.row_tile) * kThinWeightRows,
                 base_ + buffer + task.depth * p.rows.stride * 32, row_place);
      row_place_ = row_place;
    }
    if (column_place != column_place_) {
      columns_.move(p.columns, task.columns,
                    (task.columns.first_tile + task.column_tile) * kThinWeightColumns,
                    base_ + buffer + task.depth * p.columns.stride * 32, column_place);
      column_place_ = column_place;
    }
  }
  // The warp's steps of that tile. All that is added to a lane's places is the same for the whole block, and
  // every warp comes here, whether its tiles exist or not: so a load adds it by itself. (With an addition
  // each, these were 20 of the 56 instructions of a step of 1 x 8 tiles.)
  __device__ __forceinline__ void add(const ThinWeightParams& p) {
    const int row_second = p.rows.stride * 16, column_second = p.columns.stride * 16;
#pragma unroll 2
    for (int step = 0; step < p.steps; step += 1 << p.depth_warp_bits) {
      const int row_at = step * row_second * 2, column_at = step * column_second * 2;
      const int row_next = row_at + row_second, column_next = column_at + column_second;
      typename Mode::A a[kMi];
      typename Mode::B b[kNi];
#pragma unroll
      for (int i = 0; i < kMi; ++i) {
        const uint32_t low = rows_.at(2 * i), high = rows_.at(2 * i + 1);
        Mode::set(a[i], {ptx::load_shared4(low + row_at), ptx::load_shared4(high + row_at),
                         ptx::load_shared4(low + row_next), ptx::load_shared4(high + row_next)});
      }
#pragma unroll
      for (int j = 0; j < kNi; ++j) {
        const uint32_t at = columns_.at(j);
        Mode::set(b[j], ptx::load_shared4(at + column_at), ptx::load_shared4(at + column_next));
      }
#pragma unroll
      for (int i = 0; i < kMi; ++i) {
#pragma unroll
        for (int j = 0; j < kNi; ++j) {
          Mode::multiply(main_[i][j], cross_[kCross ? i : 0][kCross ? j : 0], a[i], b[j]);
        }
      }
    }
  }

 private:
  uint32_t base_;
  Words<T, 2 * kMi> rows_;
  Words<T, kNi> columns_;
  int buffer_ = 0, row_place_ = -1, column_place_ = -1;
  float main_[kMi][kNi][4];
  float cross_[kCross ? kMi : 1][kCross ? kNi : 1][4];
};

#endif

}  // namespace tconv::cuda::sm80::thin_weight
