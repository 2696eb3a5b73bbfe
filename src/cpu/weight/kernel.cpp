#include <algorithm>

#include "cpu/common/make_kernel.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/weight/contract.hpp"
#include "cpu/weight/slab_kernel.hpp"

namespace tconv::cpu::weight {
namespace {

class WeightKernel final : public SlabKernel<Job> {
 public:
  WeightKernel(const core::Problem& problem, const core::DeviceInfo& device, int threads)
      : SlabKernel(make_job(problem, device.vector_bytes), threads) {}

  std::size_t table_bytes() const override { return job_.split.table_bytes(); }

 private:
  void run_task(int64_t index, const plan::Operands& operands, void* panel, double* totals,
                double* partials) const override {
    const Task task = task_at(job_, index);
    compute(job_, task, operands, panel, totals);
    keep(task, totals, operands.output, partials);
  }

  // Moves a task's totals to dw, or to its slab's part of the workspace.
  void keep(const Task& t, const double* totals, void* output, double* partials) const {
    const int64_t k = job_.problem.k, all = job_.problem.weight_elements(), taps = t.tap_end - t.tap_begin;
    for (int64_t ci = t.ci_begin; ci < t.ci_end; ++ci) {
      for (int64_t co = t.co_begin; co < t.co_end; ++co, totals += taps) {
        const int64_t at = ((t.group * job_.cin + ci) * job_.cout + co) * k + t.tap_begin;
        if (partials != nullptr) {
          std::copy(totals, totals + taps, partials + t.slab * all + at);
        } else {
          store_totals(job_.problem.dtype, totals, taps, output, at);
        }
      }
    }
  }
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions&) {
  if (plan::Support takes = supports_tiles(p, core::Operation::weight); !takes.ok) return takes;
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
