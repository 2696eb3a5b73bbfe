// The configuration of cuda.simt.weight; no CUDA here.
#pragma once

#include <compare>

#include "core/problem.hpp"
#include "cuda/simt/weight.hpp"

namespace tconv::cuda::simt {

struct WeightPlan {
  int tile = 0;
  WeightParams params{};  // without pointers
  int64_t blocks = 0;
  std::size_t part_bytes = 0;
  double seconds = 0;  // predicted
};
// Which tile of the grid sums an element of dw, and which of a thread's sums.
struct TileSum {
  int64_t tile;
  int sum;
  auto operator<=>(const TileSum&) const = default;
};
TileSum tile_sum(const WeightPlan& plan, int64_t element);
WeightPlan weight_plan_of(const core::Problem&, const core::DeviceInfo&, int tile);
WeightPlan weight_plan(const core::Problem&, const core::DeviceInfo&);

}  // namespace tconv::cuda::simt
