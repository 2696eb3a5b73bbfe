// What cuda.sm90.weight_turned and cuda.sm90.weight_rows have in common on the host (weight_units.hpp):
// planning, by pure functions; tensor maps; and the launches behind the main kernel.
#pragma once

#include <algorithm>
#include <string>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/sm90/weight_units.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

plan::Support weight_units_support(const core::Problem& problem);

// Whether the problem asks for the sums of dy beside its weight gradient.
inline bool sums_y(const core::Problem& problem) {
  return problem.writes_grad_bias() && !problem.bias_of_x;
}

// The planes and shifts, and the axis of places; the wgmma of a chain have `depth` positions each. early:
// elements of dy, at most, by which what a stage sums begins before its first position. False: too many for
// 32 bits.
bool set_unit_sizes(Sm90WeightUnitsParams& k, const core::Problem& problem, int stage_positions, int depth,
                    int early);

// The units of both operands and the tiles. shifts_in_rows: x planes at several shifts where channels leave
// rows free. False: too many, or shifts_in_rows changes nothing.
bool set_unit_tiles(Sm90WeightUnitsParams& k, Sm90WeightUnitRows& x, Sm90WeightUnitRows& y,
                    const core::Problem& problem, const Sm90WeightBlockedShape& shape, bool shifts_in_rows);

// The parts of a plan that depend on its number of splits, but for its cost.
template <class Plan>
void set_unit_splits(Plan& plan) {
  auto& k = plan.params;
  k.splits = std::clamp(plan.config.splits, 1, std::max(1, k.stages));
  plan.config.splits = k.splits;
  plan.blocks = int64_t{k.tiles} * k.splits;
  k.direct = k.splits == 1;
  const bool one_chain = plan.mode == Arithmetic::ieee || k.stages <= k.chain;
  plan.part_bytes = k.direct && one_chain ? 0 : plan.blocks * plan.shape().rows() * plan.shape().columns * 4;
}

// Bytes of the parts of dy's sums, which lie behind those of dw.
template <class Plan>
int64_t bias_part_bytes(const Plan& plan, const core::Problem& problem) {
  return plan.params.sums_y ? problem.cout * plan.params.bias_each * int64_t{sizeof(double)} : 0;
}

std::string describe_units(const Sm90WeightUnitsParams& k, const Sm90WeightBlockedShape& shape,
                           Arithmetic mode);

// One map for each class of rows, from the 16 bytes on in which the class's first row begins. A copy brings
// box_rows rows. rounded: to tf32.
core::Status set_unit_maps(Sm90WeightUnitRows& rows, const core::Problem& problem, const void* from,
                           const int64_t (&steps)[3], int64_t length, int64_t channels, int box_rows,
                           bool rounded);

// Whether the sums of dy are in a plan, for KernelEntry::grad_bias. supports, plan_of, sums: of the family;
// the last says which shapes have them.
template <class Plan>
bool plan_sums_y(const core::Problem& p, const core::DeviceInfo& device,
                 plan::Support (*supports)(const core::Problem&),
                 Plan (*plan_of)(const core::Problem&, const core::DeviceInfo&),
                 bool (*sums)(Arithmetic, int)) {
  if (!sums_y(p) || !supports(p).ok) return false;
  const Plan plan = plan_of(p, device);
  return plan.blocks != 0 && sums(plan.mode, plan.config.shape);
}

// Which part of the machine sums a channel of dy.
std::string unit_bias_where(int64_t channel);

// What sums dy. verb: what the warps do that sum it.
plan::StageLine unit_bias_line(const Sm90WeightUnitsParams& k, const char* verb);

// Adds the parts of dw, if the main kernel has not written dw itself, and those of dy's sums.
core::Status add_unit_parts(const Launcher& launcher, void (*sum)(Sm90WeightBlockedSumParams),
                            void (*bias)(Sm90WeightBiasParams), const Sm90WeightUnitsParams& params,
                            const Sm90WeightBlockedShape& shape, const core::Problem& problem,
                            const plan::Operands& operands);

}  // namespace tconv::cuda
