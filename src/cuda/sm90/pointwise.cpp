#include "cuda/sm90/pointwise.hpp"

#include "cuda/host/tensor_map.hpp"
#include "cuda/sm80/pointwise_operands.hpp"
#include "cuda/sm80/raw_kernel.hpp"
#include "cuda/sm80/raw_plan.hpp"
#include "cuda/sm90/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using core::Status;

constexpr int64_t kBoundary = 16;  // bytes

Status set_maps(Sm90PointwiseParams& k, const PointwisePlan& plan, const Problem& p) {
  const auto element = static_cast<int>(size_of(p.dtype));
  const int slab = kPointwiseSlabBytes / element, wide = 128 / element;
  // A dimension of size one may have any step.
  const int64_t row = k.depth * k.groups > 1 ? k.x_step[1] * element : kBoundary;
  const int64_t sample = p.n > 1 ? k.x_step[0] * element : kBoundary;
  Status status = make_tensor_map({.address = k.x,
                                   .element = element,
                                   .sizes = {k.l, k.depth, k.groups, p.n},
                                   .steps = {row, row * k.depth, sample},
                                   .box = {wide, slab, 1, 1},
                                   .swizzled = true},
                                  k.x_map);
  if (!status.ok()) return status;
  const int64_t inner = plan.turned ? k.rows : k.depth, outer = plan.turned ? k.depth : k.rows;
  return make_tensor_map({.address = k.weight,
                          .element = element,
                          .sizes = {inner, outer, k.groups, 1},
                          .steps = {inner * element, inner * outer * element, kBoundary},
                          .box = {plan.turned ? wide : slab, plan.turned ? slab : plan.tile_rows, 1, 1},
                          .swizzled = true,
                          .rounded = element == 4},
                         k.weight_map);
}

class Kernel final : public plan::Kernel {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const PointwisePlan& plan)
      : problem_(problem),
        device_(device),
        plan_(plan),
        functions_(by_arithmetic(arithmetic_of(problem), sm90_pointwise_tf32, sm90_pointwise_f16,
                                 sm90_pointwise_bf16)()) {}

  std::string describe() const override { return cuda::describe(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override;
  std::string where(int64_t element) const override { return cuda::where(plan_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Pointwise.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    Sm90PointwiseParams params{plan_.params, {}, {}};
    params.weight = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    set_pointwise_operands(params, problem_, operands);
    const bool threads_copy = params.x_copy < kBoundary || params.weight_copy < kBoundary;
    if (!threads_copy) status = set_maps(params, plan_, problem_);
    if (!status.ok()) return status;
    return launcher.run(
        functions_.tiles[threads_copy][plan_.turned][plan_.config.tile],
        {plan_.blocks, kPointwiseThreads, static_cast<std::size_t>(plan_.shared_bytes), params.splits},
        params);
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  PointwisePlan plan_;
  Sm90PointwiseFunctions functions_;
};

std::vector<plan::StageLine> Kernel::stages() const {
  const PointwiseParams& k = plan_.params;
  const int element = static_cast<int>(size_of(problem_.dtype));
  const std::string made = element == 2 ? "" : plan_.turned ? ", rounded and then turned there" : ", rounded";
  return {
      cluster_schedule_line(k.splits, plan_.blocks, k.rows_first),
      {"source",
       "rows as they lie in memory, by tensor copies (by threads, one stage at a time, if x or the weights "
       "do not begin on 16 bytes): " +
           std::to_string(k.stages) + " stages of " + std::to_string(kPointwiseSlabBytes / element) +
           " channels"},
      {"weights", "raw, likewise into the same stages" + made},
      {"product", "wgmma, x in registers"},
      epilogue_line(problem_),
      staged_writer_line(k.splits)};
}

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = sm90_pointwise_refusal(p, device); !words.empty()) {
    return plan::Support::no(std::move(words));
  }
  if (options.force_kernel == kSm90Pointwise.name) return plan::Support::yes();
  return supports_choice(kSm90Pointwise, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  return std::make_unique<Kernel>(problem, device,
                                  sm90_pointwise_plan(problem, device, options.batch_invariant));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_pointwise_kernel(const Problem& problem,
                                                          const core::DeviceInfo& device,
                                                          const PointwiseConfig& config) {
  if (!sm90_pointwise_refusal(problem, device).empty()) return nullptr;
  const PointwisePlan plan = sm90_pointwise_plan_of(problem, device, config);
  return plan.blocks > 0 ? std::make_unique<Kernel>(problem, device, plan) : nullptr;
}

const plan::KernelEntry kSm90Pointwise = {
    .name = "cuda.sm90.pointwise",
    .summary = "pointwise layers in one launch by wgmma, raw weights, rows on 16 bytes",
    .device = core::DeviceKind::cuda,
    .supports = supports,
    .make = make,
    .y_steps = true,
    .strided_bias = true};

}  // namespace tconv::cuda
