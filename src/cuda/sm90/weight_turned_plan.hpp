// The configuration of cuda.sm90.weight_turned and the cost model that chooses it. Pure functions; no CUDA
// here.
#pragma once

#include <string>

#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight_turned.hpp"

namespace tconv::cuda {

struct Sm90WeightTurnedConfig {
  int shape = 0;                // index into kSm90WeightBlockedShapeTable
  bool shifts_in_rows = false;  // planes of x at several shifts, if its channels leave rows free
  int splits = 1;
  bool operator==(const Sm90WeightTurnedConfig&) const = default;
};

// What a stage takes: cycles of tensor cores and of shared memory, bytes, tensor copies; 512 bytes that a
// warp turns (1024 in three parts), those that it sums, and in how many pieces. Predicted seconds of the
// whole.
struct Sm90WeightTurnedCost {
  double tensor = 0, shared = 0, memory = 0, copies = 0, lines = 0, sums = 0, pieces = 0, total = 0;
};

struct Sm90WeightTurnedPlan {
  Arithmetic mode;
  Sm90WeightTurnedConfig config;
  Sm90WeightTurnedCost cost;
  Sm90WeightTurnedParams params;  // without pointers and maps
  int64_t blocks = 0;             // 0: does not fit
  int64_t part_bytes = 0;
  std::size_t shared_bytes = 0;

  Sm90WeightBlockedShape shape() const { return kSm90WeightBlockedShapeTable[config.shape]; }
};

plan::Support sm90_weight_turned_supports(const core::Problem& problem);
Sm90WeightTurnedPlan sm90_weight_turned_plan_of(const core::Problem&, const core::DeviceInfo&,
                                                const Sm90WeightTurnedConfig&);
Sm90WeightTurnedPlan sm90_weight_turned_plan(const core::Problem&, const core::DeviceInfo&);  // the cheapest

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> sm90_weight_turned_kernel(const core::Problem&, const core::DeviceInfo&,
                                                              const Sm90WeightTurnedConfig&);
std::string describe(const Sm90WeightTurnedPlan& plan);

}  // namespace tconv::cuda
