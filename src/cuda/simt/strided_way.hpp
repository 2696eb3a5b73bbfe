// What the ways of cuda.simt.strided have in common, however they cut the work: what they are told of a
// problem, and the kernel object.
#pragma once

#include <algorithm>
#include <string>

#include "cuda/host/launch.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"
#include "cuda/simt/strided.hpp"

namespace tconv::cuda::simt {

inline void set_operands(StridedOperands& a, const core::Problem& p, const plan::Operands& operands) {
  a.dy = operands.grad_output, a.weight = operands.weight, a.dx = operands.output;
  a.bias = p.has_bias ? operands.bias : nullptr;
  std::ranges::copy(p.y_steps(), a.dy_step);
  a.l = p.l, a.lout = p.lout(), a.k = p.k;
  a.stride = p.stride, a.padding = p.padding, a.dilation = p.dilation;
  a.cin = p.cin, a.cin_group = p.cin_per_group(), a.cout_group = p.cout_per_group(), a.groups = p.groups;
}

// Which output an element of dx is; row: of the group's channels.
struct StridedOutput {
  int64_t n, group, row, i;
};
inline StridedOutput strided_output(const core::Problem& p, int64_t element) {
  const int64_t ci = element / p.l % p.cin;
  return {element / p.l / p.cin, ci / p.cin_per_group(), ci % p.cin_per_group(), element % p.l};
}

// Config: has text(), and holder_of() takes it.
template <class Config>
class StridedWay : public plan::Kernel {
 public:
  StridedWay(const core::Problem& problem, const core::DeviceInfo& device, const Config& config)
      : problem_(problem), device_(device), config_(config) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }
  std::string where(int64_t element) const override {
    return element_text(problem_, element) + "; " + cuda::text(holder_of(config_, problem_, element));
  }
  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const final {
    const Launcher launcher(kSimtStrided.name, problem_, device_, context);
    const core::Status status = launcher.check(operands);
    return status.ok() ? launch(launcher, operands) : status;
  }

 protected:
  virtual core::Status launch(const Launcher& launcher, const plan::Operands& operands) const = 0;

  core::Problem problem_;
  core::DeviceInfo device_;
  Config config_;
};

}  // namespace tconv::cuda::simt
