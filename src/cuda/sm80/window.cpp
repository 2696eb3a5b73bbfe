#include "cuda/sm80/window.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/window_plan.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"

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

// Milliseconds of the kernels behind this one, by their models and what 302 drawn layers took on an H200,
// with half of what packing their weights takes: callers pack before, or in each call.
double otherwise_ms(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
  constexpr double kSimt = 1.45, kSm80 = 2.8, kSm90 = 1.4;
  constexpr double kPackStart = 0.003, kPackMs = 1.6e-9;  // a byte of float32, or half of it
  double simt = 1e30, tensor = 1e30;
  if (simt::strided_fits(p, device)) simt = kSimt * simt::strided_ms(p, device);
  if (!no_transposed_form(p).empty()) return simt;
  const TransposedForm form = transposed_form(p);
  const Problem& f = form.product;
  if (tensor_supports(f).ok) {
    const double planes = form.planes_ms(device);
    if (device.sm == 90 && sm90_fits(f, device, batch_invariant)) {
      const double model = sm90_plan(f, device, batch_invariant).cost.total;
      if (model > 0) tensor = kSm90 * (model + planes);
    }
    const double model = sm80_plan(f, device, batch_invariant).cost.total;
    if (model > 0) tensor = std::min(tensor, kSm80 * (model + planes));
  }
  if (!batch_invariant) tensor = std::min(tensor, sm90_blocked_ms(p, device));
  const double bytes = static_cast<double>(p.weight_elements()) * 4;
  return std::min(simt, tensor + 0.5 * (kPackStart + kPackMs * bytes));
}

// Whether the model has this kernel faster than those behind it.
bool is_fastest(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
  const double ms = window_plan(p, device, batch_invariant).ms;
  // Far beyond what tensor cores reach on any layer: other plans need not be made.
  const core::Work work = core::work_of(p);
  const double rate = size_of(p.dtype) == 2 ? device.half_gflops : device.tf32_gflops;
  const double likely =
      std::max(work.bytes / std::max(1.0, device.copy_gbps), work.flops / std::max(1.0, 0.1 * rate)) * 1e-6;
  if (ms > likely * 4 + 0.1) return false;
  return ms < otherwise_ms(p, device, batch_invariant);
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = window_refusal(p, device); !words.empty()) return Support::no(std::move(words));
  if (options.force_kernel == kSm80Window.name) return Support::yes();
  Problem one = p;
  if (options.batch_invariant) one.n = 1;
  if (!is_fastest(one, device, options.batch_invariant)) {
    return Support::no("enough products for packed weights, or too few for tensor cores");
  }
  return Support::yes();
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
