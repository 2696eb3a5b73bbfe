// What cuda.sm90.dense takes of this family.
#pragma once

#include "cuda/host/launch.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {

// Adds the partial sums in the workspace up to y. `params` without pointers.
inline core::Status sum_partial(const Launcher& launcher, Sm80Mode, PhaseSumParams params,
                                const core::Problem& problem, const plan::Operands& operands,
                                const plan::RunContext& context) {
  return sum_partials(launcher, problem, operands, context.workspace, params);
}

}  // namespace tconv::cuda
