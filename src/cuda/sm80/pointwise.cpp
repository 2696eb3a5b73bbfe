#include "cuda/sm80/pointwise.hpp"

#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

PointwiseFunctions functions_of(Arithmetic arithmetic) {
  return by_arithmetic(arithmetic, pointwise_tf32, pointwise_ieee, pointwise_f16, pointwise_bf16)();
}

int64_t address(const void* operand) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand) % 16);
}

// What an operand's address allows.
int narrowed(int copy, const void* operand, int element) {
  return address(operand) % copy == 0 ? copy : pointwise_copy(address(operand), element);
}

class PointwiseKernel final : public plan::Kernel {
 public:
  PointwiseKernel(const Problem& problem, const core::DeviceInfo& device, const PointwisePlan& plan)
      : problem_(problem), device_(device), plan_(plan), functions_(functions_of(arithmetic_of(problem))) {}

  std::string describe() const override { return cuda::describe(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override { return cuda::stages(plan_, problem_); }
  std::string where(int64_t element) const override { return cuda::where(plan_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Pointwise.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    PointwiseParams params = plan_.params;
    params.x = problem_.operation == core::Operation::strided ? operands.grad_output : operands.x;
    params.weight = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.y = operands.output;
    const auto element = static_cast<int>(size_of(problem_.dtype));
    params.x_copy = narrowed(params.x_copy, params.x, element);
    params.x_shifted = params.x_copy < 4 && address(params.x) % 4 == 0;
    params.weight_copy = narrowed(params.weight_copy, params.weight, element);
    params.vectors = params.vectors && address(params.y) == 0;
    return launcher.run(
        functions_.tiles[plan_.turned ? 1 : 0][plan_.config.tile],
        {plan_.blocks, kPointwiseThreads, static_cast<std::size_t>(plan_.shared_bytes), params.splits},
        params);
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  PointwisePlan plan_;
  PointwiseFunctions functions_;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = pointwise_refusal(p, device); !words.empty()) return Support::no(std::move(words));
  if (options.force_kernel == kSm80Pointwise.name) return Support::yes();
  return supports_choice(kSm80Pointwise, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<PointwiseKernel>(problem, device,
                                           pointwise_plan(problem, device, options.batch_invariant));
}

}  // namespace

std::unique_ptr<const plan::Kernel> pointwise_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                     const PointwiseConfig& config) {
  const PointwisePlan plan = pointwise_plan_of(problem, device, config);
  return plan.blocks > 0 ? std::make_unique<PointwiseKernel>(problem, device, plan) : nullptr;
}

const plan::KernelEntry kSm80Pointwise = {.name = "cuda.sm80.pointwise",
                                          .summary = "pointwise layers in one launch, raw weights",
                                          .device = core::DeviceKind::cuda,
                                          .supports = supports,
                                          .make = make,
                                          .y_steps = true,
                                          .strided_bias = true};

}  // namespace tconv::cuda
