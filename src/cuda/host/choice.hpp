// Which kernel takes a transposed or strided product, or a weight gradient. Each family's entry asks here, so
// that exactly one accepts.
#pragma once

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct KernelChoice {
  const plan::KernelEntry* entry = nullptr;  // null: no kernel that is compared can run the problem
  double ms = 0;                             // its expected time; 0: it was not compared
};

// The kernel with the least expected time among those that can run a transposed or strided product. With
// batch_invariant, one sample decides for the whole batch.
KernelChoice product_choice(const core::Problem& problem, const core::DeviceInfo& device,
                            const plan::PlanOptions& options);

// The same for a weight gradient.
KernelChoice weight_choice(const core::Problem& problem, const core::DeviceInfo& device);

// Yes if this entry is the choice, or if there is none; otherwise no, naming the kernel that is chosen.
plan::Support supports_choice(const plan::KernelEntry& entry, const core::Problem& problem,
                              const core::DeviceInfo& device, const plan::PlanOptions& options);

}  // namespace tconv::cuda
