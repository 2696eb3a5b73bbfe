// A line of LineWriter: outputs of some columns of a warp's 16 rows, staged in shared memory, each row as it
// lies in sectors of y, and how they get there.
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class LineRows {
 protected:
  using T = typename S::Mode::T;
  using Params = typename S::Params;
  using Registers = WgmmaAccumulator<S::kN>;
  static constexpr uint32_t kSize = sizeof(T);
  static constexpr int kVector = 16 / kSize, kSector = 32 / kSize;  // outputs
  static constexpr int kLineBytes = S::kStoring.line_bytes, kPitch = sm90_line_pitch(kLineBytes);
  static constexpr int kLine = kLineBytes / sizeof(T);
  static constexpr int kLines = S::kN / kLine, kChunks = kLine / 8;  // of a tile's row; of 8 columns
  static constexpr int kLineVectors = kLineBytes / 16, kLineSectors = kLineBytes / 32;
  // A warp stores a line of its rows in turns, in each of which a lane has a vector.
  static constexpr int kTurnRows = 32 / kLineVectors, kTurns = Registers::kRows / kTurnRows;
  static_assert(S::kN % kLine == 0);

  __device__ LineRows(const Params& p, const Block& block, unsigned char* shared)
      : p_(p), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32 % 4), warpgroup_(threadIdx.x / 128) {
    row_block_ = block.run * S::kRowBlocks + (S::kRowBlocks == 2 ? warpgroup_ : 0);
    rows_ = reinterpret_cast<const Row*>(shared + p.writer.shared_rows) +
            (S::kRowBlocks == 2 ? warpgroup_ : 0) * kSm90Rows + warp_ * Registers::kRows;
    channel_ = int64_t{block.group} * p.sizes.cout_group + int64_t{row_block_} * kSm90Rows +
               warp_ * Registers::kRows;
    staged_ = ptx::shared_address(shared + p.writer.shared) + threadIdx.x / 32 * Registers::kRows * kPitch;
  }

  // A column of the tile: of its sample or, if folded, of all samples.
  struct Place {
    int n, column;
  };
  // For 8 columns, which belong to one sample: their first output, and where it is from a row of sample 0 on.
  struct Outputs {
    int o;
    int64_t at;
    bool there;  // of a sample that exists
  };
  __device__ Outputs outputs_at(const Place& first, int columns) const {
    int n = first.n, column = first.column + columns;
    if (p_.columns.folded) {
      n = static_cast<int>(p_.columns.sample_pitch.divide(column));
      column -= n * p_.columns.sample_columns;
    }
    const int o = column + static_cast<int>(p_.columns.first_u) - p_.sizes.padding;
    return {o, n * p_.sizes.cout * p_.sizes.lout + o, n < p_.sizes.samples};
  }

  // Columns of the tile that are outputs: [begin, end). The same in all lanes, which the compiler then knows:
  // a loop that lanes might leave one by one costs the whole kernel its uniform registers (n1 ci96 co96
  // l12800 k11 bf16: 14.1 us, and 16.7).
  struct Columns {
    int begin, end;
  };
  __device__ Columns columns_of(const Outputs& origin) const {
    int begin = 0, end = S::kN;
    if (!p_.columns.folded) {
      begin = max(0, -origin.o);
      end = origin.there ? static_cast<int>(min(int64_t{S::kN}, p_.sizes.lout - origin.o)) : 0;
    }
    return {__shfl_sync(~0u, begin, 0), __shfl_sync(~0u, max(begin, end), 0)};
  }

  // A row of the warp: the sector of y in which its column 0 is, and that column's place in it. If folded,
  // the address of output 0 of sample 0.
  struct RowOfY {
    uintptr_t sector;
    int late;
    bool there;
    __device__ uint32_t odd() const { return kSize == 2 ? late % 2 : 0; }
  };
  __device__ RowOfY row_of_y(int row, const Outputs& origin) const {
    const int64_t first = (channel_ + row) * p_.sizes.lout;
    const bool there = rows_[row].at >= 0, folded = p_.columns.folded;
    const auto at =
        reinterpret_cast<uintptr_t>(p_.operands.output) + (first + (folded ? 0 : origin.at)) * kSize;
    const int late = folded ? 0 : static_cast<int>(at % 32 / kSize);
    return {at - late * kSize, late, there};
  }
  // Where a row is staged; the lane's vector of the first row that it stores; its half of a piece.
  __device__ uint32_t staged_row(int row) const { return staged_ + row * kPitch; }
  __device__ uint32_t own_vectors() const {
    return staged_row(lane_ / kLineVectors) + lane_ % kLineVectors * 16;
  }
  __device__ uint32_t own_piece() const { return staged_row(lane_ / 2) + lane_ % 2 * 16; }

  // What a lane stores of each line: in each turn a vector.
  struct Vectors {
    uintptr_t to[kTurns];
    int first[kTurns], count[kTurns];  // of whole sectors, where 0 is the lane's vector of line 0
    uint32_t odd;                      // a bit for each row
  };
  __device__ Vectors vectors_of(const Outputs& origin, const Columns& columns) const {
    Vectors v{};
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const RowOfY row = row_of_y(lane_ / kLineVectors + i * kTurnRows, origin);
      const int own = lane_ % kLineVectors;
      v.to[i] = row.sector + own * 16;
      const int first = (row.late + columns.begin + kSector - 1) / kSector * 2,
                end = (row.late + columns.end) / kSector * 2;
      v.first[i] = first - own;
      v.count[i] = row.there ? max(0, end - first) : 0;
      v.odd |= row.odd() << i;
    }
    return v;
  }
  // Sectors that the tile's part of a row fills only in part, counted from the row's first one; -1: none.
  struct Pieces {
    RowOfY row;
    int head, tail;
  };
  __device__ Pieces pieces_of(const Outputs& origin, const Columns& columns) const {
    Pieces p{row_of_y(lane_ / 2, origin), -1, -1};
    if (!p.row.there || p_.columns.folded) return p;
    const int begin = p.row.late + columns.begin, end = p.row.late + columns.end;
    if (begin == end) return p;
    if (begin % kSector != 0) p.head = begin / kSector;
    if (end % kSector != 0 && end / kSector != p.head) p.tail = end / kSector;
    return p;
  }

  // A staged vector; odd: it was staged an element later.
  __device__ static uint4 vector_at(uint32_t from, bool any_odd, uint32_t odd) {
    uint4 v = ptx::load_shared16(from);
    if (kSize == 2 && any_odd) {
      const uint32_t after = ptx::load_shared4(from + 16), late = odd * 16;
      v = {__funnelshift_r(v.x, v.y, late), __funnelshift_r(v.y, v.z, late), __funnelshift_r(v.z, v.w, late),
           __funnelshift_r(v.w, after, late)};
    }
    return {canonical_word(v.x), canonical_word(v.y), canonical_word(v.z), canonical_word(v.w)};
  }
  __device__ static uint32_t canonical_word(uint32_t v) {
    if constexpr (kSize == 4) return __float_as_uint(canonical(__uint_as_float(v)));
    if constexpr (kSize == 2) return canonical_pair<T>(v);
  }

  __device__ void store_sectors(const Vectors& vectors, int line, bool any_odd) const {
    uint4 v[kTurns];
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      v[i] = vector_at(own_vectors() + i * kTurnRows * kPitch, any_odd, vectors.odd >> i & 1);
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (static_cast<uint32_t>(line * kLineVectors - vectors.first[i]) <
          static_cast<uint32_t>(vectors.count[i]))
        ptx::store_global16(vectors.to[i] + line * int64_t{kLineBytes}, v[i]);
    }
  }

  // A bit for each line in which some row has one; or for any, where there is no register for that.
  __device__ static uint32_t lines_of(const Pieces& pieces) {
    if constexpr (S::Mode::kParts == 2) return ~0u;
    uint32_t lines = 0;
    if (pieces.head >= 0) lines |= 1u << pieces.head / kLineSectors;
    if (pieces.tail >= 0) lines |= 1u << pieces.tail / kLineSectors;
    return __reduce_or_sync(~0u, lines);
  }
  // Those of them that lie in a line: two lanes a row.
  __device__ void store_pieces(const Pieces& pieces, const Columns& columns, int line) const {
#pragma unroll 1
    for (int end = 0; end < 2; ++end) {
      const int sector = end == 0 ? pieces.head : pieces.tail;
      const bool here = sector >= 0 && sector / kLineSectors == line;
      if (!__any_sync(~0u, here)) continue;
      if (here) store_piece(pieces.row, columns, sector, own_piece() + sector % kLineSectors * 32);
    }
  }
  // The outputs in such a sector.
  __device__ static void store_piece(const RowOfY& row, const Columns& columns, int sector, uint32_t from) {
    const uint4 v = vector_at(from, true, row.odd());
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    const int first = sector * kSector + static_cast<int>(threadIdx.x % 2) * kVector;
    const uintptr_t to = row.sector + first * int64_t{kSize};
    // Elements of the vector.
    const int begin = row.late + columns.begin - first, end = row.late + columns.end - first;
    if (begin <= 0 && end >= kVector) {
      ptx::store_global16(to, v);
      return;
    }
    const auto inside = [&](int e) { return e >= begin && e < end; };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      constexpr int kOf = 4 / kSize;  // elements of a word
      const bool low = inside(i * kOf), high = inside(i * kOf + kOf - 1);
      if (low && high) {
        ptx::store_global4(to + 4 * i, words[i]);
      } else if (kSize == 2 && low) {
        ptx::store_global2(to + 4 * i, words[i]);
      } else if (kSize == 2 && high) {
        ptx::store_global2(to + 4 * i + 2, words[i] >> 16);
      }
    }
  }

  // If samples share tiles: the lane's columns of a line belong to one of them.
  __device__ void store_of_samples(const Vectors& vectors, const Place& first, int line) const {
    const Outputs of = outputs_at(first, line * kLine + lane_ % kLineVectors * kVector);
    if (!of.there) return;
    const bool whole = of.o >= 0 && of.o + kVector <= p_.sizes.lout,
               on_vectors = reinterpret_cast<uintptr_t>(p_.operands.output) % 16 == 0;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (vectors.count[i] == 0) continue;
      const uintptr_t to = vectors.to[i] + of.at * kSize - lane_ % kLineVectors * 16;
      const uint32_t staged = own_vectors() + i * kTurnRows * kPitch;
      if (whole && on_vectors) {
        ptx::store_global16(to, vector_at(staged, false, 0));
        continue;
      }
#pragma unroll 1
      for (int e = 0; e < kVector; ++e) {
        if (of.o + e >= 0 && of.o + e < p_.sizes.lout) store_element(to + e * kSize, staged + e * kSize);
      }
    }
  }
  __device__ static void store_element(uintptr_t to, uint32_t from) {
    if constexpr (kSize == 4) {
      ptx::store_global4(to, canonical_word(ptx::load_shared4(from)));
    } else {
      ptx::store_global2(to, canonical_word(ptx::load_shared2(from)));
    }
  }

  const Params& p_;
  int lane_, warp_, warpgroup_, row_block_;
  const Row* rows_;  // the warp's
  int64_t channel_;  // of y, of its first row
  uint32_t staged_;  // where that is staged
};

#endif

}  // namespace tconv::cuda::sm90
