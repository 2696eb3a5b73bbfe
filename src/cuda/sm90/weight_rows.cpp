#include "cuda/sm90/weight_rows.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_units_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

Sm90WeightRowsFunctions functions_of(Arithmetic mode) {
  return mode == Arithmetic::ieee ? sm90_weight_rows_ieee() : sm90_weight_rows_tf32();
}

class Kernel final : public WeightKernel<Sm90WeightRowsPlan> {
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
    const Launcher launcher(kSm90WeightRows.name, problem_, device_, context);
    Status status = launcher.check(operands);
    Sm90WeightRowsParams params = plan_.params;
    params.x = operands.x;
    params.y = operands.grad_output;
    params.output = operands.output;
    params.parts = context.workspace;
    if (params.sums_y) params.bias_parts = reinterpret_cast<double*>(context.workspace + plan_.part_bytes);
    if (status.ok()) status = set_maps(params.x_raw, params.x, params.x_step, params.l, params.cin_group);
    if (status.ok()) status = set_maps(params.y_raw, params.y, params.y_step, params.lout, params.cout_group);
    if (!status.ok()) return status;
    const Sm90WeightRowsFunctions functions = functions_of(plan_.mode);
    status = launcher.run(functions.shapes[params.sums_y][plan_.config.shape],
                          {plan_.blocks, weight_rows_threads(plan_.mode), plan_.shared_bytes}, params);
    if (!status.ok()) return status;
    return add_unit_parts(launcher, functions.sum, functions.bias, params, plan_.shape(), problem_, operands);
  }

 private:
  Status set_maps(Sm90WeightRowsRaw& raw, const void* from, const int64_t (&steps)[3], int64_t length,
                  int64_t channels) const {
    return set_unit_maps(raw, problem_, from, steps, length, channels, raw.box_rows,
                         plan_.mode == Arithmetic::tf32);
  }
};

std::vector<plan::StageLine> Kernel::stages() const {
  using std::to_string;
  const Sm90WeightRowsParams& k = plan_.params;
  const Sm90WeightBlockedShape shape = plan_.shape();
  auto maps = [](const Sm90WeightRowsRaw& raw) {
    return to_string(1 << raw.log_classes) + (raw.log_classes == 0 ? " map" : " maps");
  };
  std::vector<plan::StageLine> lines = {
      {"schedule", "a block a tile of " + to_string(k.tiles) + " (" + to_string(shape.rows()) +
                       " planes of x, shifted, x " + to_string(shape.columns) +
                       " planes of dy) and split of " + to_string(k.splits)},
      {"source", "rows by tensor copies: x (" + maps(k.x_raw) + ") to " + to_string(k.slots) +
                     " slots, dy (" + maps(k.y_raw) + ") to " + to_string(k.places) + " places of " +
                     to_string(k.stage_positions) + " positions"},
      {"operand", std::string("x from its rows to registers, dy moved to planes in shared memory") +
                      (k.y_planes > 1 ? ", its phases apart; " : "; ") + name_of(plan_.mode)},
      {"product", "wgmma over positions, 2 warpgroups of " + to_string(64 * shape.row_blocks) + " x " +
                      to_string(shape.columns) +
                      (plan_.mode == Arithmetic::ieee ? ", sums of 32 positions added in float32"
                                                      : ", sums of " + to_string(k.chain) + " stages")},
      epilogue_line(problem_),
      tiles_writer_line("staged in shared memory, row by row", k.direct, k.splits)};
  if (k.sums_y) lines.push_back(unit_bias_line(k, "move"));
  return lines;
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (Support runs = weight_runs(p, no_wgmma(device)); !runs.ok) return runs;
  if (Support takes = sm90_weight_rows_supports(p); !takes.ok) return takes;
  if (sm90_weight_rows_plan(p, device).blocks == 0) return Support::no("its tiles or positions are too many");
  if (options.force_kernel == kSm90WeightRows.name) return Support::yes();
  return supports_choice(kSm90WeightRows, p, device, options);
}

bool grad_bias(const Problem& p, const core::DeviceInfo& device) {
  return weight_runs(p, no_wgmma(device)).ok &&
         plan_sums_y(p, device, sm90_weight_rows_supports, sm90_weight_rows_plan, weight_rows_sums);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_rows_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_weight_rows_kernel(const Problem& problem,
                                                            const core::DeviceInfo& device,
                                                            const Sm90WeightRowsConfig& config) {
  return std::make_unique<Kernel>(problem, device, sm90_weight_rows_plan_of(problem, device, config));
}

std::string describe(const Sm90WeightRowsPlan& plan) {
  return describe_units(plan.params, plan.shape(), plan.mode);
}

const plan::KernelEntry kSm90WeightRows = {
    .name = "cuda.sm90.weight_rows",
    .summary = "weight gradient of long rows of float32 by wgmma, x from its rows as they lie",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true,
    .grad_bias = grad_bias};

}  // namespace tconv::cuda
