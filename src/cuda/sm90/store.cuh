// The epilogue: a warpgroup's sums become rows of y, or partial sums in the workspace.
//
// A warpgroup holds whole couts with all their phases, so its share of a cout's row of y is one run of
// outputs. It stages some columns at a time as [cout][output] in shared memory, residues interleaved and
// bias where an output has no taps, each row shifted so that its 16-byte vectors are y's, and stores vectors.
// What a pass leaves over of its last vector begins the next pass; single elements remain at a tile's ends.
// Phases that lie more than a stride apart leave ragged ends in every pass: those rows are stored by
// elements.
#pragma once

#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class Output {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = float[S::kN / 2];
  static constexpr bool kHeld = std::is_same_v<Mode, Held>;
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kPass =
      S::kN < kSm90PassBytes / static_cast<int>(sizeof(T)) ? S::kN : kSm90PassBytes / sizeof(T);

  // Made anew for each tile: what it knows would else take registers from the sums.
  __device__ Output(const Sm90Params& p, const Share& share, unsigned char* shared)
      : p_(p), share_(share), thread_(threadIdx.x % 128), warpgroup_(threadIdx.x / 128) {
    staged_ = reinterpret_cast<T*>(shared + p.shared_stage) + warpgroup_ * p.block_couts * p.row_pitch;
    rows_ = reinterpret_cast<const Row*>(shared + p.shared_table) +
            (S::kRowBlocks == 2 ? warpgroup_ : 0) * kSm90Rows;
    leads_ = reinterpret_cast<const int*>(shared + p.shared_table + kTableRows<S> * sizeof(Row));
    row_block_ = share.run * S::kRowBlocks + (S::kRowBlocks == 2 ? warpgroup_ : 0);
    first_column_ = S::kRowBlocks == 2 ? 0 : warpgroup_ * S::kN;
    const int first_cout = row_block_ * p.block_couts;
    couts_ = row_block_ < p.row_blocks ? min(p.block_couts, p.cout_group - first_cout) : 0;
    channel_ = int64_t{share.group} * p.cout_group + first_cout;
  }

  __device__ void store(Sums& sums, int tile, const Seen& seen) {
    unscale_ = seen.unscale;
    if constexpr (kHeld) {
      if (thread_ == 0) share_.marks(p_)[2 * tile + warpgroup_] = seen.marked || marks() != 0;
    }
    if (p_.partial) {
      store_partial(sums, tile, seen.marked);
      return;
    }
    const int n = static_cast<int>(p_.sample_tiles.divide(tile));
    const int64_t u = p_.first_u + int64_t{tile - n * static_cast<int>(p_.sample_tiles.value)} * S::kColumns +
                      first_column_;
    // y at the sample's and the row block's first cout, and the output of the first column's phase 0.
    T* y = static_cast<T*>(p_.output) + (int64_t{n} * p_.cout + channel_) * p_.lout;
    const int64_t first = u * p_.stride - p_.padding;
    // Elements from the last 16-byte boundary to the first cout's first output.
    const int shift =
        p_.skewed ? 0 : static_cast<int>(reinterpret_cast<uintptr_t>(y + first) / sizeof(T) % kVector);
    uint4 carry{};
    store_passes(sums, y, first, shift, carry, lane_at(y + first));
    if constexpr (kHeld) return;
    const bool again = Mode::kParts == 2 && (seen.marked || marks() != 0);
    if (!p_.ragged && !again && marks() == 0) return;
    sync();  // others store this thread's sums
    if (again || any_nan(sums)) repair(y, n, u, again);
  }

 private:
  // Of a thread in the usual case, in which it keeps its vector and rows that it takes begin alike: where
  // that goes, of the first pass, and whence it comes.
  struct Lane {
    bool usual, head;  // head: shared with the outputs before the tile
    uintptr_t to;
    const T* from;
  };
  __device__ int row_of(int half) const { return thread_ / 32 * 16 + half * 8 + thread_ % 32 / 4; }
  __device__ void sync() const { sync_warpgroup(warpgroup_); }

  // What packing marked the row block with.
  __device__ uint64_t marks() const {
    static_assert(kSm90Marks == sizeof(uint64_t));
    if (row_block_ >= p_.row_blocks) return 0;
    const int64_t block = int64_t{share_.group} * p_.row_blocks + row_block_;
    return reinterpret_cast<const uint64_t*>(static_cast<const unsigned char*>(p_.packed) +
                                             p_.marks_at)[block];
  }
  // The passes are unrolled: a pass's sums are registers.
  template <int Pass = 0>
  __device__ void store_passes(Sums& sums, T* y, int64_t first, int shift, uint4& carry, Lane lane) const {
    constexpr bool kFirst = Pass == 0, kLast = Pass == S::kN / kPass - 1;
    const int64_t o = first + int64_t{Pass} * kPass * p_.stride;
    sync();
    if constexpr (!kFirst) put_carry(shift, carry);
    stage<Pass>(sums, 0, shift);
    stage<Pass>(sums, 1, shift);
    sync();
    if (p_.skewed) {
      store_elements(y, o);
    } else {
      if constexpr (!kLast) take_carry(carry);
      const bool inside = o >= kVector && o + int64_t{kPass} * p_.stride <= p_.lout;
      if (inside && lane.usual) {
        store_usual<kFirst>(lane);
      } else {
        store_vectors<kFirst>(y, o, inside);
      }
      if constexpr (kFirst || kLast) store_ends<kFirst, kLast>(y, o, shift);
    }
    lane.to += kPass * sizeof(T) * p_.stride;
    if constexpr (!kLast) store_passes<Pass + 1>(sums, y, first, shift, carry, lane);
  }

  template <int Pass>
  __device__ void stage(const Sums& sums, int half, int shift) const {
    Row row = rows_[row_of(half)];
    if (row.offset < 0) return;
    if constexpr (kHeld) row.scale *= unscale_;
    constexpr int kChunks = kPass / 8, kFrom = Pass * kChunks * 4;
    const int stride = p_.stride;
    T* at = staged_ + row.offset + (shift + row.skew) % kVector + thread_ % 4 * 2 * stride;
    if (stride == 1 && __all_sync(__activemask(), (shift + row.skew) % 2 == 0)) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        store_pair(at + 8 * j, value(sums, kFrom + 4 * j, half, row),
                   value(sums, kFrom + 4 * j + 1, half, row));
      }
      return;
    }
    if (stride == 1) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        at[8 * j] = value(sums, kFrom + 4 * j, half, row);
        at[8 * j + 1] = value(sums, kFrom + 4 * j + 1, half, row);
      }
      return;
    }
    T* pair = at;
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      pair[0] = value(sums, kFrom + 4 * j, half, row);
      pair[stride] = value(sums, kFrom + 4 * j + 1, half, row);
      pair += 8 * stride;
    }
    if (row.gap == 0) return;
    const T nothing = narrow<T>(row.bias);
    for (int g = 1; g <= row.gap; ++g) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        at[8 * j * stride + g] = nothing;
        at[(8 * j + 1) * stride + g] = nothing;
      }
    }
  }
  // Two neighbours, the first at an even place.
  __device__ static void store_pair(T* at, T left, T right) {
    struct alignas(2 * sizeof(T)) Pair {
      T left, right;
    };
    *reinterpret_cast<Pair*>(at) = {left, right};
  }
  // half is a constant wherever this is inlined.
  __device__ T value(const Sums& sums, int i, int half, const Row& row) const {
    const float sum = half == 0 ? sums[i] : sums[i + 2];
    if constexpr (kHeld) return narrow<T>(fmaf(sum, row.scale, row.bias));
    return narrow<T>(sum + row.bias);
  }

  // A row's own thread keeps what lies behind the pass's last vector: the next pass begins with it.
  __device__ void take_carry(uint4& carry) const {
    if (thread_ >= couts_) return;
    const T* row = staged_ + thread_ * p_.row_pitch + p_.row_vectors * kVector;
    carry = *reinterpret_cast<const uint4*>(row);
  }
  __device__ void put_carry(int shift, const uint4& carry) const {
    if (thread_ >= couts_ || p_.skewed) return;
    shift = (shift + rows_[thread_ * p_.phases].skew) % kVector;
    T* row = staged_ + thread_ * p_.row_pitch;
    const T* from = reinterpret_cast<const T*>(&carry);
#pragma unroll
    for (int e = 0; e < kVector - 1; ++e) {
      if (e < shift) row[e] = from[e];
    }
  }

  __device__ Lane lane_at(const T* first) const {
    const int cout = static_cast<int>(p_.vectors_div.divide(thread_)), v = thread_ - cout * p_.row_vectors;
    const uintptr_t row = reinterpret_cast<uintptr_t>(first + cout * p_.lout);
    return {
        p_.row_rest == 0 && couts_ == p_.block_couts && p_.row_turn * p_.lout % kVector == 0 && !p_.skewed,
        v == 0 && row % 16 != 0, (row & ~uintptr_t{15}) + v * 16,
        staged_ + cout * p_.row_pitch + v * kVector};
  }
  template <bool First>
  __device__ void store_usual(const Lane& lane) const {
    if (First && lane.head) return;
    const uintptr_t step = p_.row_turn * p_.lout * sizeof(T);
    const int from_step = p_.row_turn * p_.row_pitch;
    uintptr_t to = lane.to;
    const T* from = lane.from;
#pragma unroll 4
    for (int cout = 0; cout < p_.block_couts; cout += p_.row_turn) {
      ptx::store_global16(to, *reinterpret_cast<const uint4*>(from));
      to += step;
      from += from_step;
    }
  }

  // Vector v of a row goes to the row's first 16-byte boundary at or before output o, plus v. Threads take
  // vectors in turn, 128 apart: row_turn rows and row_rest vectors further.
  template <bool First>
  __device__ void store_vectors(T* y, int64_t o, bool inside) const {
    const int vectors = p_.row_vectors;
    int cout = static_cast<int>(p_.vectors_div.divide(thread_)), v = thread_ - cout * vectors;
    const T* from = staged_ + cout * p_.row_pitch + v * kVector;
    uintptr_t row = reinterpret_cast<uintptr_t>(y + cout * p_.lout + o);
    const uintptr_t row_step = p_.lout * sizeof(T), turn_step = p_.row_turn * row_step;
    const int from_turn = p_.row_turn * p_.row_pitch + p_.row_rest * kVector;
#pragma unroll 1
    for (; cout < couts_; cout += p_.row_turn) {
      const uintptr_t to = (row & ~uintptr_t{15}) + v * 16;
      if (!(First && v == 0 && row % 16 != 0)) {
        if (inside) {
          ptx::store_global16(to, *reinterpret_cast<const uint4*>(from));
        } else {
          const int64_t at = o + v * kVector - static_cast<int>(row % 16 / sizeof(T));
          store_some(reinterpret_cast<T*>(to), from, at);
        }
      }
      row += turn_step;
      from += from_turn;
      v += p_.row_rest;
      if (v >= vectors) {
        v -= vectors;
        ++cout;
        row += row_step;
        from += p_.row_pitch - vectors * kVector;
      }
    }
  }

  // The elements of a vector that are outputs.
  __device__ void store_some(T* to, const T* from, int64_t at) const {
#pragma unroll 1
    for (int e = 0; e < kVector; ++e) {
      if (at + e >= 0 && at + e < p_.lout) to[e] = from[e];
    }
  }

  // What hangs over at a tile's ends: a row's own thread stores it.
  template <bool First, bool Last>
  __device__ void store_ends(T* y, int64_t o, int shift) const {
    if (thread_ >= couts_) return;
    shift = (shift + rows_[thread_ * p_.phases].skew) % kVector;
    if (shift == 0) return;
    const T* from = staged_ + thread_ * p_.row_pitch;
    T* to = y + thread_ * p_.lout + o - shift;
    const int64_t left = shift - o, right = p_.lout - o + shift;  // outputs are elements [left, right)
    const int tail = p_.row_vectors * kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (First && e >= shift && e >= left && e < right) to[e] = from[e];
      if (Last && e < shift && tail + e >= left && tail + e < right) to[tail + e] = from[tail + e];
    }
  }

  __device__ void store_elements(T* y, int64_t first) const {
    for (int i = thread_; i < couts_ * p_.span; i += 128) {
      const int cout = static_cast<int>(p_.span_div.divide(i)), e = i - cout * p_.span;
      const int turn = static_cast<int>(p_.stride_div.divide(e));
      const int column = e - leads_[e - turn * p_.stride];  // times the stride
      const int64_t o = first + e;
      if (column < 0 || column >= kPass * p_.stride || o < 0 || o >= p_.lout) continue;
      y[cout * p_.lout + o] = staged_[cout * p_.row_pitch + e];
    }
  }

  // Partial sums: [split][row][column], every column of the tile.
  __device__ void store_partial(Sums& sums, int tile, bool marked) const {
    if (row_block_ >= p_.row_blocks) return;
    const int64_t all_rows = int64_t{p_.groups} * p_.row_blocks * kSm90Rows;
    const int64_t row =
        int64_t{share_.split} * all_rows + (int64_t{share_.group} * p_.row_blocks + row_block_) * kSm90Rows;
    const int64_t column = int64_t{tile} * S::kColumns + first_column_ + 2 * (thread_ % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* to = static_cast<float*>(p_.output) + (row + row_of(half)) * p_.partial_columns + column;
      const float scale = rows_[row_of(half)].scale;
#pragma unroll
      for (int j = 0; j < S::kN / 8; ++j) {
        float2 pair{sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]};
        if constexpr (kHeld) {
          pair.x = pair.x * scale * unscale_;
          pair.y = pair.y * scale * unscale_;
        }
        *reinterpret_cast<float2*>(to + 8 * j) = pair;
      }
    }
    if constexpr (kHeld) return;
    const bool again = Mode::kParts == 2 && (marked || marks() != 0);
    if (again || ((p_.ragged || marks() != 0) && any_nan(sums))) repair_partial(row, column, again);
  }

  // The thread's own outputs: those that are NaN, or all.
  __device__ void repair(T* y, int n, int64_t u, bool again) const {
#pragma unroll 1
    for (int i = 0; i < S::kN / 2; ++i) {
      const int row = row_of(i % 2), cout = row / p_.phases;
      const int64_t column = u + i / 4 * 8 + i / 2 % 2 + 2 * (thread_ % 4);
      const int64_t o = column * p_.stride + int64_t{row % p_.phases} * p_.dilation - p_.padding;
      if (cout >= couts_ || o < 0 || o >= p_.lout) continue;
      T* to = y + cout * p_.lout + o;
      const float now = widen(*to);
      if (now == now && !again) continue;
      *to = narrow<T>(sum_again<S>(p_, share_, row_block_, row, n, column) + rows_[row].bias);
    }
  }
  __device__ void repair_partial(int64_t first_row, int64_t first_column, bool again) const {
#pragma unroll 1
    for (int i = 0; i < S::kN / 2; ++i) {
      const int row = row_of(i % 2);
      const int64_t column = first_column + i / 4 * 8 + i / 2 % 2, n = column / p_.sample_columns;
      float* to = static_cast<float*>(p_.output) + (first_row + row) * p_.partial_columns + column;
      if ((*to == *to && !again) || n >= p_.samples || row / p_.phases >= couts_) continue;
      *to = sum_again<S>(p_, share_, row_block_, row, n, column - n * p_.sample_columns + p_.first_u);
    }
  }

  const Sm90Params& p_;
  const Share& share_;
  int thread_, warpgroup_, row_block_, first_column_, couts_;
  float unscale_ = 1;
  int64_t channel_;  // of y, of the row block's first cout
  T* staged_;
  const Row* rows_;
  const int* leads_;
};

#endif

}  // namespace tconv::cuda::sm90
