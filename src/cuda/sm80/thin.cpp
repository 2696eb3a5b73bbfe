#include "cuda/sm80/thin.hpp"

#include "cuda/sm80/raw_kernel.hpp"
#include "cuda/sm80/thin_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

struct ThinFamily {
  using Plan = ThinPlan;
  using Params = ThinParams;
  static constexpr const plan::KernelEntry& kEntry = kSm80Thin;
  static constexpr int kThreads = kThinThreads;

  static std::string refusal(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions&) {
    return thin_refusal(p, device);
  }
  // No sum depends on the plan.
  static Plan plan(const Problem& p, const core::DeviceInfo& device, bool) { return thin_plan(p, device); }
  static ThinFunctions functions(Arithmetic arithmetic) {
    return by_arithmetic<ThinFunctions (*)()>(arithmetic, thin_tf32, thin_ieee, thin_f16, thin_bf16)();
  }
  static auto function(const ThinFunctions& functions, const Plan& plan) {
    return functions.of_rows[plan.params.out_stride > 1][plan.config.row_tiles - 1];
  }
  static int64_t shared_bytes(const Plan& plan, const Problem&) { return plan.shared_bytes; }
  static void set_operands(Params& params, const Problem& p, const plan::Operands& operands) {
    params.source = p.operation == core::Operation::strided ? operands.grad_output : operands.x;
    params.output = operands.output;
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> thin_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                const ThinConfig& config) {
  return raw_kernel_of<ThinFamily>(problem, device, thin_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Thin = {.name = "cuda.sm80.thin",
                                     .summary = "few channels along many positions (mma.sync)",
                                     .device = core::DeviceKind::cuda,
                                     .supports = raw_supports<ThinFamily>,
                                     .make = make_raw<ThinFamily>,
                                     .y_steps = true,
                                     .strided_bias = true};

}  // namespace tconv::cuda
