#include <algorithm>

#include "core/checked.hpp"
#include "core/reach.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dots/contract.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::dots {
namespace {

class DotsKernel final : public plan::Kernel {
 public:
  DotsKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem, threads)),
        slot_bytes_(round_up<std::size_t>(job_.scratch_elements() * accumulator_size(problem.dtype), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t workspace_bytes() const override { return slot_bytes_ * threads_; }
  std::string describe() const override { return text(job_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    context.executor.run(task_count(job_), [&](int64_t index, int32_t slot) {
      compute(job_, task_at(job_, index), operands,
              context.workspace + static_cast<std::size_t>(slot) * slot_bytes_);
    });
    if (job_.problem.has_bias) strided::store_bias_alone(job_.problem, operands, context.executor);
    return {};
  }

 private:
  Job job_;
  std::size_t slot_bytes_, threads_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::strided) return plan::Support::no("strided only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (p.l > kColumns || p.k > kDepth) return plan::Support::no("more than 48 positions or 2048 taps");
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  const core::Size depth = core::Size(p.cout_per_group()) * p.k;
  // ms on one core with AVX-512, strided and dots. Depth 52, L1, 2048 rows: 0.038, 0.016, 64 times 0.39,
  // 0.39; 30, 512 rows: L1 0.008, 0.004, L4 0.008, 0.006, 64 times 0.14, 0.24; 128, L4: 0.019, 0.007, 64
  // times 0.31, 0.35. 512 -> 512 K4 s2: L10 0.25, 0.16, L16 0.27, 0.27, 16 times 3.3, 4.1. The batch must not
  // count: it would change a sample's bits.
  if (depth < 48)
    return plan::Support::no("fewer than 48 (channel, tap): adding across lanes would take most of the time");
  if (p.l > (depth < 1024 ? 6 : 12)) return plan::Support::no("enough positions to fill vectors");
  if (p.cin_per_group() < 4) return plan::Support::no("fewer than 4 rows share a column");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const core::Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<DotsKernel>(p, std::max(1, options.threads));
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.dots",
                                  .summary = "strided, few positions a sample: dot products of raw weights",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::dots
