// What the kernels of a transposed or strided product are expected to take, on one scale.
#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Milliseconds of an entry's plan for a problem that it can run, with half of what packing weights takes, as
// callers pack before or in each call. 0: the entry is not to be compared.
double expected_ms(const plan::KernelEntry& entry, const core::Problem& problem,
                   const core::DeviceInfo& device, bool batch_invariant);

// What the problem's bytes take at the rate of a copy.
double memory_ms(const core::Problem& problem, const core::DeviceInfo& device);

}  // namespace tconv::cuda
