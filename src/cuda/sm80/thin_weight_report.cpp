#include "core/polyphase.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/thin_weight_plan.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using std::to_string;

std::string side_of(const ThinWeightSide& s, bool moves) {
  return moves ? "dy's channels x " + to_string(s.taps) + " taps" : "x's channels";
}

}  // namespace

std::string describe(const ThinWeightPlan& plan, const Problem& p) {
  const ThinWeightParams& k = plan.params;
  return std::string(name_of(arithmetic_of(p))) + ", a block up to " +
         to_string(k.rows.block_tiles * kThinWeightRows) + " of " + side_of(k.rows, k.rows_move) + " and " +
         to_string(k.columns.block_tiles * kThinWeightColumns) + " of " + side_of(k.columns, !k.rows_move) +
         ", " + to_string(k.tile_positions) + " positions at a time";
}

std::vector<plan::StageLine> stages(const ThinWeightPlan& plan, const Problem& p) {
  const ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const int64_t tiles = core::ceil_div(k.tiles, int64_t{k.walkers.value});
  const bool pairs = size_of(p.dtype) == 2;
  return {{"schedule", to_string(plan.blocks) + " blocks, each up to " + to_string(tiles) +
                           " tiles of positions one after the other"},
          {"source", std::string("x and dy by asynchronous copies") +
                         (pairs ? ", two positions half a tile apart in a word" : ", as they are in memory")},
          {"operand", std::string("a tap is a place in dy's words; ") + name_of(arithmetic_of(p))},
          {"product", "mma.sync over positions, " + to_string(plan.config.row_warps) + " x " +
                          to_string(plan.config.column_warps) + " x " + to_string(1 << k.depth_warp_bits) +
                          " warps (rows, columns, positions) of " + to_string(tile.rows) + " x " +
                          to_string(tile.columns) + " tiles of 16 x 8, sums of " + to_string(k.chain) +
                          " tiles of positions"},
          epilogue_line(p),
          tiles_writer_line("through shared memory, element by element", false,
                            static_cast<int>(k.walkers.value))};
}

}  // namespace tconv::cuda
