// What a plan of cuda.sm90.dense consists of, stage by stage, and who computes an output.
#include "cuda/plan/report.hpp"

#include <cstdio>

#include "cuda/device/wgmma_accumulator.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using std::to_string;

std::string count(int64_t n, const char* one, const char* several) {
  return to_string(n) + " " + (n == 1 ? one : several);
}

std::string schedule_words(const Sm90Plan& plan) {
  const Sm90StageParams& k = plan.params;
  const bool tma = sm90_tile(plan.config).tma;
  return count(k.grid.walkers, "block", "blocks") + " for each of " + to_string(k.grid.row_runs) +
         " runs of row blocks x " + to_string(k.sizes.groups) + " groups x " + to_string(k.grid.splits) +
         " splits, " +
         (!tma                ? "tiles of columns by turns"
          : plan.config.drawn ? "whose warpgroups draw tiles from a counter"
                              : "whose warpgroups take neighbouring tiles by turns");
}

std::string words(const Sm90GatherSource& s) {
  return "x by elements through registers, any layout: " + to_string(s.stages) + " stages of " +
         to_string(s.stage_bytes) + " bytes, " + to_string(s.width) + " positions, halo " +
         to_string(s.halo) + ", " + count(s.tap_group, "tap", "taps") + " a stage";
}
std::string words(const Sm90TmaSource& s) {
  return "x by tensor copies (where it begins on 16 bytes, else by elements: slower, the same bits): " +
         to_string(s.stages) + " stages of " + to_string(s.stage_bytes) + " bytes a warpgroup, " +
         to_string(s.width) + " positions, halo " + to_string(s.halo) + ", " +
         count(s.row_classes, "map", "maps");
}

std::string words(const Sm90Weights& w) {
  return "packed, " + to_string(w.slots) + (w.resident ? " slots, resident" : " slots, streamed");
}

std::string operand_words(const Sm90Plan& plan) {
  const Sm90StageParams& k = plan.params;
  const std::string held = plan.config.scaled              ? scaled_words(plan.mode)
                           : plan.mode == Arithmetic::tf32 ? "rounded to tf32"
                           : plan.mode == Arithmetic::ieee ? "split into two of tf32"
                                                           : "as it is stored";
  const std::string again = plan.config.scaled ? "; tiles beyond its range again with operands in tf32" : "";
  if (!sm90_tile(plan.config).tma) return held + " by the source, in shared memory" + again;
  if (k.tma.tap_group == 0) return held + ", in shared memory, by the warpgroup that multiplies" + again;
  return held + ", in registers, " + count(k.tma.tap_group, "tap", "taps") + " a fragment" + again;
}

std::string product_words(const Sm90Plan& plan) {
  const Sm90Tile& tile = sm90_tile(plan.config);
  const std::string sums = sm90_layout(plan.mode, plan.config.scaled).parts == 2 ? "promoted: " : "single: ";
  if (!tile.tma) {
    return "wgmma, " + sums + "2 warpgroups of 64 rows x " + to_string(tile.n) + " positions" +
           (plan.params.grid.turns ? ", by turns" : "");
  }
  const Sm90WarpgroupTile own = sm90_warpgroup_tile(plan, tile);
  return "wgmma, " + sums + to_string(own.warpgroups) + " warpgroups of " + to_string(own.positions()) +
         " positions x " + to_string(tile.row_blocks * kSm90Rows) + " rows, " +
         to_string(plan.params.tiles.step) + " positions apart";
}

std::string writer_words(const Sm90Plan& plan) {
  const Sm90PassWriter& w = plan.params.pass;
  if (w.partial) {
    const int splits = plan.params.grid.splits;
    return "partial sums [split][row][column], then the ordered sum of " + count(splits, "split", "splits");
  }
  if (w.lines) return "row by row, " + to_string(w.line_bytes) + " bytes at once, as they lie in y";
  const std::string pitch = ", pitch " + to_string(w.row_pitch);
  if (plan.params.columns.folded) return "by passes over several samples, each output by itself" + pitch;
  const std::string how = !w.bulk        ? ""
                          : w.second > 0 ? ", by bulk copies from two places by turns"
                                         : ", by bulk copies";
  return "by passes: rows of " + to_string(w.row_vectors) + " vectors" + how + pitch;
}
std::string words(const Sm90TileWriter& w) {
  const std::string staged = (w.windows ? "windows of a warpgroup on " + to_string(w.window_bytes) + " bytes"
                                        : "each warp by itself") +
                             std::string(", ") + to_string(w.pass_rows) + " rows at once, pitch " +
                             to_string(w.row_pitch);
  if (w.straight > 0) {
    return "from registers, stride " + to_string(w.straight) +
           " (where y begins on 16 bytes, else and at a sample's ends staged: " + staged + ")";
  }
  if (w.shifted) return "windows staged as they lie in y (at a sample's ends: " + staged + ")";
  return "staged: " + staged;
}

// The register of a lane in a warp's positions by all packed rows of its row blocks: as for two row blocks,
// except for split operands.
LaneRegister holder(const Sm90WarpgroupTile& tile, bool neighbours, TilePlace at) {
  constexpr int kN = 2 * kSm90Rows;
  if (tile.own == 2) {
    return neighbours ? WarpgroupTileAccumulator<2, true, kN>::holder(at)
                      : WarpgroupTileAccumulator<2, false, kN>::holder(at);
  }
  return neighbours ? WarpgroupTileAccumulator<4, true, kN>::holder(at)
                    : WarpgroupTileAccumulator<4, false, kN>::holder(at);
}

// The output's row among those of a row block.
int row_of(const Sm90Sizes& s, const OutputPlace& at) {
  return static_cast<int>((at.inner % s.block_couts * s.phases + at.phase) % kSm90Rows);
}
// The output's row block among those of its group.
int64_t row_block_of(const Sm90Sizes& s, const OutputPlace& at) {
  return at.inner / s.block_couts * s.cout_blocks + at.phase / kSm90Rows;
}

// The first block of those that share the output's row block and columns.
int64_t first_block(const Sm90Plan& plan, const OutputPlace& at) {
  const Sm90StageParams& k = plan.params;
  const int64_t run = row_block_of(k.sizes, at) / sm90_tile(plan.config).row_blocks;
  return (at.group * k.grid.row_runs + run) * k.grid.walkers;
}

Holder gathered_holder(const Sm90Plan& plan, const OutputPlace& at) {
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const int64_t column = at.n * k.columns.sample_columns + at.u - k.columns.first_u;
  const int64_t index = column / tile.columns();
  const int inside = static_cast<int>(column % tile.columns()), row = row_of(k.sizes, at);
  const bool two = tile.row_blocks == 2;
  const int64_t warpgroup = two ? row_block_of(k.sizes, at) % 2 : inside / tile.n;
  constexpr int kWarpRows = WgmmaAccumulator<256>::kRows;
  const LaneRegister held = WgmmaAccumulator<256>::holder({row % kWarpRows, two ? inside : inside % tile.n});
  return {first_block(plan, at) + index % k.grid.walkers,
          static_cast<int>(128 * warpgroup + 32 * (row / kWarpRows) + held.lane),
          "tile " + to_string(index) + ", sums[" + to_string(held.index) + "]"};
}

// Tiles overlap if they are stored in windows: what lies before a tile's window belongs to the tile before.
int64_t tile_of_sample(const Sm90Plan& plan, const OutputPlace& at) {
  const Sm90StageParams& k = plan.params;
  const int element = sm90_layout(plan.mode, plan.config.scaled).element;
  const int64_t position = at.u - k.columns.first_u;
  const int64_t tile = std::min<int64_t>(position / k.tiles.step, k.tiles.per_sample.value - 1);
  const int64_t first = (k.columns.first_u + tile * k.tiles.step) * k.sizes.stride - k.sizes.padding;
  const int64_t row = ((at.n * k.sizes.cout + at.cout) * k.sizes.lout + first) * element;
  const int64_t window = k.writer.windows ? (-row & (k.writer.window_bytes - 1)) / element : 0;
  return tile > 0 && at.o - first < window ? tile - 1 : tile;
}

Holder tma_holder(const Sm90Plan& plan, const OutputPlace& at) {
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const Sm90WarpgroupTile own = sm90_warpgroup_tile(plan, tile);
  const int64_t of_sample = tile_of_sample(plan, at), index = at.n * k.tiles.per_sample.value + of_sample;
  const int inside = static_cast<int>(at.u - k.columns.first_u - of_sample * k.tiles.step);
  const int packed =
      static_cast<int>(row_block_of(k.sizes, at) % tile.row_blocks) * kSm90Rows + row_of(k.sizes, at);
  const LaneRegister held = holder(own, k.tma.tap_group > 0, {inside % own.warp_positions(), packed});
  const bool drawn = plan.config.drawn;  // any warpgroup of the blocks may have it then
  const int64_t warpgroup = drawn ? 0 : index % own.warpgroups;
  return {first_block(plan, at) + (drawn ? 0 : index / own.warpgroups % k.grid.walkers),
          static_cast<int>(128 * warpgroup + 32 * (inside / own.warp_positions()) + held.lane),
          "tile " + to_string(index) + ", sums[" + to_string(held.index / kSm90Rows) + "][" +
              to_string(held.index % kSm90Rows) + "]"};
}

}  // namespace

std::vector<plan::StageLine> stages(const Sm90Plan& plan, const Problem& p) {
  const Sm90StageParams& k = plan.params;
  const bool tma = sm90_tile(plan.config).tma;
  return {{"schedule", schedule_words(plan)},
          {"source", tma ? words(k.tma) : words(k.gather)},
          {"weights", words(k.weights)},
          {"operand", operand_words(plan)},
          {"product", product_words(plan)},
          epilogue_line(p),
          {"writer", tma ? words(k.writer) : writer_words(plan)}};
}

// The kernel's own arithmetic of blocks and tiles, in reverse.
Holder holder_of(const Sm90Plan& plan, const OutputPlace& at) {
  return sm90_tile(plan.config).tma ? tma_holder(plan, at) : gathered_holder(plan, at);
}

std::string where(const Sm90Plan& plan, const Problem& p, int64_t element) {
  const Sm90StageParams& k = plan.params;
  const OutputPlace at = output_place(p, plan.phases, element);
  const std::string sum = text(
      sum_position(sm90_sum_params(plan, p), p.n * p.cout, at.n * p.cout + at.cout, at.o), k.grid.splits);
  if (!at.has_phase())
    return text(at) + "; " + (k.pass.partial ? sum : "its bias, stored with its neighbours");
  std::string out = text(at) + "; " + text(holder_of(plan, at));
  if (plan.config.drawn) {
    out +=
        ", of any warpgroup of " + count(k.grid.walkers, "block", "blocks") + ": the one that drew the tile";
  }
  return k.pass.partial ? out + ", of the first split; " + sum : out;
}

std::string scaled_words(Arithmetic mode) {
  return mode == Arithmetic::ieee ? "scaled and split into two of float16" : "scaled to float16";
}

std::string text(const Sm90Config& c) {
  const Sm90Tile& tile = sm90_tile(c);
  std::string out = std::string("tile ") + tile.name + (tile.tma ? " by tensor copies" : " gathered") + ", " +
                    to_string(c.walkers) + " walkers, " + to_string(c.stages) + " stages" +
                    (c.resident ? ", weights resident" : ", weights streamed");
  if (c.scaled) out += ", operands scaled to float16";
  out += split_words(c.splits);
  if (c.folded) out += ", samples folded into one row of columns";
  return out;
}

std::string describe(const Sm90Plan& plan, const Problem& p) {
  const Sm90Cost& c = plan.cost;
  char model[200];
  std::snprintf(model, sizeof model,
                "; predicted %.4f ms (tensor %.4f, load %.4f, L2 %.4f, store %.4f, DRAM %.4f, launch %.4f)",
                c.total, c.tensor, c.load, c.l2, c.store, c.dram, c.launch);
  const std::string mode = plan.config.scaled && plan.mode == Arithmetic::ieee
                               ? "ieee as 3 products of float16"
                               : name_of(plan.mode);
  return text(plan.config) + "; " + mode + rows_and_depth(p, plan.phases) + model;
}

}  // namespace tconv::cuda
