#pragma once

#include "core/problem.hpp"
#include "cuda/device/phases.hpp"

namespace tconv::cuda {

// For a valid problem; there are no positions if lout() is 0.
Phases phases_of(const core::Problem& problem);

}  // namespace tconv::cuda
