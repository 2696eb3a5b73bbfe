#include "cuda/sm80/window.hpp"

#include "cuda/sm80/raw_kernel.hpp"
#include "cuda/sm80/window_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

// The widest copies that an operand's address allows.
WindowPieces narrowed(const WindowPieces& pieces, const void* operand, int element) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand) % 16);
  const int bytes = window_copy_bytes(pieces.copy, element);
  if (address % bytes == 0) return pieces;
  return window_pieces(int64_t{pieces.pieces} * bytes, address, element);
}

struct WindowFamily {
  using Plan = WindowPlan;
  using Params = WindowParams;
  static constexpr const plan::KernelEntry& kEntry = kSm80Window;
  static constexpr int kThreads = kWindowThreads;

  static std::string refusal(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions&) {
    return window_refusal(p, device);
  }
  static Plan plan(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
    return window_plan(p, device, batch_invariant);
  }
  static WindowFunctions functions(Arithmetic arithmetic) {
    return by_arithmetic(arithmetic, window_tf32, window_ieee, window_f16, window_bf16)();
  }
  static auto function(const WindowFunctions& functions, const Plan& plan) {
    return functions.tiles[plan.config.tile];
  }
  static int64_t shared_bytes(const Plan& plan, const Problem&) { return plan.shared_bytes; }
  static void set_operands(Params& params, const Problem& p, const plan::Operands& operands) {
    const auto element = static_cast<int>(size_of(p.dtype));
    params.dy = operands.grad_output;
    params.dx = operands.output;
    params.weight_pieces = narrowed(params.weight_pieces, operands.weight, element);
    params.dy_pieces = narrowed(params.dy_pieces, operands.grad_output, element);
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> window_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                  const WindowConfig& config) {
  return raw_kernel_of<WindowFamily>(problem, device, window_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Window = {
    .name = "cuda.sm80.window",
    .summary = "strided products in one launch, raw weights and dy in place",
    .device = core::DeviceKind::cuda,
    .supports = raw_supports<WindowFamily>,
    .make = make_raw<WindowFamily>,
    .y_steps = true,
    .strided_bias = true};

}  // namespace tconv::cuda
