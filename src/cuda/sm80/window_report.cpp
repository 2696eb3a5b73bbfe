#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/raw_plan.hpp"
#include "cuda/sm80/window_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

std::string words(const WindowPieces& pieces, int element) {
  return (pieces.copy == WindowCopy::element ? "elements of " : "asynchronous copies of ") +
         std::to_string(window_copy_bytes(pieces.copy, element)) + " bytes";
}

std::string slab_of(const WindowParams& k) {
  if (k.chunks > 1) return std::to_string(k.taps) + " taps of a channel";
  return std::to_string(k.channels) + " channels x " + std::to_string(k.taps) + " taps";
}

}  // namespace

std::string describe(const WindowPlan& plan, const Problem& p) {
  const WindowParams& k = plan.params;
  const WindowTile& tile = kWindowTiles[plan.config.tile];
  return std::string(name_of(arithmetic_of(p))) + ", tile of " + std::to_string(tile.rows) + " ci x " +
         std::to_string(tile.columns) + " positions of all samples" + split_words(k.splits) + ", slabs of " +
         slab_of(k) + " with windows of " + std::to_string(plan.window);
}

std::vector<plan::StageLine> stages(const WindowPlan& plan, const Problem& p) {
  const WindowParams& k = plan.params;
  const int element = static_cast<int>(size_of(p.dtype));
  return {cluster_schedule_line(k.splits, plan.blocks, k.rows_first),
          {"source", "windows of dy as they lie in memory, by " + words(k.dy_pieces, element) + ": " +
                         std::to_string(k.stages) + " stages of " + slab_of(k)},
          {"weights", "raw, by " + words(k.weight_pieces, element) + " into the same stages"},
          {"product", "mma.sync m16n8, elements of dy by a table of (channel, tap)"},
          epilogue_line(p),
          staged_writer_line(k.splits)};
}

}  // namespace tconv::cuda
