// What a mode implies for sizes, and the predicted time of a plan of cuda.sm90.dense.
#pragma once

#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {

struct Sm90Layout {
  int element, parts, unit, products;  // bytes; operand parts; channels of 16 bytes; wgmma of one step
  int slab() const { return kSm90Blocks * unit; }
};
Sm90Layout sm90_layout(Arithmetic mode, bool scaled);

// How much longer PassWriter takes if phases are skewed.
double skew_factor(const Sm90StageParams& params);

Sm90Cost sm90_cost(const Sm90Plan& plan, const core::Problem& problem, const core::DeviceInfo& device,
                   const Sm90Tile& tile);

}  // namespace tconv::cuda
