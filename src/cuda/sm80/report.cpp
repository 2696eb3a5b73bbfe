// What a plan of cuda.sm80.dense consists of, stage by stage, and who computes an output.
#include "cuda/plan/report.hpp"

#include <cstdio>

#include "core/polyphase.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using std::to_string;

std::string source_words(const Sm80Plan& plan) {
  const Sm80Params& k = plan.params;
  std::string out = "x by elements through registers, 2 slots of " + to_string(shape_of(plan.mode).slab()) +
                    " channels x " + to_string(k.width) + " positions";
  if (k.halo > 0) out += " (" + to_string(k.halo) + " of them for taps)";
  if (k.folded) out += ", samples folded into one row of columns";
  return out;
}

std::string weight_words(const Sm80Plan& plan, const Sm80Tile& tile) {
  if (plan.params.resident) return "packed, by cp.async, all of a block's rows resident in shared memory";
  return "packed, by cp.async, " + to_string(tile.slots) + " slots of a slab and tap";
}

std::string operand_words(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::tf32:
      return "rounded to tf32 on its way to shared memory, read by ldmatrix";
    case Arithmetic::ieee:
      return "split into two parts of tf32 on its way to shared memory, read by ldmatrix";
    case Arithmetic::f64:
      return "as it is stored, read by lanes";
    case Arithmetic::f16:
    case Arithmetic::bf16:
      break;
  }
  return "as it is stored, read by ldmatrix";
}

std::string product_words(const Sm80Plan& plan, const Sm80Tile& tile) {
  const ArithmeticShape shape = shape_of(plan.mode);
  return "mma.sync, depth " + to_string(shape.depth()) + ", " + to_string(tile.row_warps) + " x " +
         to_string(tile.column_warps) + " warps of " + to_string(tile.mi) + " x " + to_string(tile.ni) +
         " tiles of 16 x 8" + (shape.products > 1 ? ", 3 products a pair of operands" : "");
}

std::string writer_words(const Sm80Plan& plan) {
  const Sm80Params& k = plan.params;
  if (k.partial) {
    return "partial sums [split][row][column] from registers, then the ordered sum of " +
           to_string(k.splits) + (k.splits == 1 ? " split" : " splits");
  }
  return "staged in shared memory, " + to_string(k.pass_columns) + " columns a pass, then " +
         (k.stride == 1 ? "rows of 16-byte vectors"
                        : "32 neighbouring outputs a warp, by a table of the stride");
}

}  // namespace

std::vector<plan::StageLine> stages(const Sm80Plan& plan, const Problem& p) {
  const Sm80Params& k = plan.params;
  const Sm80Tile& tile = kSm80Tiles[plan.config.tile];
  const std::string schedule = to_string(k.walkers) + " blocks walk over " + to_string(k.column_tiles) +
                               " tiles of columns, for " + to_string(k.row_blocks) + " row blocks x " +
                               to_string(k.groups) + " groups x " + to_string(k.splits) + " splits";
  return {{"schedule", schedule},
          {"source", source_words(plan)},
          {"weights", weight_words(plan, tile)},
          {"operand", operand_words(plan.mode)},
          {"product", product_words(plan, tile)},
          epilogue_line(p),
          {"writer", writer_words(plan)}};
}

// The kernel's own arithmetic of blocks and tiles (dense.cuh), in reverse.
Holder holder_of(const Sm80Plan& plan, const OutputPlace& at) {
  const Sm80Params& k = plan.params;
  const Sm80Tile& tile = kSm80Tiles[plan.config.tile];
  constexpr int kRows = MmaAccumulator::kRows, kColumns = MmaAccumulator::kColumns;
  const int64_t row_tile = at.inner / kRows * k.phases + at.phase, row_tiles = tile.rows() / kRows;
  const int64_t column = at.n * k.sample_columns + at.u - k.first_u;  // whole tiles a sample, unless folded
  const int64_t walker = column / tile.columns() % k.walkers;
  const int row = static_cast<int>(row_tile % row_tiles * kRows + at.inner % kRows);
  const int inside = static_cast<int>(column % tile.columns());
  const int warp = row / tile.warp_rows() * tile.column_warps + inside / tile.warp_columns();
  const LaneRegister mma = MmaAccumulator::holder({row % kRows, inside % kColumns});
  const int i = row % tile.warp_rows() / kRows, j = inside % tile.warp_columns() / kColumns;
  return {(at.group * k.row_blocks + row_tile / row_tiles) * k.walkers + walker, 32 * warp + mma.lane,
          "sums[" + to_string(i) + "][" + to_string(j) + "][" + to_string(mma.index) + "]"};
}

std::string where(const Sm80Plan& plan, const Problem& p, int64_t element) {
  const Sm80Params& k = plan.params;
  const OutputPlace at = output_place(p, plan.phases, element);
  const std::string sum =
      text(sum_position(sm80_sum_params(plan, p), p.n * p.cout, at.n * p.cout + at.cout, at.o), k.splits);
  if (!at.has_phase()) {
    return text(at) + "; " + (k.partial ? sum : "its bias, stored by the block of phase 0");
  }
  const int64_t column = at.n * k.sample_columns + at.u - k.first_u;
  const int columns = kSm80Tiles[plan.config.tile].columns();
  std::string out =
      text(at) + "; tile of columns " + to_string(column / columns) + "; " + text(holder_of(plan, at));
  if (k.splits > 1) {
    out += ", and so every " + to_string(int64_t{k.groups} * k.row_blocks * k.walkers) + " blocks";
  }
  return out + "; " + (k.partial ? sum : "stored in pass " + to_string(column % columns / k.pass_columns));
}

std::string text(const Sm80Config& c) {
  std::string out = std::string("tile ") + kSm80Tiles[c.tile].name + ", " + to_string(c.walkers) +
                    " walkers, taps by " + to_string(c.tap_group) +
                    (c.resident ? ", weights resident" : ", weights streamed");
  out += split_words(c.splits);
  if (c.folded) out += ", samples folded into one row of columns";
  if (!c.folded && c.splits == 1) out += ", " + to_string(c.pass_columns) + " columns a store pass";
  return out;
}

std::string describe(const Sm80Plan& plan, const Problem& p) {
  const Sm80Cost& c = plan.cost;
  char model[200];
  std::snprintf(model, sizeof model,
                "; predicted %.4f ms (tensor %.4f, shared %.4f, waves %.4f, L2 %.4f, DRAM %.4f, launch %.4f)",
                c.total, c.tensor, c.shared, c.waves, c.l2, c.dram, c.launch);
  return text(plan.config) + "; " + name_of(plan.mode) + rows_and_depth(p, plan.phases) + model;
}

}  // namespace tconv::cuda
