// Which output a lane's register holds: the maps of the tensor cores' accumulators, for writers, for repairs
// and for messages that say where a wrong output was computed. Host and device code.
#pragma once

namespace tconv::cuda {

// A place in a tile of sums.
struct TilePlace {
  int row, column;
  bool operator==(const TilePlace&) const = default;
};

// Who holds a sum: which lane of a warp, and which of its registers.
struct LaneRegister {
  int lane, index;
  bool operator==(const LaneRegister&) const = default;
};

// mma.sync's m16n8 (the C fragment of the PTX manual; its halves are float64's m8n8):
//
//   row lane/4, + 8 in registers 2 and 3; column 2*(lane%4), + 1 in odd registers.
struct MmaAccumulator {
  static constexpr int kRows = 16, kColumns = 8, kRegisters = 4;

  static constexpr int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  static constexpr int column(int lane, int i) { return lane % 4 * 2 + i % 2; }
  static constexpr TilePlace place(LaneRegister at) {
    return {row(at.lane, at.index), column(at.lane, at.index)};
  }
  static constexpr LaneRegister holder(TilePlace at) {
    return {at.row % 8 * 4 + at.column / 2, at.row / 8 * 2 + at.column % 2};
  }
};

// A warp's kMi x kNi tiles: register [i][j][k] is register k of the tile at row 16*i and column 8*j.
template <int kMi, int kNi>
struct MmaWarpTile {
  static constexpr int kRows = kMi * MmaAccumulator::kRows, kColumns = kNi * MmaAccumulator::kColumns;
  static constexpr int kRegisters = kMi * kNi * MmaAccumulator::kRegisters;

  static constexpr LaneRegister holder(TilePlace at) {
    const int i = at.row / MmaAccumulator::kRows, j = at.column / MmaAccumulator::kColumns;
    const LaneRegister inner =
        MmaAccumulator::holder({at.row % MmaAccumulator::kRows, at.column % MmaAccumulator::kColumns});
    return {inner.lane, (i * kNi + j) * MmaAccumulator::kRegisters + inner.index};
  }
  static constexpr TilePlace place(LaneRegister at) {
    const int tile = at.index / MmaAccumulator::kRegisters, i = tile / kNi, j = tile % kNi;
    const TilePlace inner = MmaAccumulator::place({at.lane, at.index % MmaAccumulator::kRegisters});
    return {i * MmaAccumulator::kRows + inner.row, j * MmaAccumulator::kColumns + inner.column};
  }
};

// Every place of a tile has exactly one holder, and the maps to it and back agree.
template <class Map>
constexpr bool is_accumulator_map() {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Map::kRegisters; ++i) {
      const TilePlace at = Map::place({lane, i});
      if (at.row < 0 || at.row >= Map::kRows || at.column < 0 || at.column >= Map::kColumns) return false;
      if (Map::holder(at) != LaneRegister{lane, i}) return false;
    }
  }
  return Map::kRows * Map::kColumns == 32 * Map::kRegisters;
}
static_assert(is_accumulator_map<MmaAccumulator>() && is_accumulator_map<MmaWarpTile<2, 4>>());

}  // namespace tconv::cuda
