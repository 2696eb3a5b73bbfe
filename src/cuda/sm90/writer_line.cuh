// LineWriter: sums of stride 1 become rows of y, where packed rows are the rows of wgmma. A warp has 16
// rows, and warps do not wait for each other:
//
//   for each line of 128 bytes of a row (or 64, Sm90Storing), one more than the tile's columns fill if some
//   row begins inside a sector:
//     stage the sums of as many columns, rounded, behind what the line before left over, in shared memory
//     8 lanes a row store the line's whole sectors, 16 bytes each
//     2 lanes a row store the piece of a sector with which the tile's row begins or ends
//
// Lines begin on sectors of y (32 bytes), wherever rows of y begin: staged columns are shifted. (Rows of 512
// bytes reach memory at 3.6 to 4.3 TB/s if they begin on sectors, at 2.1 to 2.7 if they begin inside one;
// H200.) A 16-bit output at an odd place is staged one place later, so that pairs stay words, and vectors are
// put together again as they are loaded. Where samples share tiles, nothing is shifted: rows of y begin on 16
// bytes then, and 8 columns belong to one sample.
//
// Only the code that names sums is repeated for each line. What a block runs once is fetched from L2, at 1 to
// 3 bytes a clock: with everything unrolled, the first tile of 128x256 took 12 us in tf32 where the second
// took 3.5 (n1 ci32 co32 l128000 k3).
#pragma once

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/blocked.hpp"
#include "cuda/sm90/blocked_repair.cuh"
#include "cuda/sm90/line_rows.cuh"
#include "cuda/sm90/product_gathered.cuh"
#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/rows.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class LineWriter : LineRows<S> {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = float[S::kN / 2];
  using Params = typename S::Params;
  using Later = LaterSums<S>;

  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    make_rows<S>(p, block, shared, [](int /*inner*/, int /*phase*/, bool there) { return there ? 0 : -1; });
  }

  __device__ LineWriter(const Params& p, const Block& block, unsigned char* shared)
      : LineRows<S>(p, block, shared),
        block_(block),
        first_column_(S::kRowBlocks == 2 ? 0 : warpgroup_ * S::kN) {}

  // Stores a tile's outputs. True: some sums must be made again, which `later` has.
  template <bool Repairs>
  __device__ bool store(const Sums& sums, int tile, const Seen& seen, Later& later) const {
    const Place first = place_of_tile(tile);
    if constexpr (kMarksTiles<S>) {
      if (threadIdx.x % 128 == 0)
        block_.marks(p_)[2 * tile + threadIdx.x / 128] = seen.marked || marks() != 0;
    }
    if constexpr (kScaledBlocks<S>) {
      later = Later(sums, seen.least, written_columns<S>(p_, tile, first_column_));
      store_lines(sums, first, seen.unscale);
      return later.any();
    } else {
      store_lines(sums, first, seen.unscale);
      if constexpr (kMarksTiles<S> || !Repairs) return false;
      return find_again<S>(p_, sums, seen.marked || marks() != 0, later);
    }
  }

  // For sums that are made again: the output of which sum i of a lane is one.
  __device__ OutputSpot spot(int tile, int i, int lane) const {
    const TilePlace of_warp = Registers::place({lane, i});
    const int row = of_warp.row, inner = of_warp.column & 7;
    const Outputs at = outputs_at(place_of_tile(tile), of_warp.column & ~7);
    const int o = at.o + inner;
    const bool there = rows_[row].at >= 0 && at.there && o >= 0 && o < p_.sizes.lout;
    return {warp_ * Registers::kRows + row, (at.at - at.o) / (p_.sizes.cout * p_.sizes.lout),
            int64_t{o} + p_.sizes.padding, there ? (channel_ + row) * p_.sizes.lout + at.at + inner : -1};
  }
  __device__ void store_again(const OutputSpot& spot, float sum) const {
    static_cast<T*>(p_.operands.output)[spot.to] =
        epilogue_of_exact<S>(rows_[spot.row - warp_ * Registers::kRows])(sum);
  }
  __device__ int row_block() const { return row_block_; }

 private:
  using typename LineRows<S>::Place, typename LineRows<S>::Outputs, typename LineRows<S>::Columns;
  using typename LineRows<S>::RowOfY, typename LineRows<S>::Vectors, typename LineRows<S>::Pieces;
  using typename LineRows<S>::Registers;
  using LineRows<S>::kSize, LineRows<S>::kSector, LineRows<S>::kLine, LineRows<S>::kLines;
  using LineRows<S>::kChunks, LineRows<S>::kLineBytes;
  using LineRows<S>::outputs_at, LineRows<S>::columns_of, LineRows<S>::pieces_of, LineRows<S>::vectors_of;
  using LineRows<S>::row_of_y, LineRows<S>::staged_row, LineRows<S>::own_piece;
  using LineRows<S>::store_of_samples, LineRows<S>::store_sectors, LineRows<S>::store_pieces;

  __device__ Place place_of_tile(int tile) const {
    if (p_.columns.folded) return {0, tile * S::kColumns + first_column_};
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(tile));
    return {n, (tile - n * static_cast<int>(p_.columns.sample_tiles.value)) * S::kColumns + first_column_};
  }

  __device__ void store_lines(const Sums& sums, const Place& first, float unscale) const {
    const Row rows[2] = {rows_[lane_ / 4], rows_[lane_ / 4 + 8]};
    if (!__any_sync(~0u, rows[0].at >= 0 || rows[1].at >= 0)) return;
    const Outputs origin = outputs_at(first, 0);
    const Columns columns = columns_of(origin);
    RowEpilogue<S> epilogues[2] = {epilogue_of<S>(rows[0], unscale), epilogue_of<S>(rows[1], unscale)};
    const Pieces pieces = pieces_of(origin, columns);
    const uint32_t with_pieces = lines_of(pieces);
    const Vectors vectors = vectors_of(origin, columns);
    const bool shifted = __any_sync(~0u, pieces.row.late != 0), odd = __any_sync(~0u, pieces.row.odd() != 0);
    uint32_t at[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane_ / 4 + 8 * half;
      const RowOfY of = row_of_y(row, origin);
      at[half] = staged_row(row) + (of.late + of.odd() + Registers::column(lane_, 0)) * kSize;
    }
    const int lines = (columns.end + (shifted ? kSector - 1 : 0) + kLine - 1) / kLine;
    uint4 left_over{};
#pragma unroll 1
    for (int line = columns.begin / kLine; line < lines; ++line) {
      renew(epilogues[0]);
      renew(epilogues[1]);
      ptx::store_shared16(own_piece(), left_over);  // of the line before
      __syncwarp();
      const bool columns_left = line * kLine < columns.end;
      if (columns_left) stage(sums, line, at, epilogues);
      __syncwarp();
      if (p_.columns.folded) {
        store_of_samples(vectors, first, line);
      } else if (columns_left) {
        store_sectors(vectors, line, odd);
      }
      if (with_pieces >> line & 1) store_pieces(pieces, columns, line);
      left_over = ptx::load_shared16(own_piece() + kLineBytes);
      __syncwarp();
    }
  }

  // Lets the compiler assume that it changes in every turn of the loop. Otherwise all outputs of the tile are
  // computed before the loop, and registers for them spill.
  __device__ static void renew(RowEpilogue<S>& epilogue) {
    asm volatile("" : "+f"(epilogue.bias));
    if constexpr (kScaledBlocks<S>) asm volatile("" : "+f"(epilogue.scale.first));
  }

  // The sums of a line's columns. Sums are registers, which cannot be indexed.
  template <int First = 0, int End = kLines>
  __device__ void stage(const Sums& sums, int line, const uint32_t (&at)[2],
                        const RowEpilogue<S> (&epilogues)[2]) const {
    if constexpr (End - First > 1) {
      constexpr int kMiddle = (First + End) / 2;
      if (line < kMiddle) {
        stage<First, kMiddle>(sums, line, at, epilogues);
      } else {
        stage<kMiddle, End>(sums, line, at, epilogues);
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kChunks; ++j) {
          const int i = 4 * (First * kChunks + j) + 2 * half;
          put(at[half] + kSize * 8 * j, epilogues[half].value(sums[i]), epilogues[half].value(sums[i + 1]));
        }
      }
    }
  }
  __device__ static void put(uint32_t to, float left, float right) {
    if constexpr (kSize == 4) {
      ptx::store_shared4(to, __float_as_uint(left));
      ptx::store_shared4(to + 4, __float_as_uint(right));
    } else {
      ptx::store_shared4(to, rounded_pair<T>(left, right));
    }
  }

  __device__ uint32_t marks() const {
    return weight_marks(p_, block_, row_block_);
  }

  using LineRows<S>::p_, LineRows<S>::lane_, LineRows<S>::warp_, LineRows<S>::warpgroup_;
  using LineRows<S>::row_block_, LineRows<S>::rows_, LineRows<S>::channel_;

  const Block& block_;
  int first_column_;
};

#endif

}  // namespace tconv::cuda::sm90
