// The order of rows, columns and tiles of the weight gradient's product on cuda.sm90.
//
// A tap is shift * tap_stride + phase, and of the last shift there may be no more than the first phases: one
// of five for k11 s5. Then columns lie in two runs, all channels with the phases that every shift has before
// all channels with the other ones, and rows of the last shift after all others, so that their tiles end
// with the first run: ci256 co256 k11 s5 has 22 tiles of 128 x 256 instead of 30.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/device/divisor.hpp"

namespace tconv::cuda {

// Planes of dy in a group: phase fastest in both runs. The first one is filled up to a multiple of 8, so that
// 8 planes that lie together are of one run. The second one may be empty.
struct WeightColumns {
  int32_t first, rest;  // phases of a channel in each run
  int32_t first_run;    // columns of it; beyond all columns if it is the only run
  Divisor by_first, by_rest;
};

// Row blocks: of 64 planes of x all early shifts, which read the same planes, then of the next 64; then those
// of the last shift, if it is apart.
struct WeightRows {
  int32_t early_blocks, early_shifts;  // more blocks than there are if no shift is apart
  Divisor by_early;                    // by early_shifts

  static WeightRows all(int shifts) {
    return {std::numeric_limits<int32_t>::max(), shifts, Divisor::of(static_cast<uint32_t>(shifts))};
  }

#ifdef __CUDACC__
  struct Place {
    int planes, shift;
  };
  __device__ Place place(int block) const {
    if (block >= early_blocks) return {block - early_blocks, early_shifts};
    const int planes = static_cast<int>(by_early.divide(block));
    return {planes, block - planes * early_shifts};
  }
  __device__ int block(int planes, int shift) const {
    return shift < early_shifts ? planes * early_shifts + shift : early_blocks + planes;
  }
#endif
};

// Tiles of a group, those of rows fastest. Columns from `last_columns` on have the first `early_rows` only.
struct WeightTiles {
  int32_t rows, columns;
  int32_t early_rows, last_columns;
  int32_t of_group;

  static WeightTiles all(int64_t rows, int64_t columns) { return runs(rows, columns, rows, columns); }
  static WeightTiles runs(int64_t rows, int64_t columns, int64_t early_rows, int64_t last_columns) {
    auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
    return {narrow(rows), narrow(columns), narrow(early_rows), narrow(last_columns),
            narrow(rows * columns - (rows - early_rows) * (columns - last_columns))};
  }

#ifdef __CUDACC__
  struct Place {
    int row, column;
  };
  __device__ Place place(int tile) const {
    const int full = last_columns * rows;
    if (tile < full) return {tile % rows, tile / rows};
    return {(tile - full) % early_rows, last_columns + (tile - full) / early_rows};
  }
  // Of a tile that there is not: of another one.
  __device__ int tile(int row, int column) const {
    if (column < last_columns) return column * rows + row;
    return last_columns * rows + (column - last_columns) * early_rows + min(row, early_rows - 1);
  }
#endif
};

}  // namespace tconv::cuda
