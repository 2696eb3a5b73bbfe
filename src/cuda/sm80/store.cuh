// The epilogue: sums in registers become rows of y, or partial sums in the workspace.
//
// Sums are staged in shared memory as [row][column] in y's type, some of the block's columns at a time. Rows
// of y begin at any element. At stride 1 a staged row is shifted so that its 16-byte vectors are those of y,
// and stores are whole vectors, with single elements only at the ends. At other strides a warp stores 32
// neighbouring outputs: an output's slot modulo the stride says which phase (or none: bias) and how many
// columns back.
#pragma once

#include "cuda/device/writers.cuh"
#include "cuda/sm80/input.cuh"

namespace tconv::cuda::sm80 {

// For an output's slot (o - first) mod stride: its phase, -1 if no tap reaches it, and its column less the
// number of strides.
struct SlotEntry {
  int phase, column;
};

// What the block's rows are.
struct Rows {
  int group, first_tile, end_tile;  // row tiles of 16, of the group
  int split;
};

template <class S>
class Output {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sum = typename Mode::Sum;
  using Sums = Sum[S::kMi][S::kNi][4];
  static constexpr int kVector = 16 / sizeof(T);

  __device__ Output(const Sm80Params& p, const Rows& rows, unsigned char* shared)
      : p_(p),
        rows_(rows),
        stage_(reinterpret_cast<T*>(shared + p.shared_stage)),
        bias_(reinterpret_cast<Sum*>(shared + p.shared_bias)),
        table_(reinterpret_cast<SlotEntry*>(shared + p.shared_table)) {}

  // Once for each block, before a barrier.
  __device__ void prepare() {
    for (int row = threadIdx.x; row < S::kRows; row += S::kThreads) {
      const int cout = (rows_.first_tile + row / 16) / p_.phases * 16 + row % 16;
      const int64_t channel = int64_t{rows_.group} * p_.cout_group + cout;
      bias_[row] = cout < p_.cout_group ? load_bias_to_add<T>(p_.bias, channel) : Sum(0);
    }
    if (p_.stride == 1) return;
    for (int slot = threadIdx.x; slot < p_.stride; slot += S::kThreads) table_[slot] = {-1, 0};
    __syncthreads();
    for (int a = threadIdx.x; a < p_.phases; a += S::kThreads) {
      const int64_t reach = int64_t{a} * p_.dilation, slot = reach % p_.stride;
      table_[slot] = {a, static_cast<int>((slot - reach) / p_.stride)};
    }
  }

  // Partial sums: [split][row][column], every column of the tile.
  __device__ void store_partial(const Sums& sums, int tile) const {
    const int warp_row = threadIdx.x / 32 / S::kWarpColumns, warp_column = threadIdx.x / 32 % S::kWarpColumns;
    Sum* base =
        static_cast<Sum*>(p_.output) + int64_t{tile} * S::kColumns + warp_column * S::WarpTile::kColumns;
    const int64_t all_rows = int64_t{p_.groups} * p_.row_tiles * 16;
    Sum* rows[S::kMi];
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
      const int row_tile = rows_.first_tile + warp_row * S::kMi + i;
      const int64_t row =
          int64_t{rows_.split} * all_rows + (int64_t{rows_.group} * p_.row_tiles + row_tile) * 16;
      rows[i] = row_tile < rows_.end_tile ? base + row * p_.partial_columns : nullptr;
    }
    cuda::store_partial(rows, p_.partial_columns, sums, threadIdx.x % 32);
  }

  __device__ void store(const Sums& sums, int tile) const {
    const int n = static_cast<int>(p_.sample_tiles.divide(tile));
    const int64_t column = int64_t{tile - n * static_cast<int>(p_.sample_tiles.value)} * S::kColumns;
    // The output of slot 0 of column 0, and y at sample n and the group's first cout.
    int64_t first = (p_.first_u + column) * p_.stride - p_.padding;
    T* y =
        static_cast<T*>(p_.output) + (int64_t{n} * p_.cout + int64_t{rows_.group} * p_.cout_group) * p_.lout;
    for (int pass = 0; pass < S::kColumns; pass += p_.pass_columns) {
      if (pass > 0) __syncthreads();
      stage(sums, pass, y, first);
      __syncthreads();
      if (p_.stride == 1) {
        store_rows(y, first);
      } else {
        store_phases(y, first);
      }
      first += int64_t{p_.pass_columns} * p_.stride;
    }
  }

 private:
  // Elements from the last 16-byte boundary to output o of cout's row.
  __device__ int skew(const T* y, int cout, int64_t o) const {
    const uint32_t element = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(y) / sizeof(T)) +
                             static_cast<uint32_t>(cout) * static_cast<uint32_t>(p_.lout) +
                             static_cast<uint32_t>(o);
    return static_cast<int>(element % kVector);
  }

  // Neighbouring phases lie 16 rows apart: a skew of one vector each puts their columns into different banks.
  __device__ int staged_row(int row) const {
    return row * p_.stage_pitch + row / 16 * kVector;
  }

  __device__ void stage(const Sums& sums, int pass, const T* y, int64_t first) const {
    const int warp_row = threadIdx.x / 32 / S::kWarpColumns, warp_column = threadIdx.x / 32 % S::kWarpColumns;
    const int lane = threadIdx.x % 32, column = warp_column * S::WarpTile::kColumns - pass;
    if (column < 0 || column >= p_.pass_columns) return;
#pragma unroll
    for (int i = 0; i < S::kMi; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (warp_row * S::kMi + i) * 16 + MmaAccumulator::row(lane, 2 * half);
        const Epilogue<T> finish{bias_[row]};
        const int shift = p_.stride == 1 ? skew(y, rows_.first_tile * 16 + row, first) : 0;
        T* at = stage_ + staged_row(row) + shift + column + MmaAccumulator::column(lane, 0);
#pragma unroll
        for (int j = 0; j < S::kNi; ++j) {
          const T left = finish(sums[i][j][2 * half]);
          const T right = finish(sums[i][j][2 * half + 1]);
          if (shift % 2 == 0) {
            store_pair(at + 8 * j, left, right);
          } else {
            at[8 * j] = left;
            at[8 * j + 1] = right;
          }
        }
      }
    }
  }

  // Stride 1: a row is a cout, a column an output. A thread keeps to its vector and walks down the rows. If a
  // row begins between two vectors, the first thread takes what is left over at both ends.
  __device__ void store_rows(T* y, int64_t first) const {
    const int v = threadIdx.x & ((1 << p_.row_shift) - 1), step = S::kThreads >> p_.row_shift;
    const int rows = min((rows_.end_tile - rows_.first_tile) * 16, p_.cout_group - rows_.first_tile * 16);
    const bool inside = first >= 0 && first + p_.pass_columns <= p_.lout;
    int row = threadIdx.x >> p_.row_shift;
    T* out = y + int64_t{rows_.first_tile * 16 + row} * p_.lout + first;
    for (; row < rows; row += step, out += step * p_.lout) {
      const int shift = skew(y, rows_.first_tile * 16 + row, first);
      const T* staged = stage_ + staged_row(row) + v * kVector;
      T* to = out + v * kVector - shift;
      if (inside && (v > 0 || shift == 0)) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(staged);
      } else {
        const int64_t o = first + v * kVector - shift;
        copy_clipped(to, staged, o, v == 0 ? shift : 0, kVector, p_.lout);
        if (v == 0) {
          const int end = p_.pass_columns;
          copy_clipped(to + end, staged + end, o + end, 0, shift, p_.lout);
        }
      }
    }
  }

  // Any stride. A warp takes 32 neighbouring outputs of 16 couts; a lane looks up its phase and column once.
  // An output belongs to the block that has its phase; an output without taps, to the block that has phase 0
  // of its cout.
  __device__ void store_phases(T* y, int64_t first) const {
    constexpr int kWarps = S::kThreads / 32;
    const int first_block = rows_.first_tile / p_.phases, end_block = (rows_.end_tile - 1) / p_.phases + 1;
    const int lane = threadIdx.x % 32, tiles = rows_.end_tile - rows_.first_tile;
    for (int chunk = threadIdx.x / 32; chunk < p_.row_chunks * (end_block - first_block); chunk += kWarps) {
      const int block = first_block + static_cast<int>(p_.row_chunks_div.divide(chunk));
      const int slot = (chunk - (block - first_block) * p_.row_chunks) * 32 + lane;
      const int turn = static_cast<int>(p_.stride_div.divide(slot));
      const SlotEntry entry = table_[slot - turn * p_.stride];
      const int column = turn + entry.column;
      const int place = block * p_.phases - rows_.first_tile + max(entry.phase, 0);
      const int64_t o = first + slot;
      if (place < 0 || place >= tiles || column < 0 || column >= p_.pass_columns || o < 0 || o >= p_.lout)
        continue;
      store_couts(y + int64_t{block} * 16 * p_.lout + o, place * 16, entry.phase < 0 ? -1 : column,
                  p_.cout_group - block * 16);
    }
  }

  // 16 couts of one output; column -1: bias alone.
  __device__ void store_couts(T* out, int row, int column, int couts) const {
    const T* staged = stage_ + staged_row(row) + column;
#pragma unroll
    for (int r0 = 0; r0 < 16; r0 += 8) {
      T values[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        values[r] = column < 0 ? Epilogue<T>{bias_[row + r0 + r]}.alone() : staged[(r0 + r) * p_.stage_pitch];
      }
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        if (r0 + r < couts) *out = values[r];
        out += p_.lout;
      }
    }
  }

  const Sm80Params& p_;
  const Rows& rows_;
  T* stage_;
  Sum* bias_;
  SlotEntry* table_;
};

}  // namespace tconv::cuda::sm80
