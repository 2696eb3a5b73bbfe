// A plan of cuda.sm80.weight in words, and where it computes an element.
#include <cstdio>

#include "core/polyphase.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {

using core::Problem;

WeightPlace weight_place(const WeightParams& k, int tile_rows, int64_t element) {
  const int64_t tap = element % k.k, co = element / k.k % k.cout_group, ci = element / k.k / k.cout_group;
  const int64_t group = ci / k.cin_group, row = ci % k.cin_group;
  const int64_t phase = tap % k.tap_stride, shift = tap / k.tap_stride;
  int64_t tile = group * k.cout_blocks + co / k.block_couts;
  tile = tile * k.phase_blocks + phase / k.block_phases;
  tile = tile * k.tap_blocks + shift / k.block_taps;
  const int64_t column =
      shift % k.block_taps * k.rows + co % k.block_couts * k.block_phases + phase % k.block_phases;
  return {tile * k.row_tiles + row / tile_rows, static_cast<int>(row % tile_rows), static_cast<int>(column)};
}

std::string weight_where(const WeightParams& k, int tile_rows, const Problem& p, int64_t element) {
  const WeightPlace at = weight_place(k, tile_rows, element);
  return element_text(p, element) + "; " + blocks_text(at.tile, k.tiles, k.splits) + ", ci " +
         std::to_string(at.row) + " and column " + std::to_string(at.column) + " of the tile";
}

std::string describe(const WeightPlan& plan, const Problem&) {
  const WeightParams& k = plan.params;
  char text[400];
  std::snprintf(
      text, sizeof(text),
      "%s, tile %s of ci x (%d couts, %d phases, %d taps), %d tiles, stages of %d x %d positions, %d kB "
      "of shared memory%s",
      name_of(plan.mode), kWeightTileTable[plan.config.tile].name, k.block_couts, k.block_phases,
      k.block_taps, k.tiles, k.stage_pieces, k.piece, static_cast<int>(plan.shared_bytes >> 10),
      k.direct ? "" : ", positions split ");
  std::string out = text;
  if (!k.direct) out += std::to_string(k.splits) + " ways and summed in order";
  return out;
}

}  // namespace tconv::cuda
