#include "cuda/sm90/weight.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/tensor_map.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// x as (L, Cin, N), in boxes of 128 bytes of positions. A dimension of one has any step.
Status set_map(Sm90WeightParams& params, const Problem& p) {
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  const int64_t channel = p.cin > 1 ? params.k.x_step[1] * element : 16;
  const int64_t sample = p.n > 1 ? params.k.x_step[0] * element : 16;
  return make_tensor_map({params.k.x,
                          static_cast<int>(element),
                          {p.l, p.cin, p.n, 1},
                          {channel, sample, 16},
                          {static_cast<int>(kSm90WeightBlock / element), params.box_rows, 1, 1},
                          true,
                          element == 4},
                         params.map);
}

class Kernel final : public WeightKernel<Sm90WeightPlan> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const Sm90WeightPlan& plan)
      : WeightKernel(problem, device, plan),
        functions_(by_arithmetic(plan.mode, sm90_weight_tf32, sm90_weight_f16, sm90_weight_bf16)()),
        sums_(by_arithmetic(plan.mode, weight_tf32, weight_f16, weight_bf16)()) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(plan_.part_bytes); }
  std::string describe() const override { return cuda::describe(plan_); }
  std::vector<plan::StageLine> stages() const override;
  std::string where(int64_t element) const override {
    return weight_where(plan_.params.k, kSm90WeightShapeTable[plan_.config.shape].columns, problem_, element);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Weight.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    Sm90WeightParams params = plan_.params;
    params.k.x = operands.x;
    params.k.y = operands.grad_output;
    params.k.output = params.k.direct ? operands.output : context.workspace;
    params.tensor = params.tensor && reinterpret_cast<uintptr_t>(operands.x) % 16 == 0 && params.k.stages > 0;
    if (params.tensor) status = set_map(params, problem_);
    if (!status.ok()) return status;
    const Sm90WeightShape& shape = kSm90WeightShapeTable[plan_.config.shape];
    status = launcher.run(functions_.shapes[plan_.config.shape],
                          {plan_.blocks, kSm90WeightThreads, plan_.shared_bytes}, params);
    if (!status.ok() || params.k.direct) return status;
    return sum_weight_parts(launcher, sums_.sum,
                            weight_sum_params(params.k, shape.columns, shape.rows(), plan_.dw_elements),
                            operands, context);
  }

 private:
  Sm90WeightFunctions functions_;
  WeightFunctions sums_;  // of cuda.sm80.weight, whose partial sums lie alike
};

std::vector<plan::StageLine> Kernel::stages() const {
  using std::to_string;
  const WeightParams& k = plan_.params.k;
  const Sm90WeightShape& shape = kSm90WeightShapeTable[plan_.config.shape];
  return {
      {"schedule", "a block a tile of " + to_string(k.tiles) + " (" + to_string(k.block_couts) + " co, " +
                       to_string(k.block_phases) + " phases, " + to_string(k.block_taps) + " taps x " +
                       to_string(shape.columns) + " ci) and split of " + to_string(k.splits)},
      {"source", to_string(plan_.params.slots) + " slots of " + to_string(k.stage_pieces) + " x " +
                     to_string(k.piece) + " positions: x by " +
                     (plan_.params.tensor ? "tensor copies" : "elements") + ", dy by asynchronous copies"},
      {"operand",
       std::string("dy in registers, a tap a place in its rows; x in shared memory; ") + name_of(plan_.mode)},
      {"product", "wgmma over positions, " + to_string(kSm90WeightWarpgroups) + " warpgroups of " +
                      to_string(64 * shape.row_blocks) + " x " + to_string(shape.columns) + ", sums of " +
                      to_string(k.chain) + " stages"},
      epilogue_line(problem_),
      tiles_writer_line("16 columns of 16 rows at a time through shared memory", k.direct, k.splits)};
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (Support runs = weight_runs(p, no_wgmma(device)); !runs.ok) return runs;
  if (Support takes = sm90_weight_supports(p); !takes.ok) return takes;
  return supports_searched(
      kSm90Weight, p, device, options, [&] { return sm90_weight_search(p, device).blocks > 0; },
      "no two stages fit in shared memory");
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_weight_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                       const Sm90WeightConfig& config) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_plan_of(problem, device, config));
}

const plan::KernelEntry kSm90Weight = {.name = "cuda.sm90.weight",
                                       .summary = "weight gradient on Hopper's tensor cores (wgmma)",
                                       .device = core::DeviceKind::cuda,
                                       .supports = supports,
                                       .make = make,
                                       .y_steps = true};

}  // namespace tconv::cuda
