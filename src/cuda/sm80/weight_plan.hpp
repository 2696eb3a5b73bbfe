// The configuration of cuda.sm80.weight and the cost model that chooses it. Pure functions; no CUDA here.
#pragma once

#include <algorithm>
#include <cmath>
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
  WeightParams params;  // without pointers
  int64_t blocks = 0;   // 0: does not fit
  int64_t dw_elements = 0;
  int64_t part_bytes = 0;
  std::size_t shared_bytes = 0;
};

// Seconds of a stage in one block: by unit, of all units together, and how long the block waits as well; and
// how many blocks an SM has at once.
struct WeightStageCost {
  double tensor, shared, l2, work, wait, resident;
};
inline constexpr int64_t kSharedOfSystem = 1024;  // bytes that the system takes for each block
int64_t weight_resident_blocks(Arithmetic mode, const core::DeviceInfo&, const WeightTile&,
                               int64_t slot_bytes);
WeightStageCost weight_stage_cost(const WeightPlan&, const core::DeviceInfo&, const WeightTile&);
// The time of two units that overlap, except where both take about as long: the fourth root of the sum of
// their fourth powers.
inline double overlapped(double a, double b) {
  return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b));
}
// cost.dram is there already.
void set_weight_cost(WeightPlan&, const core::DeviceInfo&, const WeightTile&, const WeightStageCost&);

bool weight_has(Arithmetic mode, int tile);
// The widest copies of x that its address and steps allow. The sums are the same with all of them.
WeightCopy weight_copy(const core::Problem& problem, const void* x);
plan::Support weight_supports(const core::Problem& problem);

WeightPlan weight_plan_of(const core::Problem&, const core::DeviceInfo&, const WeightConfig&);
// The cheapest plan, with the right cost, but not to be run: the search for the best distance between rows of
// dy takes as long as all others, and is left to weight_plan(). The reference is valid until the thread's
// next call.
const WeightPlan& weight_search(const core::Problem&, const core::DeviceInfo&);
WeightPlan weight_plan(const core::Problem&, const core::DeviceInfo&);  // the cheapest
// A lower bound of the predicted time of every plan, without a search; of those with so many tiles; and of a
// plan with any splits.
double weight_least_seconds(const core::Problem&, const core::DeviceInfo&);
double weight_least_seconds(const core::Problem&, const core::DeviceInfo&, int tile, int64_t tiles);
double weight_least_seconds(const WeightPlan&, const core::DeviceInfo&, const WeightStageCost&);
// elements: of dw.
WeightSumParams weight_sum_params(const WeightParams&, int rows, int columns, int64_t elements);

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

// What the kernels of the tensor cores have in common. Plan: has cost.
template <class Plan>
class WeightKernel : public plan::Kernel {
 public:
  WeightKernel(const core::Problem& problem, const core::DeviceInfo& device, const Plan& plan)
      : problem_(problem), device_(device), plan_(plan) {}
  double predicted_ms() const override { return 1e3 * plan_.cost.total; }

 protected:
  core::Problem problem_;
  core::DeviceInfo device_;
  Plan plan_;
};

// What an entry asks first; no_device: why its kernel cannot run on the device, or "".
inline plan::Support weight_runs(const core::Problem& p, std::string no_device) {
  if (std::string other = plan::other_operation(p, core::Operation::weight); !other.empty()) {
    return plan::Support::no(std::move(other));
  }
  return no_device.empty() ? plan::Support::yes() : plan::Support::no(std::move(no_device));
}

// Keeps the plan with the cheapest number of splits, of those that fit. set_splits(plan) follows from
// plan.config.splits.
template <class Plan, class SetSplits>
void try_weight_splits(Plan& best, Plan plan, int64_t tiles, const core::DeviceInfo& device,
                       const SetSplits& set_splits) {
  constexpr int64_t kMostSplits = 4096, kMostPartBytes = int64_t{1} << 30;
  int last = 0;
  for (int turn = 0; turn <= 3; ++turn) {
    const int64_t wanted = turn == 0 ? 1 : int64_t{device.sm_count} * turn / tiles;
    plan.config.splits = static_cast<int>(std::clamp<int64_t>(wanted, 1, kMostSplits));
    if (plan.config.splits == last) continue;
    last = plan.config.splits;
    set_splits(plan);
    if (plan.part_bytes > kMostPartBytes) continue;
    if (best.blocks == 0 || plan.cost.total < best.cost.total) best = plan;
  }
}

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
