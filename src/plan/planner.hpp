// Choose, explain, force. A plan is a pure function of its arguments; one of them is the kernel that
// TCONV_FORCE_KERNEL named when the process first looked.
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
  std::string note = {};         // why the environment's kernel was left alone, if it was

  // What pack() writes, always enough for the operation's weights: in the kernel's layout, or a copy where
  // the kernel reads raw weights. 0 where the operation reads no weights.
  std::size_t packed_bytes() const;
  std::string pack_key() const;
  // Whether raw and packed weights lie differently, so that runs with either take different times.
  bool packs() const { return kernel->packed_bytes() > 0; }
  // What run() touches; 0 where the output is empty.
  std::size_t workspace_bytes(bool packed_weights) const;
  std::size_t host_bytes() const;  // that it holds; never less, and near it where that is much
};

// The bytes that callers are told to allocate for so many: a multiple of 256, as C11's aligned_alloc demands.
std::size_t buffer_bytes(std::size_t bytes);

// TCONV_FORCE_KERNEL, read once: getenv while another thread calls setenv is a race. Empty: not set.
const std::string& kernel_of_environment();

// Refuses an invalid problem, an unknown forced name, and a forced kernel that does not support the problem.
// options.force_kernel wins over environment, which leaves plans of the devices alone that its kernel does
// not run on.
core::Result<Plan> make_plan(const core::Problem&, const core::DeviceInfo&, const PlanOptions&,
                             const std::string& environment = kernel_of_environment());

// Every entry that supports the problem, in order; the check of "all kernels" walks these.
std::vector<const KernelEntry*> supporting(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);

// What there is to say of a plan, in order: problem, device, kernel, config, its stages, note, refused.
struct Explained {
  std::string label, words;
  bool stage = false;
};
std::vector<Explained> explained(const Plan& plan);
std::string explain(const Plan& plan);  // a line each

// Packs and runs. Pointers must be valid; sizes are checked. Operands.weight is what pack() wrote where
// packed is set, else raw.
core::Status pack(const Plan& plan, const void* weight, void* packed, const RunContext& context);
core::Status run(const Plan& plan, const Operands& operands, bool packed, const RunContext& context,
                 std::size_t workspace_bytes);

}  // namespace tconv::plan
