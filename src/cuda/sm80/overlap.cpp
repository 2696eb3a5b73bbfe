#include "cuda/sm80/overlap.hpp"

#include "cuda/host/phases.hpp"
#include "cuda/sm80/overlap_plan.hpp"
#include "cuda/sm80/raw_kernel.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

// The widest copies that an operand's address allows.
OverlapCopy narrowed(OverlapCopy copy, const void* operand) {
  const auto address = reinterpret_cast<uintptr_t>(operand);
  if (copy == OverlapCopy::vector && address % 16 != 0) copy = OverlapCopy::word;
  if (copy == OverlapCopy::word && address % 4 != 0) copy = OverlapCopy::element;
  return copy;
}

struct OverlapFamily {
  using Plan = OverlapPlan;
  using Params = OverlapParams;
  static constexpr const plan::KernelEntry& kEntry = kSm80Overlap;
  static constexpr int kThreads = kOverlapThreads;

  static std::string refusal(const Problem& p, const core::DeviceInfo& device,
                             const plan::PlanOptions& options) {
    if (std::string words = overlap_refusal(p, device); !words.empty()) return words;
    const Phases f = phases_of(p);
    // A tile of one sample may have no room for the halo.
    if (options.batch_invariant && (f.taps - 1) * f.step > kOverlapTiles[kOverlapTallTile].columns / 2) {
      return "its taps do not fit in a tile";
    }
    if (options.batch_invariant && arithmetic_of(p) == Arithmetic::ieee) {
      return "tiny numbers change how other samples in the same tile are computed";
    }
    return "";
  }
  static Plan plan(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
    return overlap_plan(p, device, batch_invariant);
  }
  static OverlapFunctions functions(Arithmetic arithmetic) {
    return by_arithmetic(arithmetic, overlap_tf32, overlap_ieee, overlap_f16, overlap_bf16)();
  }
  static auto function(const OverlapFunctions& functions, const Plan& plan) {
    return functions.tiles[plan.config.tile];
  }
  static int64_t shared_bytes(const Plan& plan, const Problem& p) {
    return overlap_shared_bytes(plan.config.tile, static_cast<int>(size_of(p.dtype)));
  }
  static void set_operands(Params& params, const Problem&, const plan::Operands& operands) {
    params.x = operands.x;
    params.y = operands.output;
    params.weight_copy = narrowed(params.weight_copy, operands.weight);
    params.x_copy = narrowed(params.x_copy, operands.x);
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> overlap_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                   const OverlapConfig& config) {
  return raw_kernel_of<OverlapFamily>(problem, device, overlap_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Overlap = {
    "cuda.sm80.overlap", "raw weights once on tensor cores, products overlap-added", core::DeviceKind::cuda,
    raw_supports<OverlapFamily>, make_raw<OverlapFamily>};

}  // namespace tconv::cuda
