#include "core/polyphase.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/thin_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

std::string rows_of(const ThinParams& k) {
  if (k.out_stride == 1) return "channels";
  return "rows (channel, " + std::to_string(k.out_stride) + " phases)";
}

}  // namespace

std::string describe(const ThinPlan& plan, const Problem& p) {
  const ThinParams& k = plan.params;
  return std::string(name_of(arithmetic_of(p))) + ", a block " +
         std::to_string(k.block_row_tiles * kThinRowTile) + " " + rows_of(k) + " x " +
         std::to_string(kThinWarps / k.row_warps * k.warp_columns) + " positions at a time, depth " +
         std::to_string(k.channels) + " channels x " + std::to_string(k.taps) + " taps";
}

std::vector<plan::StageLine> stages(const ThinPlan& plan, const Problem& p) {
  const ThinParams& k = plan.params;
  const int64_t tiles = core::ceil_div(k.tiles, int64_t{k.walkers.value});
  const int column_warps = kThinWarps / k.row_warps;
  return {{"schedule", std::to_string(plan.blocks) + " blocks, each up to " + std::to_string(tiles) +
                           " tiles one after the other; a warp " +
                           std::to_string(plan.config.row_tiles * kThinRowTile) + " rows x " +
                           std::to_string(k.warp_columns) + " positions, " + std::to_string(k.row_warps) +
                           " x " + std::to_string(column_warps) + " warps"},
          {"source", std::string(p.operation == core::Operation::strided ? "dy" : "x") + " in windows of " +
                         std::to_string(k.window) +
                         (size_of(p.dtype) == 2 ? ", two channels a word" : ", element by element") +
                         (k.in_stride > 1 ? ", in " + std::to_string(k.in_stride) + " planes" : "")},
          {"weights", "raw, once a block, as fragments in shared memory"},
          {"product", "mma.sync m16n8, " + std::to_string(k.steps) + " steps of 8 words by a table"},
          epilogue_line(p),
          {"writer", "through shared memory, in words"}};
}

}  // namespace tconv::cuda
