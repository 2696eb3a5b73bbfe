// Choosing, explaining and forcing kernels. A plan is a pure function of its arguments; one of them is the
// kernel that TCONV_FORCE_KERNEL named when the process first read it.
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

// What a kernel holds: the object and its small tables. Plan::host_bytes() counts one; a kernel that has
// others reports them in its table_bytes().
inline constexpr std::size_t kKernelBytes = 4096;

struct Plan {
  core::Problem problem;
  core::DeviceInfo device;
  PlanOptions options;
  const KernelEntry* entry = nullptr;
  std::unique_ptr<const Kernel> kernel;
  std::vector<Refused> refused;  // entries of this device before the chosen one
  std::string note = {};         // why the environment's kernel was not used, if it was not
  bool copies = false;           // operands that are not contiguous are copied first (with_copies.hpp)
  const KernelEntry* bias_entry = nullptr;  // runs behind `entry` and computes the gradient of the bias

  std::string name() const;  // of the entry, or of both: "cuda.sm90.weight_rows + cuda.simt.bias"

  // Bytes that pack() writes: the kernel's layout or, if the kernel reads raw weights, a copy of them. 0 if
  // the operation reads no weights.
  std::size_t packed_bytes() const;
  std::string pack_key() const;
  // Whether packed weights differ from raw ones in layout, so that runs with the two take different times.
  bool packs() const { return kernel->packed_bytes() > 0; }
  // Bytes that run() touches; 0 if the output is empty.
  std::size_t workspace_bytes(bool packed_weights) const;
  std::size_t host_bytes() const;  // what the plan holds: never too low, and close if it is much
};

// `bytes` as callers are told to allocate them: a multiple of 256, as C11's aligned_alloc demands.
std::size_t buffer_bytes(std::size_t bytes);

// TCONV_FORCE_KERNEL, read once: getenv while another thread calls setenv is a race. Empty: not set.
const std::string& kernel_of_environment();

// Refuses an invalid problem, an unknown forced name, and a forced kernel that does not support the problem.
// options.force_kernel wins over the environment, which affects only plans for the device of its kernel.
core::Result<Plan> make_plan(const core::Problem&, const core::DeviceInfo&, const PlanOptions&,
                             const std::string& environment = kernel_of_environment());

// Every entry that supports the problem, in order; the check of "all kernels" walks these.
std::vector<const KernelEntry*> supporting(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);

// All that describes a plan, in order: problem, device, kernel, config, stages, note, refused.
struct Explained {
  std::string label, words;
  bool stage = false;
};
std::vector<Explained> explained(const Plan& plan);
std::string explain(const Plan& plan);  // one line for each

// Packs and runs. Pointers must be valid; sizes are checked. Operands.weight is what pack() wrote if
// packed is set, otherwise raw.
core::Status pack(const Plan& plan, const void* weight, void* packed, const RunContext& context);
core::Status run(const Plan& plan, const Operands& operands, bool packed, const RunContext& context,
                 std::size_t workspace_bytes);

}  // namespace tconv::plan
