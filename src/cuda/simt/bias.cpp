#include "cuda/simt/bias.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// The most elements that one sum of a thread takes, and roughly the fewest that a thread takes.
constexpr int64_t kLongest = 512, kShortest = 4;

class Kernel final : public plan::Kernel {
 public:
  Kernel(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions&)
      : problem_(p), device_(device) {
    std::ranges::copy(p.y_steps(), params_.y_step);
    params_.lout = std::max<int64_t>(1, p.lout());
    params_.cout = p.cout;
    params_.elements = p.n * p.lout();
    constexpr int64_t kTurn = int64_t{kBiasThreads} * kBiasSums;
    // By single elements 16-bit types are read at 60% of the copy rate, by lines at 95% (H200).
    const bool lines = p.y_steps()[2] == 1;
    const auto line = static_cast<int64_t>(16 / size_of(p.dtype));
    const bool aligned = p.y_steps()[0] % line == 0 && p.y_steps()[1] % line == 0;
    const int64_t before = lines && !aligned ? line - 1 : 0;  // elements of a row's first line, at most
    params_.row_turns = ceil_div(params_.lout + before, kTurn);
    // The last piece of a long row may be short.
    const bool long_rows = params_.row_turns * kTurn <= params_.lout + params_.lout / 4;
    rows_ = !long_rows ? BiasRows::any : lines ? BiasRows::lines : BiasRows::elements;
    params_.turns = long_rows ? p.n * params_.row_turns : ceil_div(params_.elements, kTurn);
    if (p.lout() == 0) params_.turns = 0;
    // Blocks that run at once: a few more would run alone (n16 cout 64 l262144 bf16, H200: 170 us, not 126).
    const int64_t wanted = std::max<int64_t>(1, int64_t{8} * std::max(1, device.sm_count) / p.cout);
    const int64_t splits = std::max(
        {int64_t{1}, ceil_div(params_.turns, kLongest), std::min(wanted, params_.turns / kShortest)});
    params_.split_turns = std::max<int64_t>(1, ceil_div(params_.turns, splits));
    params_.splits = std::max<int64_t>(1, ceil_div(params_.turns, params_.split_turns));
  }

  std::size_t workspace_bytes() const override {
    const std::size_t sum = problem_.dtype == core::DType::f64 ? 8 : 4;
    return params_.splits > 1 ? static_cast<std::size_t>(params_.splits * params_.cout) * sum : 0;
  }
  double predicted_ms() const override {
    return 1e3 * (3e-6 + work_of(problem_).bytes / (0.9 * device_.copy_gbps * 1e9) +
                  (params_.splits > 1 ? 3e-6 : 0));
  }
  std::string describe() const override {
    return "a block a channel, its elements split " + std::to_string(params_.splits) + " ways";
  }
  std::vector<plan::StageLine> stages() const override {
    return {{"schedule", "a block a channel and split of " + std::to_string(params_.splits) + ", of " +
                             std::to_string(params_.split_turns) + " turns of " +
                             std::to_string(kBiasThreads * kBiasSums) + " elements"},
            {"source", rows_ == BiasRows::lines ? "dy by lines of 16 bytes to registers"
                                                : "dy by elements to registers, any strides"},
            {"product", std::to_string(kBiasSums) + " sums a thread; a tree adds a block's"},
            epilogue_line(problem_),
            writer_line("from registers", params_.splits)};
  }

  std::string where(int64_t element) const override {
    return element_text(problem_, element) + "; " + blocks_text(element, params_.cout, params_.splits) +
           ", sums of all threads, added in thread 0";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtBias.name, problem_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    BiasParams params = params_;
    params.y = operands.grad_output;
    params.output = operands.output;
    params.parts = params.splits > 1 ? context.workspace : nullptr;
    const bool whole = reinterpret_cast<std::uintptr_t>(params.y) % 16 == 0;
    status = launcher.run(bias_function(problem_.dtype, rows_, whole),
                          {params.cout * params.splits, kBiasThreads}, params);
    if (!status.ok() || params.splits == 1) return status;
    return sum_partials(launcher, problem_.dtype, Parts::accumulator,
                        flat_sum_params(params.parts, params.output, params.cout, params.splits));
  }

 private:
  Problem problem_;
  core::DeviceInfo device_;
  BiasParams params_{};
  BiasRows rows_ = BiasRows::any;
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions&) {
  if (std::string words = simt_refusal(p, device, core::Operation::bias); !words.empty()) {
    return Support::no(std::move(words));
  }
  if (p.cout >= 1 << 30) return Support::no("more channels than a grid has blocks");
  return Support::yes();
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtBias = {.name = "cuda.simt.bias",
                                     .summary = "bias gradient: sums of rows",
                                     .device = core::DeviceKind::cuda,
                                     .supports = simt::supports,
                                     .make = simt::make_kernel<simt::Kernel>,
                                     .y_steps = true};

}  // namespace tconv::cuda
