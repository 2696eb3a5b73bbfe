#include "cuda/sm80/dense.hpp"

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/host/zero.hpp"
#include "cuda/plan/form_kernel.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

class Sm80Dense final : public FormKernel<Sm80Plan> {
 public:
  Sm80Dense(const Problem& problem, const core::DeviceInfo& device, const Sm80Plan& plan)
      : FormKernel(kSm80Dense.name, problem, device, plan),
        functions_(by_arithmetic(plan_.mode, sm80_tf32, sm80_ieee, sm80_f16, sm80_bf16, sm80_f64)()) {
    plan_.params.deep = form_.deep;
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(planes_at() + form_.planes_bytes);
  }

  Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Dense.name, asked_, device_, context);
    const Sm80Params& k = plan_.params;
    const int64_t units = int64_t{k.groups} * k.row_tiles * k.slabs * k.taps * kSm80Steps * kSm80RowTileUnits;
    unsigned char* marks = static_cast<unsigned char*>(packed) + plan_.marks_at;
    if (plan_.mode == Arithmetic::ieee) {
      Status status = zero(launcher, marks, static_cast<std::size_t>(plan_.packed_bytes - plan_.marks_at));
      if (!status.ok()) return status;
    }
    Sm80PackParams params{};
    params.weight = weight;
    params.packed = packed;
    params.marks = marks;
    params.units = units;
    params.steps = form_.weights;
    params.cin_group = k.cin_group;
    params.cout_group = k.cout_group;
    params.k = static_cast<int>(problem_.k);
    params.phases = k.phases;
    params.taps = k.taps;
    params.tap_stride = static_cast<int>(plan_.phases.tap_stride);
    params.slabs = k.slabs;
    params.row_tiles = k.row_tiles;
    const int64_t blocks = std::min<int64_t>(ceil_div(units, 256), 1 << 20);
    return launcher.run(functions_.pack, {blocks, 256}, params);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm80Dense.name, asked_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    Sm80Params params = plan_.params;
    status = form_input(form_, asked_, launcher, operands, context.workspace + planes_at(),
                        {context.just_packed, false}, params.x);
    if (!status.ok()) return status;
    params.packed = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    params.output = params.partial ? context.workspace : operands.output;
    const auto tile = static_cast<std::size_t>(plan_.config.tile);
    status = launcher.run(functions_.tiles[tile],
                          {plan_.blocks, kSm80Tiles[tile].threads(), plan_.shared_bytes}, params);
    if (status.ok() && params.partial) {
      status =
          sum_partials(launcher, problem_, operands, context.workspace, sm80_sum_params(plan_, problem_));
    }
    return status.ok() ? store_bias_alone(launcher, asked_, operands, BiasStored::none) : status;
  }

 private:
  // The workspace holds partial sums, then planes.
  int64_t planes_at() const { return round_up<int64_t>(plan_.partial_bytes, 256); }

  Sm80Functions functions_;
};

Support supports(const Problem& asked, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = no_transposed_form(asked); !words.empty()) return Support::no(std::move(words));
  const Problem p = transposed_form(asked).product;
  if (std::string words = no_mma(device); !words.empty()) return Support::no(std::move(words));
  const Support takes = tensor_supports(p);
  if (!takes.ok) return takes;
  if (std::string few = too_few_terms(asked); !few.empty()) return Support::no(std::move(few));
  if (options.force_kernel == kSm80Dense.name) return Support::yes();
  return supports_choice(kSm80Dense, asked, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<Sm80Dense>(
      problem, device, sm80_plan(transposed_form(problem).product, device, options.batch_invariant));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm80_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                const Sm80Config& config) {
  return std::make_unique<Sm80Dense>(problem, device,
                                     sm80_plan_of(transposed_form(problem).product, device, config));
}

const plan::KernelEntry kSm80Dense = {.name = "cuda.sm80.dense",
                                      .summary = "implicit matrix product on tensor cores (mma.sync)",
                                      .device = core::DeviceKind::cuda,
                                      .supports = supports,
                                      .make = make,
                                      .y_steps = true,
                                      .strided_bias = true};

}  // namespace tconv::cuda
