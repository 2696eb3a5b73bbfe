#include "cuda/sm80/weight.hpp"

#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

class Sm80Weight final : public WeightKernel<WeightPlan> {
 public:
  Sm80Weight(const Problem& problem, const core::DeviceInfo& device, const WeightPlan& plan)
      : WeightKernel(problem, device, plan),
        functions_(
            by_arithmetic(plan.mode, weight_tf32, weight_ieee, weight_f16, weight_bf16, weight_f64)()) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(plan_.part_bytes); }
  std::string describe() const override { return cuda::describe(plan_, problem_); }
  std::vector<plan::StageLine> stages() const override;
  std::string where(int64_t element) const override {
    return weight_where(plan_.params, kWeightTileTable[plan_.config.tile].rows(), problem_, element);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Weight.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    WeightParams params = plan_.params;
    params.x = operands.x;
    params.y = operands.grad_output;
    params.output = params.direct ? operands.output : context.workspace;
    params.copy = weight_copy(problem_, operands.x);
    const WeightTile& tile = kWeightTileTable[plan_.config.tile];
    status = launcher.run(functions_.tiles[plan_.config.tile],
                          {plan_.blocks, tile.threads(), plan_.shared_bytes}, params);
    if (!status.ok() || params.direct) return status;
    return sum_weight_parts(launcher, functions_.sum,
                            weight_sum_params(params, tile.rows(), tile.columns(), plan_.dw_elements),
                            operands, context);
  }

 private:
  WeightFunctions functions_;
};

std::vector<plan::StageLine> Sm80Weight::stages() const {
  using std::to_string;
  const WeightParams& k = plan_.params;
  const WeightTile& tile = kWeightTileTable[plan_.config.tile];
  const std::string stage = to_string(k.stage_pieces) + " x " + to_string(k.piece) + " positions";
  return {{"schedule", "a block a tile of " + to_string(k.tiles) + " (" + to_string(tile.rows()) + " ci x " +
                           to_string(k.block_couts) + " co, " + to_string(k.block_phases) + " phases, " +
                           to_string(k.block_taps) + " taps) and split of " + to_string(k.splits)},
          {"source", to_string(k.slots) + " slots of " + stage +
                         " by asynchronous copies: x in the widest units that it begins on, dy in 16 bytes"},
          {"operand", std::string("raw rows, a tap a place in dy's; ") + name_of(plan_.mode)},
          {"product", "mma.sync over positions, " + to_string(tile.warp_rows) + " x " +
                          to_string(tile.warp_columns) + " warps of " + to_string(tile.mi) + " x " +
                          to_string(tile.ni) + " tiles of 16 x 8, sums of " + to_string(k.chain) + " stages"},
          epilogue_line(problem_),
          tiles_writer_line("from registers, element by element", k.direct, k.splits)};
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (Support runs = weight_runs(p, no_mma(device)); !runs.ok) return runs;
  if (Support takes = weight_supports(p); !takes.ok) return takes;
  return supports_searched(
      kSm80Weight, p, device, options, [&] { return weight_search(p, device).blocks > 0; },
      "no stage fits in shared memory");
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Sm80Weight>(problem, device, weight_plan(problem, device));
}

}  // namespace

Status sum_weight_parts(const Launcher& launcher, void (*kernel)(WeightSumParams), WeightSumParams params,
                        const plan::Operands& operands, const plan::RunContext& context) {
  params.parts = context.workspace;
  params.output = operands.output;
  const int64_t threads = int64_t{params.elements} << params.runs_shift;
  return launcher.run(kernel, {ceil_div(threads, kWeightSumThreads), kWeightSumThreads}, params);
}

std::unique_ptr<const plan::Kernel> weight_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                  const WeightConfig& config) {
  return std::make_unique<Sm80Weight>(problem, device, weight_plan_of(problem, device, config));
}

const plan::KernelEntry kSm80Weight = {"cuda.sm80.weight",
                                       "weight gradient on tensor cores (mma.sync)",
                                       core::DeviceKind::cuda,
                                       supports,
                                       make,
                                       {},
                                       true};

}  // namespace tconv::cuda
