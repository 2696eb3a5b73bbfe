// Packing and running a plan.
#include "core/float_environment.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"

namespace tconv::plan {

using core::Code;
using core::Status;

namespace {

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
  return {Code::unsupported, "this kernel has no layout of its own: plan::pack copies"};
}

std::string Kernel::where(int64_t) const {
  return "";
}

Status Kernel::run_raw(const Operands&, const RunContext&) const {
  return {Code::unsupported, "this kernel reads packed weights"};
}

Status pack(const Plan& plan, const void* weight, void* packed, const RunContext& context) {
  const core::DefaultFloatEnvironment environment;
  if (plan.packs()) return plan.kernel->pack(weight, packed, context);
  return copy_on(plan.device, packed, weight, plan.packed_bytes(), context.stream);
}

Status run(const Plan& plan, const Operands& operands, bool packed, const RunContext& context,
           std::size_t workspace_bytes) {
  const core::DefaultFloatEnvironment environment;
  const bool pack_first = !packed && plan.packs() && operands.weight != nullptr;
  Status status = check_workspace(plan, !pack_first, context, workspace_bytes);
  if (!status.ok() || plan.problem.output_elements() == 0) return status;
  if (!pack_first) return plan.kernel->run(operands, context);
  if (plan.kernel->reads_raw()) return plan.kernel->run_raw(operands, context);
  RunContext rest = context;
  rest.workspace += buffer_bytes(plan.kernel->packed_bytes());
  rest.just_packed = true;
  RunContext once = context;
  once.pack_once = true;
  status = plan.kernel->pack(operands.weight, context.workspace, once);
  if (!status.ok()) return status;
  Operands with_packed = operands;
  with_packed.weight = context.workspace;
  return plan.kernel->run(with_packed, rest);
}

}  // namespace tconv::plan
