// What the kernels of the two tensor-core families, sm80 and sm90, have in common on the host.
#pragma once

#include <string>

#include "cuda/host/launch.hpp"
#include "cuda/sm80/dense.hpp"

namespace tconv::cuda {

Sm80Functions sm80_functions(Sm80Mode mode);

// Whether x, the mode and every count that the kernels keep in 32 bits are as they need them.
plan::Support tensor_supports(const core::Problem& problem);

std::string tensor_pack_key(const char* kernel, const core::Problem& problem, const Phases& phases);

// Adds the partial sums in the workspace up to y. `params` without pointers.
core::Status sum_partial(const Launcher& launcher, Sm80Mode mode, Sm80SumParams params,
                         const core::Problem& problem, const plan::Operands& operands,
                         const plan::RunContext& context);

}  // namespace tconv::cuda
