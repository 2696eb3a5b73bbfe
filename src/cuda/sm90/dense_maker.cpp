// Which thread and register of cuda.sm90.dense made an output: the plan's schedule, the polyphase form and
// the accumulators' maps, read backwards.
#include <optional>

#include "core/polyphase.hpp"
#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {
namespace {

// An output's packed row, of its group, and position u; nothing where it has no taps.
struct RowAndPosition {
  int64_t group, cout, row_block, row, u;
};

std::optional<RowAndPosition> row_and_position(const Sm90Sizes& s, int64_t co, int64_t o) {
  for (int64_t phase = 0; phase < s.phases; ++phase) {
    const int64_t turn = o + s.padding - phase * s.dilation;
    if (turn % s.stride != 0) continue;
    const int64_t inner = co % s.cout_group;
    return RowAndPosition{co / s.cout_group, inner, inner / s.block_couts,
                          inner % s.block_couts * s.phases + phase, core::floor_div(turn, int64_t{s.stride})};
  }
  return {};
}

LaneRegister holder(const Sm90WarpgroupTile& tile, bool neighbours, TilePlace at) {
  // The columns of a product are those of all row blocks: two, but for split
  // operands.
  constexpr int kN = 2 * kSm90Rows;
  if (tile.own == 2) {
    return neighbours ? WarpgroupTileAccumulator<2, true, kN>::holder(at)
                      : WarpgroupTileAccumulator<2, false, kN>::holder(at);
  }
  return neighbours ? WarpgroupTileAccumulator<4, true, kN>::holder(at)
                    : WarpgroupTileAccumulator<4, false, kN>::holder(at);
}

void set_gathered(Sm90Maker& m, const Sm90Plan& plan, const RowAndPosition& at, int64_t n) {
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const int64_t column = n * k.columns.sample_columns + at.u - k.columns.first_u,
                inner = column % tile.columns();
  m.tile = column / tile.columns();
  const int64_t run = at.row_block / tile.row_blocks;
  m.block = (at.group * k.grid.row_runs + run) * k.grid.walkers + m.tile % k.grid.walkers;
  m.warpgroup = static_cast<int>(tile.row_blocks == 2 ? at.row_block % 2 : inner / tile.n);
  m.warp = static_cast<int>(at.row / 16);
  const LaneRegister held = WgmmaAccumulator<256>::holder(
      {static_cast<int>(at.row % 16), static_cast<int>(tile.row_blocks == 2 ? inner : inner % tile.n)});
  m.lane = held.lane;
  m.index = held.index;
}

void set_by_copies(Sm90Maker& m, const Sm90Plan& plan, const RowAndPosition& at, int64_t n, int64_t co,
                   int64_t o) {
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const Sm90WarpgroupTile own = sm90_warpgroup_tile(plan, tile);
  const int element = sm90_layout(plan.mode, plan.config.scaled).element;
  const int64_t position = at.u - k.columns.first_u;
  int64_t of_sample = std::min<int64_t>(position / k.tiles.step, k.tiles.per_sample.value - 1);
  // Tiles overlap where they are stored in windows: what lies before a tile's
  // window is of the one before.
  const int64_t first = (k.columns.first_u + of_sample * k.tiles.step) * k.sizes.stride - k.sizes.padding;
  const int64_t row = ((n * k.sizes.cout + co) * k.sizes.lout + first) * element;
  const int64_t window = k.writer.windows ? (-row & (k.writer.window_bytes - 1)) / element : 0;
  if (of_sample > 0 && o - first < window) --of_sample;
  const int64_t run = at.row_block / tile.row_blocks, inner = position - of_sample * k.tiles.step;
  m.tile = n * k.tiles.per_sample.value + of_sample;
  // Tiles that are drawn from a counter go to any block of the run.
  m.drawn = plan.counter_bytes > 0;
  m.block = (at.group * k.grid.row_runs + run) * k.grid.walkers +
            (m.drawn ? 0 : m.tile / own.warpgroups % k.grid.walkers);
  m.warpgroup = m.drawn ? -1 : static_cast<int>(m.tile % own.warpgroups);
  m.warp = static_cast<int>(inner / own.warp_positions());
  const int packed = static_cast<int>(at.row_block % tile.row_blocks * kSm90Rows + at.row);
  const bool neighbours = k.tma.tap_group > 0;
  const LaneRegister held = holder(own, neighbours, {static_cast<int>(inner % own.warp_positions()), packed});
  m.lane = held.lane;
  m.product = held.index / kSm90Rows;
  m.index = held.index % kSm90Rows;
}

}  // namespace

Sm90Maker sm90_maker(const Sm90Plan& plan, int64_t output) {
  const Sm90Sizes& s = plan.params.sizes;
  const int64_t o = output % s.lout, co = output / s.lout % s.cout, n = output / s.lout / s.cout;
  Sm90Maker m;
  const auto at = row_and_position(s, co, o);
  if (!at) return m;
  m.has_taps = true;
  if (sm90_tile(plan.config).tma) {
    set_by_copies(m, plan, *at, n, co, o);
  } else {
    set_gathered(m, plan, *at, n);
  }
  return m;
}

std::string text(const Sm90Maker& m) {
  if (!m.has_taps) return "no taps: bias alone";
  auto number = [](int64_t n) { return std::to_string(n); };
  return (m.drawn ? "a block from " + number(m.block) + " on" : "block " + number(m.block)) + ", tile " +
         number(m.tile) + (m.warpgroup < 0 ? std::string() : ", warpgroup " + number(m.warpgroup)) +
         ", warp " + number(m.warp) + ", lane " + number(m.lane) + ", product " + number(m.product) +
         ", register " + number(m.index);
}

}  // namespace tconv::cuda
