#include "cuda/simt/weight.hpp"

#include <string>

#include "cuda/host/by_dtype.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"
#include "cuda/simt/split_weight.hpp"
#include "cuda/simt/weight_plan.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

class Kernel final : public SplitWeightKernel<WeightPlan, WeightFunctions> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const plan::PlanOptions&)
      : Kernel(problem, device, weight_plan(problem, device)) {}
  Kernel(const Problem& problem, const core::DeviceInfo& device, const WeightPlan& plan)
      : SplitWeightKernel(problem, device, plan,
                          by_dtype(problem.dtype, weight_f32, weight_f64, weight_f16, weight_bf16)()) {}

  std::string describe() const override {
    const WeightParams& k = plan_.params;
    return std::string("a warp ") + plan_.tile().name + " (ci x co x taps) at " +
           std::to_string(k.lane_phases) + " phases and " + std::to_string(k.lane_positions) +
           " positions, " + std::to_string(k.tile_warps) + " warps a tile; " + tiles_text();
  }
  std::vector<plan::StageLine> stages() const override {
    const WeightTile& tile = plan_.tile();
    const WeightParams& k = plan_.params;
    return {{"schedule", std::to_string(k.tile_warps) + " warps a tile of " + std::to_string(k.tiles) +
                             " and split of " + std::to_string(k.splits) + ", each " +
                             std::to_string(k.share_steps) + " steps of " + std::to_string(k.lane_positions) +
                             " positions"},
            {"source", "x and dy by elements from L1 to registers, any strides, " +
                           std::to_string(plan_.at_once()) + " steps at once"},
            {"product", "fused multiply-adds, a lane a phase and position of " + std::to_string(tile.cin) +
                            " ci x " + std::to_string(tile.cout) + " co x " + std::to_string(tile.taps) +
                            " taps; lanes and warps of a tile are added in order"},
            epilogue_line(problem_),
            writer_line("from shared memory, element by element", k.splits)};
  }

  std::string where(int64_t element) const override {
    const TileSum at = tile_sum(plan_, element);
    return block_text(element, at.tile) + ", sum " + std::to_string(at.sum) + " of phase " +
           std::to_string(at.phase) + " of its lanes";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto function = (plan_.near ? functions_.near : functions_.far)[plan_.config.tile];
    return run_as(kSimtWeight.name, function, kWeightThreads, operands, context);
  }
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = simt_refusal(p, device, core::Operation::weight); !words.empty()) {
    return Support::no(std::move(words));
  }
  if (std::string words = weight_refusal(p); !words.empty()) return Support::no(std::move(words));
  return supports_split(kSimtWeight, weight_plan(p, device), p, device, options);
}

}  // namespace

std::unique_ptr<const plan::Kernel> weight_kernel_of(const Problem& p, const core::DeviceInfo& device,
                                                     const WeightPlan& plan) {
  return std::make_unique<Kernel>(p, device, plan);
}

}  // namespace simt

const plan::KernelEntry kSimtWeight = {
    .name = "cuda.simt.weight",
    .summary = "weight gradient of few channels a group, and without tensor cores",
    .device = core::DeviceKind::cuda,
    .supports = simt::supports,
    .make = simt::make_kernel<simt::Kernel>,
    .y_steps = true};

}  // namespace tconv::cuda
