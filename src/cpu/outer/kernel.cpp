#include <algorithm>

#include "core/checked.hpp"
#include "core/reach.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/weight/contract.hpp"
#include "cpu/weight/totals.hpp"

namespace tconv::cpu::outer {
namespace {

class OuterKernel final : public plan::Kernel {
 public:
  OuterKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem, threads)),
        total_bytes_(round_up<std::size_t>(job_.total_elements() * sizeof(double), 256)),
        slot_bytes_(total_bytes_ +
                    round_up<std::size_t>(job_.panel_elements() * accumulator_size(problem.dtype), 256)),
        partial_bytes_(round_up<std::size_t>(job_.partial_elements() * sizeof(double), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t workspace_bytes() const override { return partial_bytes_ + slot_bytes_ * threads_; }
  std::string describe() const override { return text(job_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const bool slabs = job_.config.slabs > 1;
    auto* partials = slabs ? reinterpret_cast<double*>(context.workspace) : nullptr;
    context.executor.run(task_count(job_), [&](int64_t index, int32_t slot) {
      std::byte* own = context.workspace + partial_bytes_ + static_cast<std::size_t>(slot) * slot_bytes_;
      compute(job_, task_at(job_, index), operands, own + total_bytes_, reinterpret_cast<double*>(own),
              partials);
    });
    if (slabs) {
      weight::add_slabs(job_.problem.dtype, partials, job_.config.slabs, job_.problem.weight_elements(),
                        operands.output, context.executor);
    }
    return {};
  }

 private:
  Job job_;
  std::size_t total_bytes_, slot_bytes_, partial_bytes_, threads_;
};

// Cycles per (n, i) and (co, k) on 16 lanes of float32. Fitted to 110 random layers of up to 64 rows, with
// both kernels timed alone on a Zen 5 core: on average the choice takes 1.03 times as long as the better
// kernel.
double cycles(const core::Problem& p) {
  const int64_t ci = p.cin_per_group(), all = p.cout_per_group() * p.k;
  const auto columns = static_cast<double>(all), length = static_cast<double>(p.l);
  const auto rows = static_cast<double>(ci > 4 ? round_up(ci, kRows) : ci > 2 ? 4 : ci);
  const double whole = static_cast<double>(round_up<int64_t>(all, 16)) / columns;
  const auto chunk = static_cast<double>(std::clamp<int64_t>(p.n * p.l, 1, 256));
  return whole * (0.62 + 0.04 * rows) + 1.75 * static_cast<double>(ci) / columns + 0.41 * rows / chunk +
         71 / (static_cast<double>(p.k) * length);  // a row of dy for each channel, sample and tap
}
double cycles_of_dots(const core::Problem& p) {
  const int64_t ci = p.cin_per_group(), all = p.cout_per_group() * p.k;
  const auto columns = static_cast<double>(all), k = static_cast<double>(p.k),
             length = static_cast<double>(p.l);
  const auto rows = static_cast<double>(ci > 2 ? round_up<int64_t>(ci, 4) : ci);
  const double whole = static_cast<double>(round_up(all, weight::kTileColumns)) / columns;
  const auto chunk = static_cast<double>(std::clamp<int64_t>(p.n * p.l, 1, 1024));
  const auto lines = static_cast<double>(p.k > strided::kMaxTapBlock ? p.k : std::min(p.stride, p.k));
  const double gap = p.n > 1 ? 1 + static_cast<double>((p.k - 1) * p.dilation / p.stride) / length : 1;
  return gap * whole * (0.05 * rows + 0.036) + 10 * rows * whole / chunk +
         (p.stride > 1 ? 0.38 * lines : 0.22) / k + 0.035 * static_cast<double>(ci) / columns +
         17 * lines / (k * length);
}

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::weight) return plan::Support::no("weight gradients only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  if (cycles(p) > cycles_of_dots(p)) return plan::Support::no("too few ci to make up for the copies of dy");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.outer",
                                  .summary = "weight gradient: a matrix product, vectors along (co, k)",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<OuterKernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::outer
