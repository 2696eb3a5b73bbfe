// Planning that cuda.sm90.weight_turned and cuda.sm90.weight_rows have in common (weight_units.hpp). Pure
// functions, but for the tensor maps.
#pragma once

#include <algorithm>
#include <string>

#include "core/problem.hpp"
#include "core/status.hpp"
#include "cuda/sm90/weight_units.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

plan::Support weight_units_support(const core::Problem& problem);

// The planes and shifts, and the axis of places; the wgmma of a chain have `depth` positions each. False: too
// many for 32 bits.
bool set_unit_sizes(Sm90WeightUnitsParams& k, const core::Problem& problem, int stage_positions, int depth);

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

std::string describe_units(const Sm90WeightUnitsParams& k, const Sm90WeightBlockedShape& shape,
                           Arithmetic mode);

// One map for each class of rows, from the 16 bytes on in which the class's first row begins. A copy brings
// box_rows rows. rounded: to tf32.
core::Status set_unit_maps(Sm90WeightUnitRows& rows, const core::Problem& problem, const void* from,
                           const int64_t (&steps)[3], int64_t length, int64_t channels, int box_rows,
                           bool rounded);

}  // namespace tconv::cuda
