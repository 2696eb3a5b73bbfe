#include "cuda/sm90/pointwise_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/raw_plan.hpp"
#include "cuda/sm90/no_wgmma.hpp"

namespace tconv::cuda {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

PointwisePlan sm90_pointwise_plan_of(const Problem& p, const DeviceInfo& d, const PointwiseConfig& config) {
  PointwisePlan plan;
  plan.config = config;
  PointwiseParams& k = plan.params;
  const Sm90PointwiseTile& tile = kSm90PointwiseTiles[config.tile];
  plan.tile_rows = tile.rows, plan.tile_columns = tile.columns;
  const ArithmeticShape shape = shape_of(arithmetic_of(p));
  set_pointwise_sizes(plan, p);
  if (config.splits > k.slabs) return plan;
  const int64_t slabs = ceil_div(k.slabs, config.splits);
  if (slabs * kPointwiseSlabBytes / shape.element > kSm90PointwiseMostSteps * shape.depth()) return plan;
  const int64_t stage = sm90_pointwise_stage_bytes(tile);
  const int64_t room = (d.shared_per_sm / tile.blocks - 1024 - kSm90PointwiseHead) / stage;
  if (room < 2) return plan;
  k.stages = static_cast<int>(std::min({room, int64_t{kSm90PointwiseMostStages}, slabs}));
  plan.shared_bytes =
      std::max<int64_t>(kSm90PointwiseHead + k.stages * stage, sm90_pointwise_sum_bytes(tile));
  if (plan.shared_bytes > d.shared_per_block) return plan;
  set_pointwise_blocks(plan, p);
  if (plan.blocks > 0) plan.ms = sm90_pointwise_ms(plan, p, d);
  return plan;
}

PointwisePlan sm90_pointwise_plan(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  return cheapest_plan(p, d, batch_invariant, kSm90PointwiseTileCount,
                       [&](const Problem& of, int tile, int splits) {
                         return sm90_pointwise_plan_of(of, d, {tile, splits});
                       });
}

std::string sm90_pointwise_refusal(const Problem& p, const DeviceInfo& d) {
  if (std::string none = no_wgmma(d); !none.empty()) return none;
  if (std::string words = pointwise_refusal(p, d); !words.empty()) return words;
  if (arithmetic_of(p) == Arithmetic::ieee) return "float32 in ieee precision: this kernel does not split it";
  PointwisePlan plan;
  set_pointwise_sizes(plan, p);
  if (plan.params.x_copy < 16 || plan.params.weight_copy < 16) {
    return "rows are not whole multiples of 16 bytes: tensor copies cannot take them";
  }
  for (int tile = 0; tile < kSm90PointwiseTileCount; ++tile) {
    if (sm90_pointwise_plan_of(p, d, {tile, 1}).blocks > 0) return "";
  }
  return "its tiles are too many, or its sums too long";
}

}  // namespace tconv::cuda
