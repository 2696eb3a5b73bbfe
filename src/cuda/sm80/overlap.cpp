#include "cuda/sm80/overlap.hpp"

#include <algorithm>

#include "cuda/host/launch.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/overlap_plan.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "cuda/sm90/few_couts.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

OverlapFunctions functions_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f16:
      return overlap_f16();
    case Arithmetic::bf16:
      return overlap_bf16();
    default:
      return overlap_tf32();
  }
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

// Milliseconds of the kernels behind this one, whose models are corrected by what they took on 44 problems of
// few positions on an H200, with half of what packing their weights takes: callers pack before, or in each
// call.
double tensor_ms(const Problem& p, const core::DeviceInfo& device) {
  double ms = 1e30;
  if (device.sm == 90) {
    const double model = sm90_plan(p, device, false).cost.total;
    if (model > 0) ms = std::max(0.8 * model, 1.3 * model - 0.010);
  }
  const double model = sm80_plan(p, device, false).cost.total;
  if (model > 0) ms = std::min(ms, std::max(model, 2.3 * model - 0.008));
  ms = std::min(ms, sm90_blocked_ms(p, device));
  constexpr double kPackStart = 0.003, kPackMs = 1.6e-9;  // a byte of float32, or half of it
  const double bytes = static_cast<double>(p.weight_elements()) * static_cast<double>(size_of(p.dtype));
  return ms + 0.5 * (kPackStart + kPackMs * bytes);
}
double simt_ms(const Problem& p, const core::DeviceInfo& device) {
  const core::Work work = core::work_of(p);
  const double memory = work.bytes / std::max(1.0, device.copy_gbps) * 1e-6;
  const bool columns = p.cout_per_group() * std::min(p.k, p.stride) >= 32;  // for cuda.simt.dense
  return 0.003 + std::max(memory, columns ? work.flops / 30e9 + 0.009 : work.flops / 8e9);
}

// Whether the model has this kernel faster than those behind it.
bool is_fastest(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
  const double ms = overlap_plan(p, device, batch_invariant).ms;
  constexpr double kLeast = 0.007;  // of kernels that pack
  const bool tensor = p.cin_per_group() >= 16 &&
                      (p.cout_per_group() >= 16 || sm90_takes_few_couts(p, device, batch_invariant));
  if (!tensor) return ms < simt_ms(p, device);
  if (ms < kLeast) return true;
  // Far beyond what tensor cores reach on any layer: their plans need not be made.
  const core::Work work = core::work_of(p);
  const double rate = size_of(p.dtype) == 2 ? device.half_gflops : device.tf32_gflops;
  const double likely =
      std::max(work.bytes / std::max(1.0, device.copy_gbps), work.flops / std::max(1.0, 0.15 * rate)) * 1e-6;
  if (ms > likely * 2 + 0.06) return false;
  return ms < tensor_ms(p, device);
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = overlap_refusal(p, device); !words.empty()) return Support::no(std::move(words));
  const Phases f = phases_of(p);
  // One sample's tile may need no halo.
  if (options.batch_invariant && (f.taps - 1) * f.step > kOverlapColumns[kOverlapTiles - 1] / 2) {
    return Support::no("its taps do not fit a tile");
  }
  if (options.force_kernel == kSm80Overlap.name) return Support::yes();
  Problem one = p;
  if (options.batch_invariant) one.n = 1;
  if (!is_fastest(one, device, options.batch_invariant)) {
    return Support::no("enough positions for packed weights, or too few products for tensor cores");
  }
  return Support::yes();
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
