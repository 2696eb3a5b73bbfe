#include "cuda/sm80/overlap.hpp"

#include <algorithm>

#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/overlap_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

OverlapFunctions functions_of(Arithmetic arithmetic) {
  return by_arithmetic(arithmetic, overlap_tf32, overlap_ieee, overlap_f16, overlap_bf16)();
}

// What an operand's address allows.
OverlapCopy narrowed(OverlapCopy copy, const void* operand) {
  const auto address = reinterpret_cast<uintptr_t>(operand);
  if (copy == OverlapCopy::vector && address % 16 != 0) copy = OverlapCopy::word;
  if (copy == OverlapCopy::word && address % 4 != 0) copy = OverlapCopy::element;
  return copy;
}

class OverlapKernel final : public plan::Kernel {
 public:
  OverlapKernel(const Problem& problem, const core::DeviceInfo& device, const OverlapPlan& plan)
      : problem_(problem), device_(device), plan_(plan), functions_(functions_of(arithmetic_of(problem))) {}

  std::string describe() const override { return cuda::describe(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override { return cuda::stages(plan_, problem_); }
  std::string where(int64_t element) const override { return cuda::where(plan_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Overlap.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    OverlapParams params = plan_.params;
    params.x = operands.x;
    params.weight = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.y = operands.output;
    params.weight_copy = narrowed(params.weight_copy, operands.weight);
    params.x_copy = narrowed(params.x_copy, operands.x);
    const auto tile = static_cast<std::size_t>(plan_.config.tile);
    const int shared = overlap_shared_bytes(plan_.config.tile, static_cast<int>(size_of(problem_.dtype)));
    return launcher.run(functions_.tiles[tile],
                        {plan_.blocks, kOverlapThreads, static_cast<std::size_t>(shared), params.splits},
                        params);
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  OverlapPlan plan_;
  OverlapFunctions functions_;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = overlap_refusal(p, device); !words.empty()) return Support::no(std::move(words));
  const Phases f = phases_of(p);
  // One sample's tile may need no halo.
  if (options.batch_invariant && (f.taps - 1) * f.step > kOverlapTiles[kOverlapTallTile].columns / 2) {
    return Support::no("its taps do not fit a tile");
  }
  if (options.batch_invariant && arithmetic_of(p) == Arithmetic::ieee) {
    return Support::no(
        "tiny numbers change how the outputs beside them are computed, of other samples as well");
  }
  if (options.force_kernel == kSm80Overlap.name) return Support::yes();
  return supports_choice(kSm80Overlap, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<OverlapKernel>(problem, device,
                                         overlap_plan(problem, device, options.batch_invariant));
}

}  // namespace

std::unique_ptr<const plan::Kernel> overlap_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                   const OverlapConfig& config) {
  const OverlapPlan plan = overlap_plan_of(problem, device, config);
  return plan.blocks > 0 ? std::make_unique<OverlapKernel>(problem, device, plan) : nullptr;
}

const plan::KernelEntry kSm80Overlap = {"cuda.sm80.overlap",
                                        "raw weights once on tensor cores, products overlap-added",
                                        core::DeviceKind::cuda, supports, make};

}  // namespace tconv::cuda
