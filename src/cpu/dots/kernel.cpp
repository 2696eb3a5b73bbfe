#include "core/checked.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/dots/contract.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::dots {
namespace {

class DotsKernel final : public plan::Kernel {
 public:
  DotsKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem, threads)),
        workspace_(job_.scratch_elements() * accumulator_size(problem.dtype), threads) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string describe() const override { return text(job_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    workspace_.run(context, task_count(job_), [&](int64_t index, std::byte* own) {
      compute(job_, task_at(job_, index), operands, own);
    });
    if (job_.problem.has_bias) strided::store_bias_alone(job_.problem, operands, context.executor);
    return {};
  }

 private:
  Job job_;
  Workspace workspace_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (plan::Support takes = supports_tiles(p, core::Operation::strided); !takes.ok) return takes;
  if (p.l > kColumns || p.k > kDepth) return plan::Support::no("more than 48 positions or 2048 taps");
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  const core::Size depth = core::Size(p.cout_per_group()) * p.k;
  // The time of this kernel over that of cpu.strided with raw weights, for one sample and for a batch of 16
  // (Xeon with AVX-512, 512 rows, 4 taps; with AVX2 forced 1.0 to 2.0 times these from depth 256 on):
  //   depth 64     2 positions 0.45 and 2.8,   4 0.88 and 2.1
  //   depth 128    4 positions 0.44 and 1.7,   6 0.93 and 1.2
  //   depth 256    8 positions 0.47 and 1.3,  12 0.60 and 1.5
  //   depth 512   12 positions 0.62 and 0.90, 16 0.86 and 1.1
  //   depth 1024  12 positions 0.88 and 1.1,  16 1.2 and 1.0
  //   depth 4096   8 positions 0.62 and 1.1,  12 0.82 and 0.92
  // The same on a Zen 5 with AVX-512, when taps were still loaded one by one: from about depth 4096 on, more
  // than 8 positions lose either way.
  //   depth 1536   8 positions 0.55 and 1.4,  12 0.75 and 1.4
  //   depth 5120   8 positions 0.92 and 1.6,  12 1.0 and 1.6
  //   depth 13312  8 positions 1.2 and 1.6,   12 1.3 and 1.6
  // The batch must not count: it would change a sample's bits.
  if (depth < 48)
    return plan::Support::no("fewer than 48 (channel, tap): adding across lanes would take most of the time");
  // With fewer than 4 rows, which share a column, on a Zen 5: 23 layers within these limits take 0.05 to 1.09
  // of the time of cpu.strided, 0.35 in the geometric mean, and 19 with AVX2 0.33; those of up to 16
  // positions beyond them 1.23 and 1.33.
  // Where taps do not fit one depth block of cpu.strided, it packs 256 at a time, from rows far apart: 18
  // layers of 16 to 32 positions take 0.21 to 0.49 of the time that it takes with raw weights on AVX-512, and
  // 0.32 to 0.82 on AVX2; of the time with packed ones, 0.63 to 1.09 and 0.79 to 1.63.
  int64_t most = depth >= 4096 ? 8 : depth >= 1024 ? 12 : depth >= 256 ? 8 : depth >= 128 ? 4 : 2;
  if (p.k > strided::kMaxTapBlock) most = 32;
  if (p.cin_per_group() < 4) most = depth >= 1024 ? 6 : 4;
  if (p.l > most) return plan::Support::no("enough positions to fill vectors");
  if (p.cin_per_group() < 4 && p.groups > 1) return plan::Support::no("groups of fewer than 4 rows");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.dots",
                                  .summary = "strided, few positions a sample: dot products of raw weights",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<DotsKernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::dots
