// Choose, explain, force. A plan is a pure function of its arguments and of TCONV_FORCE_KERNEL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/kernel_entry.hpp"

namespace tconv::plan {

struct Refused {
  const KernelEntry* entry;
  std::string reason;
};

struct Plan {
  core::Problem problem;
  core::DeviceInfo device;
  PlanOptions options;
  const KernelEntry* entry = nullptr;
  std::unique_ptr<const Kernel> kernel;
  std::vector<Refused> refused;  // entries of this device before the chosen one

  std::size_t workspace_bytes(bool packed_weights) const;
};

// Refuses an invalid problem, an unknown forced name, and a forced kernel that does not support the problem.
// options.force_kernel wins over the environment.
core::Result<Plan> make_plan(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);

// Every entry that supports the problem, in order; the check of "all kernels" walks these.
std::vector<const KernelEntry*> supporting(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);

std::string explain(const Plan& plan);

// Packs and runs. Pointers must be valid; sizes are checked. Operands.weight is raw unless packed is set.
core::Status pack(const Plan& plan, const void* weight, void* packed, const RunContext& context);
core::Status run(const Plan& plan, const Operands& operands, bool packed, const RunContext& context,
                 std::size_t workspace_bytes);

}  // namespace tconv::plan
