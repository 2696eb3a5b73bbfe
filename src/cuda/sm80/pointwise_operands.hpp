// Operands of the pointwise kernels, as they lie in memory.
#pragma once

#include "core/problem.hpp"
#include "cuda/sm80/pointwise.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// x (or dy), the outputs, and copies as wide as addresses allow; params.weight is set.
void set_pointwise_operands(PointwiseParams& params, const core::Problem& problem,
                            const plan::Operands& operands);

}  // namespace tconv::cuda
