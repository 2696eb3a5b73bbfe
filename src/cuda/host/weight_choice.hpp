// Which kernel takes a weight gradient. Each family's entry asks here, so that exactly one accepts.
#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct WeightChoice {
  const plan::KernelEntry* entry = nullptr;  // null: none of those that are compared can run the problem
  double seconds = 0;                        // what is expected of it
};

// The kernel of the least expected time among those that can run the problem.
const WeightChoice& weight_choice(const core::Problem& problem, const core::DeviceInfo& device);

// Yes where an entry is the choice; else no, with the kernel that is.
plan::Support supports_weight_choice(const plan::KernelEntry& entry, const core::Problem& problem,
                                     const core::DeviceInfo& device);

}  // namespace tconv::cuda
