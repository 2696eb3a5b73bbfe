// Which kernel takes a transposed or strided product, or a weight gradient. Each family's entry asks here, so
// that exactly one accepts.
#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct KernelChoice {
  const plan::KernelEntry* entry = nullptr;  // null: none of those that are compared can run the problem
  double ms = 0;                             // what is expected of it; 0: it was not compared
};

// The kernel of the least expected time among those that can run a transposed or strided product. With
// batch_invariant, one sample alone decides.
KernelChoice product_choice(const core::Problem& problem, const core::DeviceInfo& device,
                            const plan::PlanOptions& options);

// The same of a weight gradient.
KernelChoice weight_choice(const core::Problem& problem, const core::DeviceInfo& device);

// Yes where an entry is the choice, or where there is none; else no, with the kernel that is.
plan::Support supports_choice(const plan::KernelEntry& entry, const core::Problem& problem,
                              const core::DeviceInfo& device, const plan::PlanOptions& options);

}  // namespace tconv::cuda
