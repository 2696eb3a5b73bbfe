// The kernel object of plans that read raw operands in one launch (overlap, window, pointwise, thin), and how
// its entry answers.
//
// Family: Plan, kEntry, kThreads, and as static members
//   refusal(problem, device, options)               why not, or ""
//   plan(problem, device, batch_invariant)
//   functions(arithmetic)                           every instantiation
//   function(functions, plan)                       the plan's
//   shared_bytes(plan, problem)
//   set_operands(params, problem, operands)         input and output, and copies as wide as they lie
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/plan_words.hpp"
#include "cuda/plan/tensor.hpp"

namespace tconv::cuda {

template <class Family>
class RawKernel final : public plan::Kernel {
 public:
  using Plan = typename Family::Plan;

  RawKernel(const core::Problem& problem, const core::DeviceInfo& device, const Plan& plan)
      : problem_(problem),
        device_(device),
        plan_(plan),
        functions_(Family::functions(arithmetic_of(problem))) {}

  std::string describe() const override { return words_of_plan(plan_, problem_); }
  double predicted_ms() const override { return plan_.ms; }
  std::vector<plan::StageLine> stages() const override { return stages_of_plan(plan_, problem_); }
  std::string where(int64_t element) const override { return maker_in_plan(plan_, problem_, element); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(Family::kEntry.name, problem_, device_, context);
    core::Status status = launcher.check(operands);
    if (!status.ok()) return status;
    auto params = plan_.params;
    params.weight = operands.weight;
    params.bias = problem_.has_bias ? operands.bias : nullptr;
    Family::set_operands(params, problem_, operands);
    const auto shared = static_cast<std::size_t>(Family::shared_bytes(plan_, problem_));
    return launcher.run(Family::function(functions_, plan_),
                        {plan_.blocks, Family::kThreads, shared, params.splits}, params);
  }

 private:
  core::Problem problem_;
  core::DeviceInfo device_;
  Plan plan_;
  decltype(Family::functions(Arithmetic{})) functions_;
};

template <class Family>
plan::Support raw_supports(const core::Problem& p, const core::DeviceInfo& device,
                           const plan::PlanOptions& options) {
  if (std::string words = Family::refusal(p, device, options); !words.empty()) {
    return plan::Support::no(std::move(words));
  }
  if (options.force_kernel == Family::kEntry.name) return plan::Support::yes();
  return supports_choice(Family::kEntry, p, device, options);
}

template <class Family>
std::unique_ptr<const plan::Kernel> make_raw(const core::Problem& problem, const core::DeviceInfo& device,
                                             const plan::PlanOptions& options) {
  return std::make_unique<RawKernel<Family>>(problem, device,
                                             Family::plan(problem, device, options.batch_invariant));
}

// Null where the plan does not fit.
template <class Family>
std::unique_ptr<const plan::Kernel> raw_kernel_of(const core::Problem& problem,
                                                  const core::DeviceInfo& device,
                                                  const typename Family::Plan& plan) {
  return plan.blocks > 0 ? std::make_unique<RawKernel<Family>>(problem, device, plan) : nullptr;
}

}  // namespace tconv::cuda
