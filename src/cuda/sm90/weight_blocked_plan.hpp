// The configuration of cuda.sm90.weight_blocked and the cost model that chooses it. Pure functions; no CUDA
// here.
#pragma once

#include <string>

#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight_blocked.hpp"

namespace tconv::cuda {

struct Sm90WeightBlockedConfig {
  int shape = 0;  // index into kSm90WeightBlockedShapeTable
  // Shifts that become planes: of dy's phases, of x.
  int y_fold = 1, x_fold = 1;
  int splits = 1;
  int64_t chunk_positions = 0;  // 0: all at once
  bool operator==(const Sm90WeightBlockedConfig&) const = default;
};

// Predicted seconds of each unit in the main kernel, of the other kernels, and of the whole.
struct Sm90WeightBlockedCost {
  double tensor = 0, l2 = 0, pass = 0, sum = 0, total = 0;
};

struct Sm90WeightBlockedPlan {
  Arithmetic mode;
  Sm90WeightBlockedConfig config;
  Sm90WeightBlockedCost cost;
  Sm90WeightBlockedParams params;  // of the first chunk, without pointers and maps
  Sm90WeightPassParams pass;
  int64_t positions = 0;  // of all samples
  int chunks = 1;
  int64_t blocks = 0;  // 0: does not fit
  int64_t part_bytes = 0, x_bytes = 0, y_bytes = 0;
  std::size_t shared_bytes = 0;

  int64_t workspace_bytes() const { return part_bytes + x_bytes + y_bytes; }
  Sm90WeightBlockedShape shape() const { return kSm90WeightBlockedShapeTable[config.shape]; }
};

plan::Support sm90_weight_blocked_supports(const core::Problem& problem);
Sm90WeightBlockedPlan sm90_weight_blocked_plan_of(const core::Problem&, const core::DeviceInfo&,
                                                  const Sm90WeightBlockedConfig&);
Sm90WeightBlockedPlan sm90_weight_blocked_plan(const core::Problem&,
                                               const core::DeviceInfo&);  // the cheapest

// For chunk `chunk`: what differs from the first one.
void set_chunk(Sm90WeightBlockedPlan& plan, int chunk);
Sm90WeightBlockedSumParams sm90_weight_blocked_sum(const Sm90WeightBlockedParams& params,
                                                   const Sm90WeightBlockedShape& shape);

// Who sums an element of dw.
std::string sm90_weight_blocked_where(const Sm90WeightBlockedParams& params,
                                      const Sm90WeightBlockedShape& shape, const core::Problem& problem,
                                      int64_t element);

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> sm90_weight_blocked_kernel(const core::Problem&, const core::DeviceInfo&,
                                                               const Sm90WeightBlockedConfig&);
std::string describe(const Sm90WeightBlockedPlan& plan);

}  // namespace tconv::cuda
