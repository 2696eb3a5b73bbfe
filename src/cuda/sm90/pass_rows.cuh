// A pass of PassWriter: outputs of some columns, staged as [cout][output] in shared memory, each row shifted
// so that its 16-byte vectors are those of y, and how they get to y.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class PassRows {
 protected:
  using T = typename S::Mode::T;
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kMost = S::kStoring.pass_bytes / static_cast<int>(sizeof(T)),
                       kPass = S::kN < kMost ? S::kN : kMost;
  static constexpr int kLeadsAt = S::kRowBlocks * kSm90Rows * static_cast<int>(sizeof(Row) / sizeof(int));

  using Params = typename S::Params;

  __device__ PassRows(const Params& p, unsigned char* shared, int row_block)
      : p_(p), thread_(threadIdx.x % 128), warpgroup_(threadIdx.x / 128) {
    const int places = p.writer.second > 0 ? 2 : 1;
    staged_ = reinterpret_cast<T*>(shared + p.writer.shared) +
              warpgroup_ * places * p.sizes.block_couts * p.writer.row_pitch;
    rows_ = reinterpret_cast<const Row*>(shared + p.writer.shared_rows) +
            (S::kRowBlocks == 2 ? warpgroup_ : 0) * kSm90Rows;
    leads_ = reinterpret_cast<const int*>(shared + p.writer.shared_rows) + kLeadsAt;
    const int first_cout = row_block * p.sizes.block_couts;
    couts_ = row_block < p.sizes.row_blocks ? min(p.sizes.block_couts, p.sizes.cout_group - first_cout) : 0;
  }

  __device__ void sync() const { sync_warpgroup(warpgroup_); }

  // What lies after the last vector of a pass: the next one begins with it.
  __device__ uint4 carry() const {
    if (thread_ >= couts_) return {};
    const T* row = staged_ + thread_ * p_.writer.row_pitch + p_.writer.row_vectors * kVector;
    return *reinterpret_cast<const uint4*>(row);
  }
  __device__ void put_carry(int shift, const uint4& carry) const {
    if (thread_ >= couts_ || p_.writer.by_elements) return;
    shift = (shift + rows_[thread_ * p_.sizes.phases].skew) % kVector;
    T* row = staged_ + thread_ * p_.writer.row_pitch;
    const T* from = reinterpret_cast<const T*>(&carry);
#pragma unroll
    for (int e = 0; e < kVector - 1; ++e) {
      if (e < shift) row[e] = from[e];
    }
  }

  // If phases are skewed: moves by whole vectors all that the pass before, staged at `from`, left over. What
  // else these hold is staged again.
  __device__ void move_skewed_carry(const T* from) const {
    const int vectors = (p_.writer.carried + 2 * kVector - 2) / kVector;
    for (int i = thread_; i < couts_ * vectors; i += 128) {
      const int cout = i / vectors;
      const int at = cout * p_.writer.row_pitch + (i - cout * vectors) * kVector;
      *reinterpret_cast<uint4*>(staged_ + at) =
          *reinterpret_cast<const uint4*>(from + at + p_.writer.row_vectors * kVector);
    }
  }

  // Whether vector v of a tile's row at this address also has outputs of the tile before.
  __device__ bool before_tile(int v, uintptr_t row) const {
    return v * kVector < static_cast<int>(row % 16 / sizeof(T)) + p_.writer.carried;
  }

  // How many of a tile's first vectors also have outputs of the tile before, in a row that begins so many
  // elements behind 16 bytes.
  __device__ int vectors_with_ends(int late) const {
    return (late + p_.writer.carried + kVector - 1) / kVector;
  }

  // Before a pass is staged: its place is no longer read by bulk copies. By all threads.
  __device__ void wait_for_place() const {
    if (p_.writer.second > 0) {
      ptx::bulk_stores_read<1>();
    } else if (p_.writer.bulk) {
      ptx::bulk_stores_read<0>();
    }
    sync();
  }
  // A pass all of whose vectors exist: one thread a row has them copied while the warpgroup goes on. Rows go
  // by turns to its four warps, each of which issues bulk copies one by one.
  template <bool First>
  __device__ void store_bulk(T* y, int64_t o) const {
    const int cout = thread_ % 32 * 4 + thread_ / 32;
    if (cout >= couts_) return;
    const uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.sizes.lout + o);
    const int late = static_cast<int>(row % 16 / sizeof(T)), skip = First ? vectors_with_ends(late) : 0;
    ptx::bulk_store((row & ~uintptr_t{15}) + skip * 16,
                    ptx::shared_address(staged_ + cout * p_.writer.row_pitch + skip * kVector),
                    (p_.writer.row_vectors - skip) * 16);
  }

  // For a thread in the usual case of short rows, in which it keeps its vector and its rows all begin alike:
  // where that goes in the first pass, and where it comes from.
  struct Lane {
    bool usual, head;  // head: shared with the outputs before the tile
    uintptr_t to;
    int from;
  };
  __device__ Lane lane_at(const T* first) const {
    const int cout = static_cast<int>(p_.writer.vectors_div.divide(thread_)),
              v = thread_ - cout * p_.writer.row_vectors;
    const uintptr_t row = reinterpret_cast<uintptr_t>(first + cout * p_.sizes.lout);
    return {!p_.writer.bulk && p_.writer.row_rest == 0 && couts_ == p_.sizes.block_couts &&
                p_.writer.row_turn * p_.sizes.lout % kVector == 0 && !p_.writer.by_elements,
            before_tile(v, row), (row & ~uintptr_t{15}) + v * 16, cout * p_.writer.row_pitch + v * kVector};
  }
  template <bool First>
  __device__ void store_usual(const Lane& lane) const {
    if (First && lane.head) return;
    const uintptr_t step = p_.writer.row_turn * p_.sizes.lout * sizeof(T);
    const int from_step = p_.writer.row_turn * p_.writer.row_pitch;
    uintptr_t to = lane.to;
    const T* from = staged_ + lane.from;
#pragma unroll 4
    for (int cout = 0; cout < p_.sizes.block_couts; cout += p_.writer.row_turn) {
      ptx::store_global16(to, *reinterpret_cast<const uint4*>(from));
      to += step;
      from += from_step;
    }
  }

  // Vector v of a row goes to the row's first 16-byte boundary at or before output o, plus v. Threads take
  // vectors in turn, 128 apart, which is row_turn rows and row_rest vectors further.
  template <bool First>
  __device__ void store_vectors(T* y, int64_t o) const {
    const int vectors = p_.writer.row_vectors;
    int cout = static_cast<int>(p_.writer.vectors_div.divide(thread_)), v = thread_ - cout * vectors;
    const T* from = staged_ + cout * p_.writer.row_pitch + v * kVector;
    uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.sizes.lout + o);
    const uintptr_t row_step = p_.sizes.lout * sizeof(T), turn_step = p_.writer.row_turn * row_step;
    const int from_turn = p_.writer.row_turn * p_.writer.row_pitch + p_.writer.row_rest * kVector;
#pragma unroll 1
    for (; cout < couts_; cout += p_.writer.row_turn) {
      const uintptr_t to = (row & ~uintptr_t{15}) + v * 16;
      if (!(First && before_tile(v, row))) {
        const int64_t at = o + v * kVector - static_cast<int>(row % 16 / sizeof(T));
        if (at >= 0 && at + kVector <= p_.sizes.lout) {
          ptx::store_global16(to, *reinterpret_cast<const uint4*>(from));
        } else if (at > -kVector && at < p_.sizes.lout) {
          store_some(reinterpret_cast<T*>(to), from, at);
        }
      }
      row += turn_step;
      from += from_turn;
      v += p_.writer.row_rest;
      if (v >= vectors) {
        v -= vectors;
        ++cout;
        row += row_step;
        from += p_.writer.row_pitch - vectors * kVector;
      }
    }
  }

  // The elements of a vector that are outputs.
  __device__ void store_some(T* to, const T* from, int64_t at) const {
#pragma unroll 1
    for (int e = 0; e < kVector; ++e) {
      if (at + e >= 0 && at + e < p_.sizes.lout) to[e] = from[e];
    }
  }

  // What is left over at a tile's ends; a row's own thread stores it.
  template <bool First, bool Last>
  __device__ void store_ends(T* y, int64_t o, int shift) const {
    if (thread_ >= couts_) return;
    shift = (shift + rows_[thread_ * p_.sizes.phases].skew) % kVector;
    if (shift == 0) return;
    const T* from = staged_ + thread_ * p_.writer.row_pitch;
    T* to = y + thread_ * p_.sizes.lout + o - shift;
    const int64_t left = shift - o, right = p_.sizes.lout - o + shift;  // outputs are elements [left, right)
    const int tail = p_.writer.row_vectors * kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (First && e >= shift && e >= left && e < right) to[e] = from[e];
      if (Last && e < shift && tail + e >= left && tail + e < right) to[tail + e] = from[tail + e];
    }
  }

  // The same if phases are skewed: the tile's own outputs among the first vectors, and among those that its
  // last pass leaves over. A lane has the same output of each row at either end, so one test serves all
  // rows.
  template <bool First, bool Last>
  __device__ void store_skewed_ends(T* y, int64_t o, int shift) const {
    constexpr int kMostLate = kVector - 1;
    const int most = p_.writer.carried + kMostLate, tail = p_.writer.row_vectors * kVector;
    const int log_lanes = most > 64   ? 7
                          : most > 32 ? 6
                          : most > 16 ? 5
                                      : 4,
              lanes = 1 << log_lanes;  // of a row
#pragma unroll 1
    for (int at = thread_ & (lanes - 1); at < most; at += lanes) {
      const int first = at, last = tail + at - kMostLate;  // after the pass's first output
      const bool own_first = First && is_own(first, o), own_last = Last && is_own(last, o);
      if (!own_first && !own_last) continue;
#pragma unroll 1
      for (int cout = thread_ >> log_lanes; cout < couts_; cout += 128 >> log_lanes) {
        const int late = (shift + rows_[cout * p_.sizes.phases].skew) % kVector;
        const int whole = vectors_with_ends(late) * kVector - late;  // the first output of the next vector
        const T* from = staged_ + cout * p_.writer.row_pitch + late;
        T* to = y + cout * p_.sizes.lout + o;
        if (own_first && first < whole) to[first] = from[first];
        if (own_last && at + late >= kMostLate) to[last] = from[last];
      }
    }
  }
  // Whether element e after the pass's first output o is an output of one of the pass's columns.
  __device__ bool is_own(int e, int64_t o) const {
    if (e < 0 || o + e < 0 || o + e >= p_.sizes.lout) return false;
    const int slot = e - static_cast<int>(p_.sizes.stride_div.divide(e)) * p_.sizes.stride;
    const int column = e - leads_[slot];  // times the stride
    return column >= 0 && column < kPass * p_.sizes.stride;
  }

  __device__ void store_elements(T* y, int64_t first) const {
    for (int i = thread_; i < couts_ * p_.writer.span; i += 128) {
      const int cout = static_cast<int>(p_.writer.span_div.divide(i)), e = i - cout * p_.writer.span;
      const int turn = static_cast<int>(p_.sizes.stride_div.divide(e));
      const int column = e - leads_[e - turn * p_.sizes.stride];  // times the stride
      const int64_t o = first + e;
      if (column < 0 || column >= kPass * p_.sizes.stride || o < 0 || o >= p_.sizes.lout) continue;
      y[cout * p_.sizes.lout + o] = staged_[cout * p_.writer.row_pitch + e];
    }
  }

  // Folded samples: the outputs of a pass from column `first` on. Of each sample's rows a window that has all
  // of them, the whole row if it is short; neighbouring threads store neighbouring outputs, of several couts
  // if the window is small. y: sample 0's. (From registers, a warp would store pieces of sectors, which L2
  // takes four times as slowly.)
  __device__ void store_samples(T* y, int first) const {
    const int pitch = p_.columns.sample_columns, window = p_.writer.window;
    const int begin = static_cast<int>(p_.columns.sample_pitch.divide(first));
    const int end =
        min(p_.sizes.samples, static_cast<int>(p_.columns.sample_pitch.divide(first + kPass - 1)) + 1);
    const int lanes = 1 << p_.writer.log_lanes, cout_lanes = 128 >> p_.writer.log_lanes;
    const int cout_lane = thread_ >> p_.writer.log_lanes;
#pragma unroll 1
    for (int at = thread_ & (lanes - 1); at < window; at += lanes) {
#pragma unroll 1
      for (int n = begin; n < end; ++n) {
        const int column = first - n * pitch;  // among those of the sample
        const int64_t o = window_at(column) + at;
        const int from = place_of_output(o, column);
        if (from < 0) continue;
        T* to = y + (int64_t{n} * p_.sizes.cout + cout_lane) * p_.sizes.lout + o;
        const T* staged = staged_ + cout_lane * p_.writer.row_pitch + from;
#pragma unroll 4
        for (int cout = cout_lane; cout < couts_; cout += cout_lanes) {
          *to = *staged;
          to += cout_lanes * p_.sizes.lout;
          staged += cout_lanes * p_.writer.row_pitch;
        }
      }
    }
  }
  // The first output of the window of a pass that begins at this column of a sample.
  __device__ int64_t window_at(int column) const {
    const int64_t o = (p_.columns.first_u + max(column, 0)) * p_.sizes.stride - p_.sizes.padding;
    return min(max(o, int64_t{0}), p_.sizes.lout - p_.writer.window);
  }
  // Where an output is in a staged row; -1: it is of another pass.
  __device__ int place_of_output(int64_t o, int first_column) const {
    const auto q = static_cast<uint32_t>(o + p_.sizes.padding);
    const auto turn = static_cast<int>(p_.sizes.stride_div.divide(q));
    const int slot = static_cast<int>(q) - turn * p_.sizes.stride;
    const int lead = p_.sizes.skewed ? leads_[slot] : slot;
    const int back = p_.sizes.skewed ? static_cast<int>(p_.sizes.stride_div.divide(lead - slot)) : 0;
    const int64_t column = turn - back - p_.columns.first_u - first_column;
    return column >= 0 && column < kPass ? static_cast<int>(column) * p_.sizes.stride + lead : -1;
  }

  const Params& p_;
  int thread_, warpgroup_, couts_;
  T* staged_;
  const Row* rows_;
  const int* leads_;
};

#endif

}  // namespace tconv::cuda::sm90
