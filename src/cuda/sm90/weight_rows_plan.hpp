// The configuration of cuda.sm90.weight_rows and the cost model that chooses it. Pure functions; no CUDA
// here.
#pragma once

#include <string>

#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight_rows.hpp"

namespace tconv::cuda {

struct Sm90WeightRowsConfig {
  int shape = 0;                // index into kSm90WeightRowsShapeTable
  int positions = 0;            // of a stage: one of kSm90WeightRowsPositions
  bool shifts_in_rows = false;  // planes of x at several shifts, if its channels leave rows free
  int splits = 1;
  bool operator==(const Sm90WeightRowsConfig&) const = default;
};
inline constexpr int kSm90WeightRowsPositions[] = {32, 64, 128};

// What a stage takes: cycles of tensor cores, of shared memory and of the warps that move; bytes, and tensor
// copies. Predicted seconds of the whole.
struct Sm90WeightRowsCost {
  double tensor = 0, shared = 0, moves = 0, memory = 0, copies = 0, stage = 0;  // of a stage
  double dram = 0, total = 0;                                                   // seconds
};

struct Sm90WeightRowsPlan {
  Arithmetic mode;
  Sm90WeightRowsConfig config;
  Sm90WeightRowsCost cost;
  Sm90WeightRowsParams params;  // without pointers and maps
  int64_t blocks = 0;           // 0: does not fit
  int64_t part_bytes = 0;
  std::size_t shared_bytes = 0;

  Sm90WeightBlockedShape shape() const { return kSm90WeightRowsShapeTable[config.shape]; }
};

plan::Support sm90_weight_rows_supports(const core::Problem& problem);
Sm90WeightRowsPlan sm90_weight_rows_plan_of(const core::Problem&, const core::DeviceInfo&,
                                            const Sm90WeightRowsConfig&);
Sm90WeightRowsPlan sm90_weight_rows_plan(const core::Problem&, const core::DeviceInfo&);  // the cheapest

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> sm90_weight_rows_kernel(const core::Problem&, const core::DeviceInfo&,
                                                            const Sm90WeightRowsConfig&);
std::string describe(const Sm90WeightRowsPlan& plan);

}  // namespace tconv::cuda
