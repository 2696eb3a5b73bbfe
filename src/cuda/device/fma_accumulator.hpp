// Which output a thread's register holds in a block's tile of fused multiply-adds. Host and device code.
#pragma once

#include "cuda/device/accumulator.hpp"

namespace tconv::cuda {

// A thread has thread_rows x thread_columns sums in chunks that lie apart; a warp is 8 threads along rows by
// 4 along columns. A 16-byte load of shared memory serves half a warp at once only where lanes i and i^1, or
// i and i^2, read the same: hence the order of lanes.
struct FmaAccumulator {
  int rows, columns, thread_rows, thread_columns;
  int chunk;  // sums in 16 bytes

  struct Holder {
    int thread, i, j;  // sums[i][j]
    bool operator==(const Holder&) const = default;
  };

  constexpr int row_threads() const { return rows / thread_rows; }
  constexpr int column_threads() const { return columns / thread_columns; }
  constexpr int threads() const { return row_threads() * column_threads(); }
  constexpr int row_warps() const { return row_threads() / 8; }
  // From one chunk of a thread to its next.
  constexpr int rows_apart() const { return row_threads() * chunk; }
  constexpr int columns_apart() const { return column_threads() * chunk; }

  // Of a thread's first chunk.
  constexpr int first_row(int thread) const {
    const int warp = thread / 32, lane = thread % 32;
    return (warp % row_warps() * 8 + lane / 2 % 8) * chunk;
  }
  constexpr int first_column(int thread) const {
    const int warp = thread / 32, lane = thread % 32;
    return (warp / row_warps() * 4 + lane % 2 + lane / 16 * 2) * chunk;
  }

  constexpr TilePlace place(const Holder& at) const {
    return {first_row(at.thread) + at.i / chunk * rows_apart() + at.i % chunk,
            first_column(at.thread) + at.j / chunk * columns_apart() + at.j % chunk};
  }
  constexpr Holder holder(TilePlace at) const {
    const int along = at.row % rows_apart() / chunk, across = at.column % columns_apart() / chunk;
    const int warp = across / 4 * row_warps() + along / 8;
    const int lane = along % 8 * 2 + across % 2 + across / 2 % 2 * 16;
    return {warp * 32 + lane, at.row / rows_apart() * chunk + at.row % chunk,
            at.column / columns_apart() * chunk + at.column % chunk};
  }
};

// Every place of a tile has exactly one holder, and the maps to it and back agree.
constexpr bool is_accumulator_map(const FmaAccumulator& map) {
  for (int row = 0; row < map.rows; ++row) {
    for (int column = 0; column < map.columns; ++column) {
      const FmaAccumulator::Holder at = map.holder({row, column});
      if (at.thread >= map.threads() || at.i >= map.thread_rows || at.j >= map.thread_columns) return false;
      if (map.place(at) != TilePlace{row, column}) return false;
    }
  }
  return true;
}

}  // namespace tconv::cuda
