#include "cuda/sm80/thin_weight.hpp"

#include "cuda/host/launch.hpp"
#include "cuda/plan/plan_words.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/thin_weight_plan.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;
using plan::Support;

// The second launch is cuda.sm80.weight's. To it a part is one tile a group, of the group's ci x (k, co).
WeightSumParams sum_params(const ThinWeightParams& from, int64_t elements) {
  WeightParams k{};
  k.k = from.k, k.cin_group = from.cin_group, k.cout_group = from.cout_group;
  k.tap_stride = 1;
  k.rows = k.block_couts = from.cout_group;
  k.block_phases = 1, k.block_taps = from.k;
  k.row_tiles = k.cout_blocks = k.phase_blocks = k.tap_blocks = 1;
  k.tiles = from.groups;
  k.splits = static_cast<int>(from.walkers.value);
  return weight_sum_params(k, from.cin_group, from.k * from.cout_group, elements);
}

class Sm80ThinWeight final : public plan::Kernel {
 public:
  Sm80ThinWeight(const Problem& problem, const core::DeviceInfo& device, const ThinWeightPlan& plan)
      : problem_(problem), device_(device), plan_(plan) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(plan_.part_bytes); }
  std::string describe() const override { return words_of_plan(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override { return stages_of_plan(plan_, problem_); }
  std::string where(int64_t element) const override { return maker_in_plan(plan_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80ThinWeight.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    ThinWeightParams params = plan_.params;
    (params.rows_move ? params.columns : params.rows).from = operands.x;
    (params.rows_move ? params.rows : params.columns).from = operands.grad_output;
    params.output = context.workspace;
    const Arithmetic mode = arithmetic_of(problem_);
    const ThinWeightFunctions functions = by_arithmetic<ThinWeightFunctions (*)()>(
        mode, thin_weight_tf32, thin_weight_ieee, thin_weight_f16, thin_weight_bf16)();
    const WeightFunctions sums =
        by_arithmetic<WeightFunctions (*)()>(mode, weight_tf32, weight_ieee, weight_f16, weight_bf16)();
    status = launcher.run(functions.tiles[plan_.config.tile],
                          {plan_.blocks, kThinWeightThreads, static_cast<std::size_t>(plan_.shared_bytes)},
                          params);
    if (!status.ok()) return status;
    return sum_weight_parts(launcher, sums.sum, sum_params(params, problem_.weight_elements()), operands,
                            context);
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  ThinWeightPlan plan_;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = thin_weight_refusal(p, device); !words.empty()) {
    return Support::no(std::move(words));
  }
  if (options.force_kernel == kSm80ThinWeight.name) return Support::yes();
  return supports_choice(kSm80ThinWeight, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Sm80ThinWeight>(problem, device, thin_weight_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> thin_weight_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                       const ThinWeightConfig& config) {
  const ThinWeightPlan plan = thin_weight_plan_of(problem, device, config);
  if (plan.blocks == 0) return nullptr;
  return std::make_unique<Sm80ThinWeight>(problem, device, plan);
}

const plan::KernelEntry kSm80ThinWeight = {
    .name = "cuda.sm80.thin_weight",
    .summary = "weight gradient of few channels along many positions (mma.sync)",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true};

}  // namespace tconv::cuda
