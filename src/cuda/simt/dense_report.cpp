// What a plan of cuda.simt.dense is made of, stage by stage, and who makes an output.
#include "cuda/plan/report.hpp"
#include "cuda/simt/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using std::to_string;

int sum_bytes(const Problem& p) {
  return p.dtype == core::DType::f64 ? 8 : 4;
}

std::string writer_words(const DensePlan& plan) {
  if (plan.splits > 1) {
    return "partial sums as y lies, staged in shared memory, then the ordered sum of " +
           to_string(plan.splits) + " splits";
  }
  const bool runs = plan.phases.interleaved && plan.classes[1].phases == 0;
  return std::string("staged in shared memory, then ") +
         (runs ? "runs of interleaved phases in 16-byte vectors where all phases of a channel are staged"
               : "outputs one by one, phases fastest") +
         (plan.phases.gaps ? "; outputs without taps are filled with the bias first" : "");
}

}  // namespace

std::vector<plan::StageLine> stages(const DensePlan& plan, const Problem& p) {
  const DenseTile& tile = dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
  const std::string sum = sum_bytes(p) == 8 ? "float64" : "float32";
  return {{"schedule", "a block a tile: " + to_string(plan.row_tiles) + " of positions x " +
                           to_string(plan.column_tiles) + " of columns (cout, phase) x " +
                           to_string(p.groups) + " groups x " + to_string(plan.splits) + " splits"},
          {"source", "x by elements through registers, any strides, 2 slots of " + to_string(kSlabChannels) +
                         " channels x " + to_string(tile.rows) + " positions of one tap"},
          {"weights", "packed, 16 bytes a load, 2 slots of " + to_string(kSlabChannels) + " channels x " +
                          to_string(tile.columns) + " columns"},
          {"operand", "widened to " + sum + " on its way to shared memory"},
          {"product", "fused multiply-adds in " + sum + ", a thread " + to_string(tile.thread_rows) + " x " +
                          to_string(tile.thread_columns) + " of " + to_string(tile.threads()) + " threads"},
          epilogue_line(p),
          {"writer", writer_words(plan)}};
}

// DenseBlock and FmaAccumulator in reverse.
Holder holder_of(const DensePlan& plan, const Problem& p, const OutputPlace& at) {
  const DenseTile& tile = dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
  const bool second = at.phase >= plan.classes[0].phases;
  const DenseClass& k = plan.classes[second ? 1 : 0];
  const int64_t m = at.n * plan.phases.positions + at.u - plan.phases.first;
  const int64_t column = at.inner * k.phases + at.phase - k.first_phase;
  const int64_t row_tile = m / tile.rows;
  const int64_t column_tile = column / tile.columns + (second ? plan.classes[0].column_tiles : 0);
  const int64_t inside =
      plan.rows_first ? column_tile * plan.row_tiles + row_tile : row_tile * plan.column_tiles + column_tile;
  const FmaAccumulator::Holder sum =
      tile.map(sum_bytes(p))
          .holder({static_cast<int>(m % tile.rows), static_cast<int>(column % tile.columns)});
  return {at.group * plan.splits * plan.row_tiles * plan.column_tiles + inside, sum.thread,
          "sums[" + to_string(sum.i) + "][" + to_string(sum.j) + "]"};
}

std::string where(const DensePlan& plan, const Problem& p, int64_t element) {
  const OutputPlace at = output_place(p, plan.phases, element);
  const std::string sum = text(sum_position(p.y_elements(), element), plan.splits);
  if (!at.has_phase()) {
    if (plan.splits > 1) return text(at) + "; " + sum;
    return text(at) + "; its bias, " +
           (plan.phases.gaps ? "filled in before" : "stored with the last phase of its position");
  }
  std::string out = text(at) + "; " + text(holder_of(plan, p, at));
  if (plan.splits == 1) return out;
  return out + ", and so every " + to_string(plan.row_tiles * plan.column_tiles) + " blocks; " + sum;
}

}  // namespace tconv::cuda
