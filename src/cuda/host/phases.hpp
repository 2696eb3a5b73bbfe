#pragma once

#include "core/problem.hpp"
#include "cuda/device/phases.hpp"

namespace tconv::cuda {

// Of a valid problem; no positions where lout() is 0.
Phases phases_of(const core::Problem& problem);

}  // namespace tconv::cuda
