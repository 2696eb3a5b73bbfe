// The configuration of cuda.sm80.weight and the cost model that chooses it. Pure functions; no CUDA here.
#pragma once

#include <compare>
#include <string>

#include "core/problem.hpp"
#include "cuda/device/arithmetic.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/sm80/weight.hpp"

namespace tconv::cuda {

struct WeightConfig {
  int tile = 0;  // index into kWeightTileTable
  int piece = 0, stage_pieces = 0;
  int block_taps = 0, block_couts = 0;  // at most
  int splits = 1;
  bool operator==(const WeightConfig&) const = default;
};

// Predicted seconds of each unit, and of the whole.
struct WeightCost {
  double tensor = 0, shared = 0, l2 = 0, dram = 0, sum = 0, total = 0;
};

struct WeightPlan {
  Arithmetic mode;
  WeightConfig config;
  WeightCost cost;
  WeightParams params;  // without pointers, as for an x that is read by element
  int64_t blocks = 0;   // 0: does not fit
  int64_t part_bytes = 0;
  std::size_t shared_bytes = 0;
};

// Seconds of a stage in one block, by unit, and how many blocks an SM has at once.
struct WeightStageCost {
  double tensor, shared, l2, busy, resident;
};
int64_t weight_resident_blocks(const core::DeviceInfo&, const WeightTile&, int64_t slot_bytes);
WeightStageCost weight_stage_cost(const WeightPlan&, const core::DeviceInfo&, const WeightTile&);
// cost.dram is there already.
void set_weight_cost(WeightPlan&, const core::DeviceInfo&, const WeightTile&, const WeightStageCost&);

bool weight_has(Arithmetic mode, int tile);
plan::Support weight_supports(const core::Problem& problem);

WeightPlan weight_plan_of(const core::Problem&, const core::DeviceInfo&, const WeightConfig&);
// The cheapest plan, with the right cost, but not to be run: the search for the best distance between rows of
// dy takes as long as all others, and is left to weight_plan(). The reference is valid until the thread's
// next call.
const WeightPlan& weight_search(const core::Problem&, const core::DeviceInfo&);
WeightPlan weight_plan(const core::Problem&, const core::DeviceInfo&);  // the cheapest
// A lower bound of the predicted time of every plan, without a search.
double weight_least_seconds(const core::Problem&, const core::DeviceInfo&);
WeightSumParams weight_sum_params(const WeightParams&, int rows, int columns);

// Which tile of the grid sums an element of dw, and where in the tile. The rows of a tile are ci.
struct WeightPlace {
  int64_t tile;
  int row, column;
  auto operator<=>(const WeightPlace&) const = default;
};
WeightPlace weight_place(const WeightParams&, int tile_rows, int64_t element);
std::string weight_where(const WeightParams&, int tile_rows, const core::Problem&, int64_t element);

// Adds up the parts that a kernel has left in the workspace.
core::Status sum_weight_parts(const Launcher& launcher, void (*kernel)(WeightSumParams),
                              WeightSumParams params, const plan::Operands& operands,
                              const plan::RunContext& context);

// The answer of an entry whose kernel can compute a weight gradient. The choice comes first: fits() searches,
// so it is called only if this kernel may be the fastest.
template <class Fits>
plan::Support supports_searched(const plan::KernelEntry& entry, const core::Problem& p,
                                const core::DeviceInfo& device, const plan::PlanOptions& options,
                                const Fits& fits, const char* none_fits) {
  if (options.force_kernel != entry.name) {
    if (plan::Support chosen = supports_choice(entry, p, device, options); !chosen.ok) return chosen;
  }
  return fits() ? plan::Support::yes() : plan::Support::no(none_fits);
}

plan::Support weight_y_support(const core::Problem& problem);

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> weight_kernel(const core::Problem&, const core::DeviceInfo&,
                                                  const WeightConfig&);
std::string describe(const WeightPlan& plan, const core::Problem& problem);

}  // namespace tconv::cuda
