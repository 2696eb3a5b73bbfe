// A plan in words, and what the sum of its partial sums needs to know.
#include <cstdio>

#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {

using core::Problem;

PhaseSumParams sm90_sum_params(const Sm90Plan& plan, const Problem& p) {
  const Sm90StageParams& k = plan.params;
  PhaseSumParams s = phase_sum_params(p, plan.phases);
  s.group_rows = int64_t{k.sizes.row_blocks} * kSm90Rows;
  s.split_size = s.group_rows * k.sizes.groups * k.columns.partial_columns;
  s.partial_columns = k.columns.partial_columns;
  s.first_u = k.columns.first_u;
  s.block_couts = k.sizes.block_couts;
  s.block_rows = kSm90Rows;
  s.cout_rows = k.sizes.phases;
  s.phase_rows = 1;
  s.splits = k.grid.splits;
  s.sample_columns = k.columns.sample_columns;
  return s;
}

std::string text(const Sm90Config& c) {
  const Sm90Tile& tile = sm90_tile(c);
  std::string out = std::string("tile ") + tile.name + (tile.tma ? " by tensor copies" : " gathered") + ", " +
                    std::to_string(c.walkers) + " walkers, " + std::to_string(c.stages) + " stages" +
                    (c.resident ? ", weights resident" : ", weights streamed");
  if (c.scaled) out += ", operands scaled to float16 (tiles beyond its range again with operands in tf32)";
  if (c.splits > 1) out += ", split " + std::to_string(c.splits) + " ways and summed in order";
  if (c.folded) out += ", samples folded into one row of columns";
  return out;
}

namespace {

std::string number(int64_t n) {
  return std::to_string(n);
}

// One line a stage: what it is, and its numbers.
std::string text(const Sm90GatherSource& s) {
  return "source gathered: " + number(s.stages) + " stages of " + number(s.stage_bytes) + " bytes, " +
         number(s.width) + " positions, halo " + number(s.halo) + ", " + number(s.tap_group) +
         (s.tap_group == 1 ? " tap" : " taps") + " a stage";
}
std::string text(const Sm90TmaSource& s) {
  return "source tensor copies (where x begins on 16 bytes, else by elements: slower, the same bits): " +
         number(s.stages) + " stages of " + number(s.stage_bytes) + " bytes a warpgroup, " + number(s.width) +
         " positions, halo " + number(s.halo) + ", " + number(s.row_classes) +
         (s.row_classes == 1 ? " map" : " maps");
}
std::string text(const Sm90Weights& w) {
  return "weights packed, " + number(w.slots) + (w.resident ? " slots, resident" : " slots, streamed");
}
std::string text(const Sm90WarpgroupTile& t, const Sm90WarpgroupTiles& tiles, int rows) {
  return number(t.warpgroups) + " warpgroups of " + number(t.positions()) + " positions x " + number(rows) +
         " rows, " + number(tiles.step) + " positions apart";
}
std::string text(const Sm90PassWriter& w) {
  if (w.partial) return "writer partial sums";
  return "writer by passes: rows of " + number(w.row_vectors) + " vectors, pitch " + number(w.row_pitch);
}
std::string text(const Sm90TileWriter& w) {
  const std::string staged =
      (w.windows ? "windows of a warpgroup on " + number(w.window_bytes) + " bytes" : "each warp by itself") +
      std::string(", ") + number(w.pass_rows) + " rows at once, pitch " + number(w.row_pitch);
  if (w.straight > 0) {
    return "writer from registers, stride " + number(w.straight) +
           " (where y begins on 16 bytes, else and at a sample's ends staged: " + staged + ")";
  }
  if (w.shifted) return "writer windows staged as they lie in y (at a sample's ends: " + staged + ")";
  return "writer staged: " + staged;
}

// Of the stages, in the order in which an element passes them.
std::string stages_of(const Sm90Plan& plan) {
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const bool split = sm90_layout(plan.mode, plan.config.scaled).parts == 2;
  if (!tile.tma) {
    return text(k.gather) + "; " + text(k.weights) + "; operands in shared memory; product " +
           (split ? "promoted, " : "single, ") + "2 warpgroups of " + number(tile.n) +
           " positions x 64 rows; " + text(k.pass);
  }
  const std::string operands = k.tma.tap_group == 0
                                   ? "operands in shared memory"
                                   : "operands in registers, " + number(k.tma.tap_group) +
                                         (k.tma.tap_group == 1 ? " tap" : " taps") + " a fragment";
  return text(k.tma) + "; " + text(k.weights) + "; " + operands + "; product " +
         (split ? "promoted, " : "single, ") +
         text(sm90_warpgroup_tile(plan, tile), k.tiles, tile.row_blocks * kSm90Rows) + "; " + text(k.writer);
}

}  // namespace

std::string describe(const Sm90Plan& plan, const Problem& p) {
  const Sm90Cost& c = plan.cost;
  char model[200];
  std::snprintf(model, sizeof model,
                "; predicted %.4f ms (tensor %.4f, load %.4f, L2 %.4f, store %.4f, DRAM %.4f, launch %.4f)",
                c.total, c.tensor, c.load, c.l2, c.store, c.dram, c.launch);
  return text(plan.config) + "; " + stages_of(plan) + "; " + name_of(plan.mode) +
         rows_and_depth(p, plan.phases) + model;
}

}  // namespace tconv::cuda
