// The maps of wgmma's accumulators (accumulator.hpp), for compute capability 9.0 only.
#pragma once

#include "cuda/device/accumulator.hpp"

namespace tconv::cuda {

// A warp has 16 of the 64 rows of a 64 x N product. Of every 8 columns a lane holds two neighbours in row
// lane/4, then two in the row 8 below:
//
//   register         0                1                2                3              4 ...
//   row              lane/4           lane/4           lane/4 + 8       lane/4 + 8     lane/4
//   column           lane%4*2         lane%4*2 + 1     lane%4*2         lane%4*2 + 1   8 + lane%4*2
template <int N>
struct WgmmaAccumulator {
  static constexpr int kRows = 16, kColumns = N, kRegisters = N / 2;

  static constexpr int row(int lane, int i) { return MmaAccumulator::row(lane, i % 4); }
  static constexpr int column(int lane, int i) { return i / 4 * 8 + MmaAccumulator::column(lane, i % 4); }
  static constexpr TilePlace place(LaneRegister at) {
    return {row(at.lane, at.index), column(at.lane, at.index)};
  }
  static constexpr LaneRegister holder(TilePlace at) {
    const LaneRegister inner = MmaAccumulator::holder({at.row, at.column % 8});
    return {inner.lane, at.column / 8 * 4 + inner.index};
  }
};

// A warp's positions (rows) by packed rows (columns) in a warpgroup's tile: Own/2 products, where register r
// of product m is register m * N/2 + r. A lane has Own positions: neighbours, so that neighbouring taps share
// registers of x, or positions 8 apart.
template <int Own, bool Neighbours, int N>
struct WarpgroupTileAccumulator {
  static constexpr int kRows = 8 * Own, kColumns = N, kRegisters = Own / 2 * (N / 2);
  static constexpr int kProducts = Own / 2;

  // Where a lane's i-th position is: which product, and which of a pair of rows.
  static constexpr int product(int i) { return Neighbours ? i / 2 : i % kProducts; }
  static constexpr int below(int i) { return Neighbours ? i % 2 : i / kProducts; }
  static constexpr int position(int lane, int i) {
    return Neighbours ? lane / 4 * Own + i : lane / 4 + 8 * i;
  }
  // The register, within its product, of the lane's packed row e (of two) in the group-th 8 rows.
  static constexpr int index(int group, int i, int e) { return 4 * group + below(i) * 2 + e; }

  static constexpr TilePlace place(LaneRegister at) {
    const int m = at.index / (N / 2), r = at.index % (N / 2), b = r / 2 % 2;
    return {position(at.lane, Neighbours ? 2 * m + b : b * kProducts + m),
            WgmmaAccumulator<N>::column(at.lane, r)};
  }
  static constexpr LaneRegister holder(TilePlace at) {
    const int i = Neighbours ? at.row % Own : at.row / 8, lane_row = Neighbours ? at.row / Own : at.row % 8;
    const int lane = lane_row * 4 + at.column % 8 / 2;
    return {lane, product(i) * (N / 2) + index(at.column / 8, i, at.column % 2)};
  }
};

static_assert(is_accumulator_map<WgmmaAccumulator<64>>() && is_accumulator_map<WgmmaAccumulator<128>>());
static_assert(is_accumulator_map<WarpgroupTileAccumulator<4, true, 64>>() &&
              is_accumulator_map<WarpgroupTileAccumulator<4, false, 128>>() &&
              is_accumulator_map<WarpgroupTileAccumulator<2, true, 64>>() &&
              is_accumulator_map<WarpgroupTileAccumulator<2, false, 64>>());

}  // namespace tconv::cuda
