// A block of cuda.simt.dense: its shape, where its tile lies, its slabs, and its threads' places.
#pragma once

#include "cuda/device/fma_accumulator.hpp"
#include "cuda/simt/dense_repair.cuh"

namespace tconv::cuda {

// A block computes Rows x Columns sums; a thread has ThreadRows x ThreadColumns of them, laid out as in
// FmaAccumulator.
template <class T_, int Rows, int Columns, int ThreadRows, int ThreadColumns, int BlocksPerSm>
struct DenseShape {
  using T = T_;
  using Sum = Accumulator<T>;
  static constexpr int kRows = Rows, kColumns = Columns;
  static constexpr int kThreadRows = ThreadRows, kThreadColumns = ThreadColumns;
  static constexpr int kBlocksPerSm = BlocksPerSm;
  static constexpr int kChunk = 16 / sizeof(Sum);
  static constexpr FmaAccumulator map() { return {Rows, Columns, ThreadRows, ThreadColumns, kChunk}; }
  static constexpr int kThreads = map().threads();
  static constexpr int kSlab = kSlabChannels;
  static constexpr int kRowsApart = map().rows_apart(), kColumnsApart = map().columns_apart();
  static constexpr int kPasses = ThreadColumns / kChunk;  // of the epilogue
  static constexpr int kPassColumns = Columns / kPasses;

  struct Stage {
    alignas(16) Sum inputs[kSlab][Rows];
    alignas(16) Sum weights[kSlab][Columns];
  };
  union Shared {
    Stage stages[2];
    alignas(16) Sum staged[kPassColumns][Rows];
  };
  static_assert(sizeof(Shared) <= 48 * 1024);
  static_assert(is_accumulator_map(map()) && Rows % 32 == 0);
};

// Where this block's tile lies.
struct DenseBlock {
  int64_t group, row;
  int split, kind, column;  // kind: the class

  // b: the block's number.
  __device__ DenseBlock(const DenseParams& p, int tile_rows, int tile_columns, uint32_t b) {
    const uint32_t inner = p.rows_first ? p.row_tiles : p.column_tiles;
    const uint32_t outer = p.rows_first ? p.column_tiles : p.row_tiles;
    const uint32_t i = b % inner;
    b /= inner;
    const uint32_t o = b % outer;
    b /= outer;
    split = static_cast<int>(b % p.splits);
    group = b / p.splits;
    row = static_cast<int64_t>(p.rows_first ? i : o) * tile_rows;
    const uint32_t tile = p.rows_first ? o : i;
    kind = tile < p.classes[0].column_tiles ? 0 : 1;
    column = static_cast<int>(kind == 0 ? tile : tile - p.classes[0].column_tiles) * tile_columns;
  }
};

// The slabs of a block's split; none for the last splits of a shorter class.
struct DenseSlabs {
  int begin, count;
  __device__ DenseSlabs(const DenseParams& p, const DenseBlock& block) {
    const int all = p.classes[block.kind].slabs, each = (all + p.splits - 1) / p.splits;
    begin = block.split * each;
    count = min(each, all - begin);
  }
};

// This thread's place in the tile.
template <class Shape>
struct DenseThread {
  int row, column;  // of the first chunk
  __device__ DenseThread() {
    constexpr FmaAccumulator kMap = Shape::map();
    row = kMap.first_row(threadIdx.x);
    column = kMap.first_column(threadIdx.x);
  }
};

}  // namespace tconv::cuda
