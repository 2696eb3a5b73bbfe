#include "cuda/sm90/weight_blocked.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/tensor_map.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// Planes of tf32 as (position, plane, part, group), in boxes of 128 bytes of positions; those of other modes
// as (8 bytes of a position, 8 planes, part, group).
Status set_map(TensorMap& map, const Sm90WeightPassOperand& o, const Sm90WeightBlockedLayout& layout, int box,
               int64_t groups) {
  const bool units = layout.unit_planes > 1;
  const int64_t row = o.row_units * 16;
  return make_tensor_map({o.to,
                          units ? 8 : 4,
                          {o.row_units * (units ? 2 : 4), o.rows, layout.parts, groups},
                          {row, o.part_units * 16, o.rows * row},
                          {units ? 2 * layout.positions : layout.positions, box / layout.unit_planes, 1, 1},
                          !units},
                         map);
}

class Kernel final : public WeightKernel<Sm90WeightBlockedPlan> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const Sm90WeightBlockedPlan& plan)
      : WeightKernel(problem, device, plan),
        functions_(by_arithmetic(
            plan.mode, plan.config.scaled ? sm90_weight_blocked_scaled_tf32 : sm90_weight_blocked_tf32,
            plan.config.scaled ? sm90_weight_blocked_scaled_ieee : sm90_weight_blocked_ieee,
            sm90_weight_blocked_f16, sm90_weight_blocked_bf16)()) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(plan_.workspace_bytes()); }
  std::string describe() const override { return cuda::describe(plan_); }
  std::vector<plan::StageLine> stages() const override;
  std::string where(int64_t element) const override {
    return sm90_weight_blocked_where(plan_.params, plan_.shape(), problem_, element);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90WeightBlocked.name, problem_, device_, context);
    Status status = launcher.check(operands);
    Sm90WeightBlockedPlan plan = plan_;
    Sm90WeightBlockedParams& params = plan.params;
    params.x = operands.x;
    params.y = operands.grad_output;
    params.output = operands.output;
    params.parts = context.workspace;
    plan.pass.x.from = operands.x;
    plan.pass.y.from = operands.grad_output;
    const std::size_t together = kSm90WeightTogether * size_of(problem_.dtype);  // bytes
    if (reinterpret_cast<uintptr_t>(operands.grad_output) % together != 0) plan.pass.y.together = false;
    plan.pass.x.to = context.workspace + plan.part_bytes;
    plan.pass.y.to = context.workspace + plan.part_bytes + plan.x_bytes;
    const Sm90WeightBlockedLayout layout = plan.layout();
    if (status.ok()) status = set_map(params.x_map, plan.pass.x, layout, params.x_box, problem_.groups);
    if (status.ok()) status = set_map(params.y_map, plan.pass.y, layout, params.y_box, problem_.groups);
    if (plan.config.scaled && status.ok()) {
      set_seen(plan, context.workspace + plan.part_bytes + plan.x_bytes + plan.y_bytes);
      plan.look.x.from = operands.x;
      plan.look.y.from = operands.grad_output;
      status = launcher.run(functions_.look,
                            {plan.look.x.blocks + plan.look.y.blocks, kSm90WeightPassThreads}, plan.look);
    }
    for (int chunk = 0; chunk < plan.chunks && status.ok(); ++chunk) {
      set_chunk(plan, chunk);
      status = launch(launcher, plan);
    }
    if (!status.ok() || params.direct) return status;
    Sm90WeightBlockedSumParams sum = sm90_weight_blocked_sum(params, plan.shape());
    sum.parts = context.workspace;
    sum.output = operands.output;
    if (sum.line_bytes > 0) {
      return launcher.run(functions_.sum_lines,
                          {sum.line_blocks, kSm90WeightSumThreads, static_cast<std::size_t>(sum.line_bytes)},
                          sum);
    }
    return launcher.run(functions_.sum,
                        {ceil_div(sum.units * sum.runs, kSm90WeightSumThreads), kSm90WeightSumThreads}, sum);
  }

 private:
  Status launch(const Launcher& launcher, const Sm90WeightBlockedPlan& plan) const {
    if (plan.params.stages > 0) {
      const Status status = launcher.run(
          functions_.pass, {plan.pass.x.blocks + plan.pass.y.blocks, kSm90WeightPassThreads}, plan.pass);
      if (!status.ok()) return status;
    }
    return launcher.run(functions_.shapes[plan.config.shape],
                        {plan.blocks, kSm90WeightBlockedThreads, plan.shared_bytes}, plan.params);
  }

  Sm90WeightBlockedFunctions functions_;
};

std::vector<plan::StageLine> Kernel::stages() const {
  using std::to_string;
  const Sm90WeightBlockedParams& k = plan_.params;
  const Sm90WeightBlockedShape shape = plan_.shape();
  const Sm90WeightBlockedLayout layout = plan_.layout();
  return {{"schedule", "a block a tile of " + to_string(k.tiles) + " (" + to_string(shape.rows()) +
                           " planes of x, shifted, x " + to_string(shape.columns) +
                           " planes of dy) and split of " + to_string(k.splits)},
          {"source", std::string(plan_.config.scaled ? "a launch finds the scale of each channel; " : "") +
                         "a pass writes planes (x: " + to_string(k.x_planes) +
                         " shifts, dy: " + to_string(k.y_planes) + " phases of a channel) in " +
                         to_string(plan_.chunks) + " chunks; then " + to_string(k.slots) + " slots of " +
                         to_string(layout.positions) + " positions by tensor copies"},
          {"operand", std::string("both in shared memory, as the pass left them; ") + arithmetic_text(plan_)},
          {"product", "wgmma over positions, 2 warpgroups of " + to_string(64 * shape.row_blocks) + " x " +
                          to_string(shape.columns) +
                          (layout.parts > 1 ? ", sums of one stage added in float32"
                                            : ", sums of " + to_string(k.chain) + " stages")},
          epilogue_line(problem_),
          k.splits == 1 && !k.direct
              ? plan::StageLine{"writer", "tiles of partial sums, from which whole lines of dw are made"}
              : tiles_writer_line("staged in shared memory, row by row", k.direct, k.splits)};
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (Support runs = weight_runs(p, no_wgmma(device)); !runs.ok) return runs;
  if (Support takes = sm90_weight_blocked_supports(p); !takes.ok) return takes;
  const Sm90WeightBlockedPlan plan = sm90_weight_blocked_plan(p, device);
  if (plan.blocks == 0) return Support::no("its planes or positions are too many");
  if (options.force_kernel == kSm90WeightBlocked.name) return Support::yes();
  return supports_choice(kSm90WeightBlocked, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_blocked_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_weight_blocked_kernel(const Problem& problem,
                                                               const core::DeviceInfo& device,
                                                               const Sm90WeightBlockedConfig& config) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_blocked_plan_of(problem, device, config));
}

const plan::KernelEntry kSm90WeightBlocked = {
    .name = "cuda.sm90.weight_blocked",
    .summary = "weight gradient of many channels by wgmma, x and dy written as operands before",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true};

}  // namespace tconv::cuda
