#include "plan/planner.hpp"

#include <cstdlib>

#include "plan/registry.hpp"

namespace tconv::plan {
namespace {

using core::Code;
using core::Result;
using core::Status;

std::string forced_name(const PlanOptions& options) {
  if (!options.force_kernel.empty()) return options.force_kernel;
  const char* name = std::getenv("TCONV_FORCE_KERNEL");
  return name == nullptr ? "" : name;
}

Result<const KernelEntry*> find_forced(const std::string& name, const core::Problem& problem,
                                       const core::DeviceInfo& device, const PlanOptions& options) {
  std::string known;
  for (const KernelEntry* entry : registry()) {
    if (name != entry->name) {
      known += (known.empty() ? "" : ", ") + std::string(entry->name);
      continue;
    }
    if (entry->device != device.kind) {
      return Status(Code::unsupported,
                    "kernel " + name + " is forced, but it does not run on " + device.name);
    }
    const Support support = entry->supports(problem, device, options);
    if (support.ok) return entry;
    return Status(Code::unsupported, "kernel " + name + " is forced, but refuses: " + support.reason);
  }
  return Status(Code::invalid_argument, "force_kernel is '" + name + "': no such kernel; known are " + known);
}

Status choose(Plan& plan) {
  for (const KernelEntry* entry : registry()) {
    if (entry->device != plan.device.kind) continue;
    Support support = entry->supports(plan.problem, plan.device, plan.options);
    if (support.ok) {
      plan.entry = entry;
      return {};
    }
    plan.refused.push_back({entry, std::move(support.reason)});
  }
  std::string why;
  for (const Refused& r : plan.refused) why += std::string("; ") + r.entry->name + ": " + r.reason;
  return {Code::unsupported, "no kernel on " + plan.device.name + " takes the problem" + why};
}

std::size_t align_up(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

Status check_workspace(const Plan& plan, bool packed, const RunContext& context, std::size_t bytes) {
  const std::size_t needed = plan.workspace_bytes(packed);
  if (bytes < needed) {
    return {Code::invalid_argument,
            "workspace_bytes is " + std::to_string(bytes) + ": the plan needs " + std::to_string(needed)};
  }
  if (needed > 0 && context.workspace == nullptr) {
    return {Code::invalid_argument, "workspace is null: the plan needs " + std::to_string(needed) + " bytes"};
  }
  return {};
}

}  // namespace

Status Kernel::pack(const void*, void*, const RunContext&) const {
  return {Code::unsupported, "this kernel reads raw weights: there is nothing to pack"};
}

std::size_t Plan::workspace_bytes(bool packed_weights) const {
  const std::size_t scratch = kernel->workspace_bytes();
  return packed_weights ? scratch : align_up(kernel->packed_bytes()) + scratch;
}

Result<Plan> make_plan(const core::Problem& problem, const core::DeviceInfo& device,
                       const PlanOptions& options) {
  Status valid = validate(problem);
  if (!valid.ok()) return valid;
  Plan plan{problem, device, options, nullptr, nullptr, {}};
  if (plan.options.threads <= 0) plan.options.threads = device.threads;
  plan.options.force_kernel = forced_name(options);
  if (plan.options.force_kernel.empty()) {
    Status status = choose(plan);
    if (!status.ok()) return status;
  } else {
    Result<const KernelEntry*> entry = find_forced(plan.options.force_kernel, problem, device, plan.options);
    if (!entry.ok()) return entry.status();
    plan.entry = entry.value();
  }
  plan.kernel = plan.entry->make(problem, device, plan.options);
  return plan;
}

std::vector<const KernelEntry*> supporting(const core::Problem& problem, const core::DeviceInfo& device,
                                           const PlanOptions& options) {
  std::vector<const KernelEntry*> found;
  for (const KernelEntry* entry : registry()) {
    if (entry->device != device.kind) continue;
    PlanOptions forced = options;
    forced.force_kernel = entry->name;
    if (entry->supports(problem, device, forced).ok) found.push_back(entry);
  }
  return found;
}

std::string explain(const Plan& plan) {
  std::string out = "problem  " + text(plan.problem) + "\n";
  out += "device   " + plan.device.name + "\n";
  out += std::string("kernel   ") + plan.entry->name +
         (plan.options.force_kernel.empty() ? "" : " (forced)") + ": " + plan.entry->summary + "\n";
  out += "config   " + plan.kernel->describe() + "\n";
  for (const Refused& r : plan.refused) {
    out += std::string("refused  ") + r.entry->name + ": " + r.reason + "\n";
  }
  return out;
}

Status pack(const Plan& plan, const void* weight, void* packed, const RunContext& context) {
  return plan.kernel->pack(weight, packed, context);
}

Status run(const Plan& plan, const Operands& operands, bool packed, const RunContext& context,
           std::size_t workspace_bytes) {
  const bool pack_first = !packed && plan.kernel->packed_bytes() > 0 && operands.weight != nullptr;
  Status status = check_workspace(plan, !pack_first, context, workspace_bytes);
  if (!status.ok() || plan.problem.output_elements() == 0) return status;
  if (!pack_first) return plan.kernel->run(operands, context);
  RunContext rest = context;
  rest.workspace += align_up(plan.kernel->packed_bytes());
  RunContext once = context;
  once.pack_once = true;
  status = plan.kernel->pack(operands.weight, context.workspace, once);
  if (!status.ok()) return status;
  Operands with_packed = operands;
  with_packed.weight = context.workspace;
  return plan.kernel->run(with_packed, rest);
}

}  // namespace tconv::plan
