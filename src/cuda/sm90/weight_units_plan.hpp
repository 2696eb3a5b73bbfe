// Planning that cuda.sm90.weight_turned and cuda.sm90.weight_rows have in common (weight_units.hpp). Pure
// functions, but for the tensor maps.
#pragma once

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

// One map for each class of rows, from the 16 bytes on in which the class's first row begins. A copy brings
// box_rows rows. rounded: to tf32.
core::Status set_unit_maps(Sm90WeightUnitRows& rows, const core::Problem& problem, const void* from,
                           const int64_t (&steps)[3], int64_t length, int64_t channels, int box_rows,
                           bool rounded);

}  // namespace tconv::cuda
