#include "cuda/sm90/weight_turned.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"
#include "cuda/sm90/weight_units_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

Sm90WeightTurnedFunctions functions_of(Arithmetic mode) {
  if (mode == Arithmetic::ieee) return sm90_weight_turned_ieee();
  return mode == Arithmetic::f16 ? sm90_weight_turned_f16() : sm90_weight_turned_bf16();
}

class Kernel final : public WeightKernel<Sm90WeightTurnedPlan> {
 public:
  using WeightKernel::WeightKernel;

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(plan_.part_bytes + bias_part_bytes(plan_, problem_));
  }
  std::string describe() const override { return cuda::describe(plan_); }
  std::vector<plan::StageLine> stages() const override;
  std::string where(int64_t element) const override {
    const int64_t channel = element - problem_.output_elements();
    if (channel >= 0) return unit_bias_where(channel);
    return sm90_weight_blocked_where(plan_.params, plan_.shape(), problem_, element);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90WeightTurned.name, problem_, device_, context);
    Status status = launcher.check(operands);
    Sm90WeightTurnedParams params = plan_.params;
    params.x = operands.x;
    params.y = operands.grad_output;
    params.output = operands.output;
    params.parts = context.workspace;
    if (params.sums_y) params.bias_parts = reinterpret_cast<double*>(context.workspace + plan_.part_bytes);
    if (status.ok()) status = set_maps(params.x_raw, params.x, params.x_step, params.l, params.cin_group);
    if (status.ok()) status = set_maps(params.y_raw, params.y, params.y_step, params.lout, params.cout_group);
    if (!status.ok()) return status;
    const Sm90WeightTurnedFunctions functions = functions_of(plan_.mode);
    status = launcher.run(
        functions.shapes[params.sums_y][plan_.config.shape],
        {plan_.blocks, weight_turned_threads(plan_.mode, plan_.shape()), plan_.shared_bytes}, params);
    if (!status.ok()) return status;
    return add_unit_parts(launcher, functions.sum, functions.bias, params, plan_.shape(), problem_, operands);
  }

 private:
  Status set_maps(Sm90WeightRaw& raw, const void* from, const int64_t (&steps)[3], int64_t length,
                  int64_t channels) const {
    return set_unit_maps(raw, problem_, from, steps, length, channels, 8 * raw.piece_units, false);
  }
};

std::vector<plan::StageLine> Kernel::stages() const {
  using std::to_string;
  const Sm90WeightTurnedParams& k = plan_.params;
  const Sm90WeightBlockedShape shape = plan_.shape();
  auto maps = [](const Sm90WeightRaw& raw) {
    return to_string(1 << raw.log_classes) + (raw.log_classes == 0 ? " map" : " maps");
  };
  std::vector<plan::StageLine> lines = {
      {"schedule", "a block a tile of " + to_string(k.tiles) + " (" + to_string(shape.rows()) +
                       " planes of x, shifted, x " + to_string(shape.columns) +
                       " planes of dy) and split of " + to_string(k.splits)},
      {"source", to_string(k.pieces) + " places of up to " +
                     to_string(8 * std::max(k.x_raw.piece_units, k.y_raw.piece_units)) +
                     " rows by tensor copies (x: " + maps(k.x_raw) + ", dy: " + maps(k.y_raw) + ")"},
      {"operand", std::string(k.y_planes > 1 ? "both turned, dy into its phases, " : "both turned ") + "in " +
                      to_string(k.slots) + " slots of " + to_string(k.stage_positions) + " positions; " +
                      name_of(plan_.mode)},
      {"product", "wgmma over positions, 2 warpgroups of " + to_string(64 * shape.row_blocks) + " x " +
                      to_string(shape.columns) +
                      (plan_.mode == Arithmetic::ieee ? ", sums of one stage added in float32"
                                                      : ", sums of " + to_string(k.chain) + " stages")},
      epilogue_line(problem_),
      tiles_writer_line("staged in shared memory, row by row", k.direct, k.splits)};
  if (k.sums_y) lines.push_back(unit_bias_line(k, "turn"));
  return lines;
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (Support runs = weight_runs(p, no_wgmma(device)); !runs.ok) return runs;
  if (Support takes = sm90_weight_turned_supports(p); !takes.ok) return takes;
  if (sm90_weight_turned_plan(p, device).blocks == 0)
    return Support::no("its tiles or positions are too many");
  if (options.force_kernel == kSm90WeightTurned.name) return Support::yes();
  return supports_choice(kSm90WeightTurned, p, device, options);
}

bool grad_bias(const Problem& p, const core::DeviceInfo& device) {
  return weight_runs(p, no_wgmma(device)).ok &&
         plan_sums_y(p, device, sm90_weight_turned_supports, sm90_weight_turned_plan, weight_turned_sums);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_turned_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_weight_turned_kernel(const Problem& problem,
                                                              const core::DeviceInfo& device,
                                                              const Sm90WeightTurnedConfig& config) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_turned_plan_of(problem, device, config));
}

std::string describe(const Sm90WeightTurnedPlan& plan) {
  return describe_units(plan.params, plan.shape(), plan.mode);
}

const plan::KernelEntry kSm90WeightTurned = {
    .name = "cuda.sm90.weight_turned",
    .summary = "weight gradient of long rows by wgmma, x and dy turned in shared memory",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true,
    .grad_bias = grad_bias};

}  // namespace tconv::cuda
