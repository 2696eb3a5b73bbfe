// The configuration of cuda.sm90.weight_blocked and the cost model that chooses it. Pure functions; no CUDA
// here.
#pragma once

#include <algorithm>
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
  bool scaled = false;          // float32 in float16
  bool operator==(const Sm90WeightBlockedConfig&) const = default;
};

// Predicted seconds of each unit in the main kernel, of the other kernels, and of the whole.
struct Sm90WeightBlockedCost {
  double tensor = 0, l2 = 0, look = 0, pass = 0, sum = 0, total = 0;
};

struct Sm90WeightBlockedPlan {
  Arithmetic mode;
  Sm90WeightBlockedConfig config;
  Sm90WeightBlockedCost cost;
  Sm90WeightBlockedParams params;  // of the first chunk, without pointers and maps
  Sm90WeightPassParams pass;
  Sm90WeightLookParams look;
  int64_t positions = 0;  // of all samples
  int chunks = 1;
  int64_t blocks = 0;  // 0: does not fit
  int64_t part_bytes = 0, x_bytes = 0, y_bytes = 0;
  int64_t seen_bytes = 0;  // of both operands, at the workspace's end
  std::size_t shared_bytes = 0;

  int64_t workspace_bytes() const { return part_bytes + x_bytes + y_bytes + seen_bytes; }
  Sm90WeightBlockedLayout layout() const { return weight_blocked_layout(mode, config.scaled); }
  Sm90WeightBlockedShape shape() const { return kSm90WeightBlockedShapeTable[config.shape]; }
};

plan::Support sm90_weight_blocked_supports(const core::Problem& problem);
Sm90WeightBlockedPlan sm90_weight_blocked_plan_of(const core::Problem&, const core::DeviceInfo&,
                                                  const Sm90WeightBlockedConfig&);
Sm90WeightBlockedPlan sm90_weight_blocked_plan(const core::Problem&,
                                               const core::DeviceInfo&);  // the cheapest

// What the costs of a plan have in common, however its positions are split: cycles of a stage, by unit and
// in all; seconds.
struct Sm90WeightBlockedUnsplit {
  double tensor, l2, stage;
  double pass, look, dram;
  double least;  // a bound of the whole time
};
Sm90WeightBlockedUnsplit sm90_weight_blocked_unsplit(const Sm90WeightBlockedPlan&, const core::Problem&,
                                                     const core::DeviceInfo&);
// Of a plan with its splits.
Sm90WeightBlockedCost sm90_weight_blocked_cost(const Sm90WeightBlockedPlan&, const Sm90WeightBlockedUnsplit&,
                                               const core::DeviceInfo&);

// From how many splits on several runs of them are summed side by side, and from how many on more runs, but
// no lines of dw.
inline constexpr int kSm90WeightManySplits = 4, kSm90WeightMostSplits = 16;
inline constexpr int kSm90WeightLineBytes =
    48 * 1024;  // of shared memory, where lines of dw are put together
// Whole lines of dw can be summed in shared memory, which pays where neighbours in them lie in different
// rows.
inline bool weight_has_lines(const Sm90WeightBlockedParams& k) {
  constexpr int kMostRows = kSm90WeightLineBytes / 16 / 32;  // 16 bytes each, for 32 lanes
  const int64_t rows = int64_t{k.taps} * k.x_planes;
  return rows > 1 && rows <= kMostRows && k.x_units.channels == 0 && k.y_units.channels == 0;
}
// Phases of a channel that are neighbouring columns, at least.
inline int least_phases(const Sm90WeightBlockedParams& k) {
  return k.in_columns.rest > 0 ? std::min(k.in_columns.first, k.in_columns.rest) : k.in_columns.first;
}
// Whether the second kernel does so.
inline bool weight_sums_lines(const Sm90WeightBlockedParams& k) {
  return weight_has_lines(k) && k.splits < kSm90WeightMostSplits;
}

// weight_blocked_pass_plan.cpp. The pass over x and dy, and the look before it, in chunks of positions that
// keep the workspace small; false: the problem is too large for them.
bool sm90_set_weight_pass(Sm90WeightBlockedPlan& plan, const core::Problem& problem);
// For chunk `chunk`: what differs from the first one.
void set_chunk(Sm90WeightBlockedPlan& plan, int chunk);
// The pointers into the workspace of what the look finds.
void set_seen(Sm90WeightBlockedPlan& plan, std::byte* at);
Sm90WeightBlockedSumParams sm90_weight_blocked_sum(const Sm90WeightBlockedParams& params,
                                                   const Sm90WeightBlockedShape& shape);

// Who sums an element of dw.
std::string sm90_weight_blocked_where(const Sm90WeightBlockedParams& params,
                                      const Sm90WeightBlockedShape& shape, const core::Problem& problem,
                                      int64_t element);

// For tests: a kernel of a given configuration, which must fit.
std::unique_ptr<const plan::Kernel> sm90_weight_blocked_kernel(const core::Problem&, const core::DeviceInfo&,
                                                               const Sm90WeightBlockedConfig&);
std::string arithmetic_text(const Sm90WeightBlockedPlan& plan);
std::string describe(const Sm90WeightBlockedPlan& plan);

}  // namespace tconv::cuda
