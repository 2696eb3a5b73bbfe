#include <algorithm>

#include "core/reach.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/weight/contract.hpp"
#include "cpu/weight/totals.hpp"

namespace tconv::cpu::weight {
namespace {

class WeightKernel final : public plan::Kernel {
 public:
  WeightKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem)),
        total_bytes_(round_up<std::size_t>(job_.total_elements() * sizeof(double), 256)),
        slot_bytes_(total_bytes_ +
                    round_up<std::size_t>(job_.panel_elements() * accumulator_size(problem.dtype), 256)),
        partial_bytes_(round_up<std::size_t>(job_.partial_elements() * sizeof(double), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t workspace_bytes() const override { return partial_bytes_ + slot_bytes_ * threads_; }
  std::size_t table_bytes() const override { return job_.split.table_bytes(); }
  std::string describe() const override { return text(job_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    auto* partials = reinterpret_cast<double*>(context.workspace);
    context.executor.run(task_count(job_), [&](int64_t index, int32_t slot) {
      std::byte* own = context.workspace + partial_bytes_ + slot_bytes_ * static_cast<std::size_t>(slot);
      auto* totals = reinterpret_cast<double*>(own);
      const Task task = task_at(job_, index);
      compute(job_, task, operands, own + total_bytes_, totals);
      keep(task, totals, operands.output, partials);
    });
    if (job_.config.slabs > 1) {
      add_slabs(job_.problem.dtype, partials, job_.config.slabs, job_.problem.weight_elements(),
                operands.output, context.executor);
    }
    return {};
  }

 private:
  // Moves a task's totals to dw, or to its slab's part of the workspace.
  void keep(const Task& t, const double* totals, void* output, double* partials) const {
    const int64_t k = job_.problem.k, all = job_.problem.weight_elements(), taps = t.tap_end - t.tap_begin;
    for (int64_t ci = t.ci_begin; ci < t.ci_end; ++ci) {
      for (int64_t co = t.co_begin; co < t.co_end; ++co, totals += taps) {
        const int64_t at = ((t.group * job_.cin + ci) * job_.cout + co) * k + t.tap_begin;
        if (job_.config.slabs > 1) {
          std::copy(totals, totals + taps, partials + t.slab * all + at);
        } else {
          store_totals(job_.problem.dtype, totals, taps, output, at);
        }
      }
    }
  }

  Job job_;
  std::size_t total_bytes_, slot_bytes_, partial_bytes_, threads_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions&) {
  if (p.operation != core::Operation::weight) return plan::Support::no("weight gradients only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (p.k > strided::kMostTaps) return plan::Support::no("more than 65536 taps");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.weight",
                                  .summary = "weight gradient: sums of products along the positions",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<WeightKernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::weight
