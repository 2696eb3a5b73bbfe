#include "cuda/sm80/pointwise.hpp"

#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm80/raw_kernel.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

int64_t address(const void* operand) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand) % 16);
}

// The widest copies that an operand's address allows.
int narrowed(int copy, const void* operand, int element) {
  return address(operand) % copy == 0 ? copy : pointwise_copy(address(operand), element);
}

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
    const auto element = static_cast<int>(size_of(p.dtype));
    params.x = p.operation == core::Operation::strided ? operands.grad_output : operands.x;
    params.y = operands.output;
    params.x_copy = narrowed(params.x_copy, params.x, element);
    params.x_shifted = params.x_copy < 4 && address(params.x) % 4 == 0;
    params.weight_copy = narrowed(params.weight_copy, params.weight, element);
    params.vectors = params.vectors && address(params.y) == 0;
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
