#include "cuda/simt/longk.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::DeviceInfo;
using core::Problem;
using core::Status;
using plan::PlanOptions;

class LongkKernel final : public plan::Kernel {
 public:
  LongkKernel(const Problem& problem, const DeviceInfo& device, const PlanOptions& options)
      : problem_(problem),
        device_(device),
        config_(plan_narrow(problem, device, options.batch_invariant, true)) {}

  std::size_t workspace_bytes() const override {
    if (config_.splits == 1) return 0;
    const int64_t sum = problem_.dtype == core::DType::f64 ? 8 : 4;
    return static_cast<std::size_t>(config_.splits * problem_.y_elements() * sum);
  }

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::vector<plan::StageLine> stages() const override { return simt::stages(config_, problem_); }
  std::string where(int64_t element) const override { return simt::where(config_, problem_, element); }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtLongk.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    const bool split = config_.splits > 1;
    status = launch_narrow(launcher, problem_, config_, operands, split ? context.workspace : nullptr);
    if (status.ok() && split) status = sum(launcher, operands, context);
    return status.ok() ? store_bias_alone(launcher, problem_, operands, BiasStored::none) : status;
  }

 private:
  Status sum(const Launcher& launcher, const plan::Operands& operands,
             const plan::RunContext& context) const {
    return sum_partials(
        launcher, problem_.dtype, Parts::accumulator,
        flat_sum_params(problem_, operands, context.workspace, static_cast<int>(config_.splits)));
  }

  Problem problem_;
  DeviceInfo device_;
  NarrowConfig config_;
};

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = narrow_refusal(p, device); !words.empty()) return plan::Support::no(words);
  const NarrowConfig config = plan_narrow(p, device, options.batch_invariant, true);
  // Any split is safe, but a bad one is useless: the partial sums must fit in the device's memory.
  const int64_t partial = config.splits * p.y_elements() * 8;
  if (config.splits > 1 && partial > int64_t{1} << 32) {
    return plan::Support::no("partial sums of " + std::to_string(partial) + " bytes");
  }
  if (options.force_kernel == kSimtLongk.name) return plan::Support::yes();
  return supports_choice(kSimtLongk, p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtLongk = {"cuda.simt.longk", "few outputs, the reduction cut over blocks",
                                      core::DeviceKind::cuda, simt::supports,
                                      simt::make_kernel<simt::LongkKernel>};

}  // namespace tconv::cuda
