#include "cuda/sm80/window.hpp"

#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/window_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

WindowFunctions functions_of(Arithmetic arithmetic) {
  return by_arithmetic(arithmetic, window_tf32, window_ieee, window_f16, window_bf16)();
}

// What an operand's address allows.
WindowPieces narrowed(const WindowPieces& pieces, const void* operand, int element) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand) % 16);
  const int bytes = window_copy_bytes(pieces.copy, element);
  if (address % bytes == 0) return pieces;
  return window_pieces(int64_t{pieces.pieces} * bytes, address, element);
}

class WindowKernel final : public plan::Kernel {
 public:
  WindowKernel(const Problem& problem, const core::DeviceInfo& device, const WindowPlan& plan)
      : problem_(problem), device_(device), plan_(plan), functions_(functions_of(arithmetic_of(problem))) {}

  std::string describe() const override { return cuda::describe(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override { return cuda::stages(plan_, problem_); }
  std::string where(int64_t element) const override { return cuda::where(plan_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Window.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    WindowParams params = plan_.params;
    params.dy = operands.grad_output;
    params.weight = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.dx = operands.output;
    const auto element = static_cast<int>(size_of(problem_.dtype));
    params.weight_pieces = narrowed(params.weight_pieces, operands.weight, element);
    params.dy_pieces = narrowed(params.dy_pieces, operands.grad_output, element);
    return launcher.run(
        functions_.tiles[plan_.config.tile],
        {plan_.blocks, kWindowThreads, static_cast<std::size_t>(plan_.shared_bytes), params.splits}, params);
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  WindowPlan plan_;
  WindowFunctions functions_;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = window_refusal(p, device); !words.empty()) return Support::no(std::move(words));
  if (options.force_kernel == kSm80Window.name) return Support::yes();
  return supports_choice(kSm80Window, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<WindowKernel>(problem, device,
                                        window_plan(problem, device, options.batch_invariant));
}

}  // namespace

std::unique_ptr<const plan::Kernel> window_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                  const WindowConfig& config) {
  const WindowPlan plan = window_plan_of(problem, device, config);
  return plan.blocks > 0 ? std::make_unique<WindowKernel>(problem, device, plan) : nullptr;
}

const plan::KernelEntry kSm80Window = {
    .name = "cuda.sm80.window",
    .summary = "strided products in one launch, raw weights and dy in place",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true,
    .strided_bias = true};

}  // namespace tconv::cuda
