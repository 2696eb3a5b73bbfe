#include "plan/with_grad_bias.hpp"

#include <utility>

#include "plan/planner.hpp"

namespace tconv::plan {
namespace {

// Stages of two kernels under names that tell them apart.
void add_stages(std::vector<StageLine>& lines, const Kernel& kernel, const std::string& gradient) {
  const std::vector<StageLine> own = kernel.stages();
  for (const StageLine& line : own) lines.push_back({gradient + " " + line.stage, line.words});
  if (own.empty()) lines.push_back({gradient, kernel.describe()});
}

class WithGradBias final : public Kernel {
 public:
  WithGradBias(const core::Problem& problem, std::unique_ptr<const Kernel> weight,
               std::unique_ptr<const Kernel> bias)
      : sums_x_(problem.bias_of_x),
        weight_elements_(problem.output_elements()),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        bias_workspace_(buffer_bytes(weight_->workspace_bytes())) {}

  std::string pack_key() const override { return weight_->pack_key(); }
  std::size_t workspace_bytes() const override { return bias_workspace_ + bias_->workspace_bytes(); }
  std::size_t table_bytes() const override {
    return kKernelBytes + weight_->table_bytes() + bias_->table_bytes();
  }
  std::string describe() const override { return weight_->describe() + "; bias: " + bias_->describe(); }
  std::vector<StageLine> stages() const override {
    std::vector<StageLine> lines;
    if (weight_->stages().empty() && bias_->stages().empty()) return lines;
    add_stages(lines, *weight_, "weight");
    add_stages(lines, *bias_, "bias");
    return lines;
  }
  std::string where(int64_t element) const override {
    return element < weight_elements_ ? weight_->where(element) : bias_->where(element - weight_elements_);
  }
  double predicted_ms() const override {
    const double weight = weight_->predicted_ms(), bias = bias_->predicted_ms();
    return weight > 0 && bias > 0 ? weight + bias : 0;
  }

  // On CUDA both queue their work on one stream.
  core::Status run(const Operands& operands, const RunContext& context) const override {
    Operands of_weight = operands;
    of_weight.grad_bias = nullptr;
    core::Status status = weight_->run(of_weight, context);
    if (!status.ok()) return status;
    Operands of_bias;
    of_bias.grad_output = sums_x_ ? operands.x : operands.grad_output;
    of_bias.output = operands.grad_bias;
    RunContext behind = context;
    behind.workspace += bias_workspace_;
    return bias_->run(of_bias, behind);
  }

 private:
  bool sums_x_;
  int64_t weight_elements_;
  std::unique_ptr<const Kernel> weight_, bias_;
  std::size_t bias_workspace_;  // where it begins
};

}  // namespace

std::unique_ptr<const Kernel> with_grad_bias(const core::Problem& problem,
                                             std::unique_ptr<const Kernel> weight,
                                             std::unique_ptr<const Kernel> bias) {
  return std::make_unique<WithGradBias>(problem, std::move(weight), std::move(bias));
}

}  // namespace tconv::plan
