// What the kernels of the weight gradient have in common: a task leaves float64 totals, and with several
// slabs these are kept and added in order afterwards.
#pragma once

#include <utility>

#include "cpu/common/storage.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/weight/totals.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu::weight {

template <class Job>
class SlabKernel : public plan::Kernel {
 public:
  SlabKernel(Job job, int threads)
      : job_(std::move(job)),
        total_bytes_(Workspace::aligned(job_.total_elements() * sizeof(double))),
        workspace_(total_bytes_ + job_.panel_elements() * accumulator_size(job_.problem.dtype), threads,
                   job_.partial_elements() * sizeof(double)) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string describe() const override { return text(job_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const bool slabs = job_.config.slabs > 1;
    auto* partials = slabs ? reinterpret_cast<double*>(context.workspace) : nullptr;
    workspace_.run(context, task_count(job_), [&](int64_t index, std::byte* own) {
      run_task(index, operands, own + total_bytes_, reinterpret_cast<double*>(own), partials);
    });
    if (slabs) {
      add_slabs(job_.problem.dtype, partials, job_.config.slabs, job_.problem.weight_elements(),
                operands.output, context.executor);
    }
    return {};
  }

 protected:
  // partials: of all slabs, or null if there is one, whose totals go to dw. panel and totals are scratch.
  virtual void run_task(int64_t index, const plan::Operands& operands, void* panel, double* totals,
                        double* partials) const = 0;

  Job job_;

 private:
  std::size_t total_bytes_;
  Workspace workspace_;
};

}  // namespace tconv::cpu::weight
