// The configuration of cuda.sm90.weight and the cost model that chooses it. Pure functions; no CUDA here.
#pragma once

#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight.hpp"

namespace tconv::cuda {

struct Sm90WeightConfig {
  int shape = 0;  // index into kSm90WeightShapeTable
  int piece = 0, stage_pieces = 0;
  int block_taps = 0, block_couts = 0;  // at most
  int splits = 1;
  bool operator==(const Sm90WeightConfig&) const = default;
};

// Predicted seconds of each unit, and of the whole.
struct Sm90WeightCost {
  double tensor = 0, shared = 0, l2 = 0, bring = 0, dram = 0, sum = 0, total = 0;
};

struct Sm90WeightPlan {
  Arithmetic mode;
  Sm90WeightConfig config;
  Sm90WeightCost cost;
  Sm90WeightParams params;  // without pointers and map
  int64_t blocks = 0;       // 0: does not fit
  int64_t dw_elements = 0;
  int64_t part_bytes = 0;
  std::size_t shared_bytes = 0;
};

plan::Support sm90_weight_supports(const core::Problem& problem);
// Whether tensor copies can bring x as it lies, in pieces of this many positions.
bool weight_by_tensor_copies(const core::Problem& problem, int piece);
Sm90WeightPlan sm90_weight_plan_of(const core::Problem&, const core::DeviceInfo&, const Sm90WeightConfig&);
// The cheapest plan, without and with the best distance between rows of dy, like weight_search() and
// weight_plan(); and a lower bound.
const Sm90WeightPlan& sm90_weight_search(const core::Problem&, const core::DeviceInfo&);
Sm90WeightPlan sm90_weight_plan(const core::Problem&, const core::DeviceInfo&);
double sm90_weight_least_seconds(const core::Problem&, const core::DeviceInfo&);
std::string describe(const Sm90WeightPlan& plan);

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> sm90_weight_kernel(const core::Problem&, const core::DeviceInfo&,
                                                       const Sm90WeightConfig&);

}  // namespace tconv::cuda
