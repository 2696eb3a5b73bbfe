#include "cuda/sm80/pointwise.hpp"

#include "cuda/sm80/pointwise_operands.hpp"
#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm80/raw_kernel.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

struct PointwiseFamily {
  using Plan = PointwisePlan;
  using Params = PointwiseParams;
  static constexpr const plan::KernelEntry& kEntry = kSm80Pointwise;
  static constexpr int kThreads = kPointwiseThreads;

  static std::string refusal(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions&) {
    return pointwise_refusal(p, device);
  }
  static Plan plan(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
    return pointwise_plan(p, device, batch_invariant);
  }
  static PointwiseFunctions functions(Arithmetic arithmetic) {
    return by_arithmetic(arithmetic, pointwise_tf32, pointwise_ieee, pointwise_f16, pointwise_bf16)();
  }
  static auto function(const PointwiseFunctions& functions, const Plan& plan) {
    return functions.tiles[plan.turned ? 1 : 0][plan.config.tile];
  }
  static int64_t shared_bytes(const Plan& plan, const Problem&) { return plan.shared_bytes; }
  static void set_operands(Params& params, const Problem& p, const plan::Operands& operands) {
    set_pointwise_operands(params, p, operands);
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> pointwise_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                     const PointwiseConfig& config) {
  return raw_kernel_of<PointwiseFamily>(problem, device, pointwise_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Pointwise = {.name = "cuda.sm80.pointwise",
                                          .summary = "pointwise layers in one launch, raw weights",
                                          .device = core::DeviceKind::cuda,
                                          .supports = raw_supports<PointwiseFamily>,
                                          .make = make_raw<PointwiseFamily>,
                                          .y_steps = true,
                                          .strided_bias = true};

}  // namespace tconv::cuda
