// The configuration of cuda.simt.weight; no CUDA here.
#pragma once

#include <compare>
#include <memory>
#include <string>

#include "core/problem.hpp"
#include "cuda/simt/weight.hpp"

namespace tconv::cuda::simt {

// A tile, and how many warps share the steps of one.
struct WeightConfig {
  int tile = 0;
  int64_t shares = 1;
};
struct WeightPlan {
  WeightConfig config;
  WeightParams params{};  // without pointers
  bool near = false;      // a phase's taps read neighbouring elements of x
  int64_t blocks = 0;     // 0: none
  std::size_t part_bytes = 0;
  double seconds = 0;  // predicted
  const WeightTile& tile() const { return kWeightTileTable[config.tile]; }
  // Steps that its kernel has under way together.
  int at_once() const { return near ? tile().at_once : weight_steps_far(tile().taps, tile().at_once); }
};
// Empty, or why there is no plan.
std::string weight_refusal(const core::Problem&);
WeightPlan weight_plan_of(const core::Problem&, const core::DeviceInfo&, const WeightConfig&);
// The fastest, by a model of its time. The reference is valid until the thread's next call.
const WeightPlan& weight_plan(const core::Problem&, const core::DeviceInfo&);
// A lower bound of a plan's time, without a search.
double weight_least_seconds(const core::Problem&, const core::DeviceInfo&);
std::unique_ptr<const plan::Kernel> weight_kernel_of(const core::Problem&, const core::DeviceInfo&,
                                                     const WeightPlan& plan);

// Which tile of the grid sums an element of dw, and which sum of which of its phases.
struct TileSum {
  int64_t tile;
  int sum, phase;
  auto operator<=>(const TileSum&) const = default;
};
TileSum tile_sum(const WeightPlan& plan, int64_t element);

}  // namespace tconv::cuda::simt
