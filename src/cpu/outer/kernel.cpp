#include <algorithm>

#include "core/checked.hpp"
#include "core/reach.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/outer/contract.hpp"
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

// Cycles for each (n, i) and (co, k) on 16 lanes of float32, fitted to layers drawn at random: here Y, and
// rows and columns up to whole blocks and vectors; cpu.weight splits dy by phase and adds up across lanes.
double cycles(const core::Problem& p) {
  const auto columns = static_cast<double>(p.cout_per_group() * p.k);
  const auto rows = static_cast<double>(round_up(p.cin_per_group(), kRows));
  const auto whole = static_cast<double>(round_up<int64_t>(p.cout_per_group() * p.k, 16));
  return (p.k < 8 ? 1.3 : 0.7) + 0.036 * rows * whole / columns;
}
double cycles_of_dots(const core::Problem& p) {
  const auto depth = static_cast<double>(std::clamp<int64_t>(p.n * p.l, 1, 1024));
  const double split =
      p.stride == 1 ? 0.3 : 2.0 * static_cast<double>(std::min(p.stride, p.k)) / static_cast<double>(p.k);
  return static_cast<double>(p.cin_per_group()) * (0.054 + 5 / depth) + split;
}

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::weight) return plan::Support::no("weight gradients only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  if (cycles(p) > cycles_of_dots(p)) return plan::Support::no("too few ci to make up for copies of dy");
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
