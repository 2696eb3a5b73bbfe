#include <algorithm>

#include "core/checked.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/strided/contract.hpp"
#include "cpu/strided_depthwise/contract.hpp"

namespace tconv::cpu::strided_depthwise {
namespace {

using core::Problem;

class Kernel final : public plan::Kernel {
 public:
  Kernel(const Problem& problem, int threads)
      : job_(job_of(problem, threads)), workspace_(job_.scratch_bytes(), threads) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override { return job_.split.table_bytes(); }
  std::string describe() const override { return job_.config.text(); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const bool finite = workspace_.run_all(context, job_.tasks(), [&](int64_t task, std::byte* own) {
      return run_task(job_, operands, task, own);
    });
    const Problem& p = job_.problem;
    if (!finite) {
      const strided::Job all{p, p.lout(), p.cin_per_group(), p.cout_per_group(), job_.split, {}};
      strided::repair_ends(all, operands, {nullptr, operands.weight}, context.executor);
    }
    if (p.has_bias) strided::store_bias_alone(p, operands, context.executor);
    return {};
  }

 private:
  Job job_;
  Workspace workspace_;
};

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (plan::Support takes = supports_tiles(p, core::Operation::strided); !takes.ok) return takes;
  const int64_t pairs = p.cin_per_group() * p.cout_per_group();
  if (core::Size(pairs) * p.k > 65536) return plan::Support::no("more than 65536 weights in a group");
  const int64_t halo = (p.k - 1) * p.dilation / p.stride + 1;
  const int64_t lines = p.cout_per_group() * std::min(p.k, p.stride);
  if (p.k > strided::kMaxTapBlock || core::Size(lines) * (halo + 256) > 1 << 17) {
    return plan::Support::no("its taps span too many positions");
  }
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  // ms on one core, here and in cpu.strided, 256 channels, K7, L 4000: 1 pair a group 0.43, 0.78; 4 0.66,
  // 0.98; 16 1.11, 0.85.
  // Sums of few products too, however many rows of dx share dy. Time over that of cpu.strided on a Zen 3, L
  // 1000: dx of 1024 channels from one, K3 0.42, K4 s2 0.47, K7 0.74; of 64 from two, K4 s2 0.88; of 64 from
  // four, K4 s2 1.25. With AVX-512, whose registers hold the sums of 8 rows, on a Zen 5: 10 layers of
  // up to 4 products and 256 positions or more 0.78, 25 of 3 to 77 positions 1.53; 15 of 5 to 8
  // products 1.24.
  const int64_t products = p.cout_per_group() * p.k;
  const bool few_products = short_vectors(device.vector_bytes) ? products <= 8 : products <= 4 && p.l >= 256;
  // A single row of dx at stride 1 reads dy where it is; cpu.strided would copy it for that row alone. Time
  // on the Zen 5 with AVX-512 and with AVX2: 32 -> 1, K3 L50098 0.49, 0.46; 32 -> 1, K7 L8914 0.76, 0.62; 64
  // -> 1, K5 L100, a batch of 16, 1.22, 1.09.
  const bool single_row = p.cin_per_group() == 1 && p.stride == 1 && p.l >= 128;
  if (pairs > 4 && !few_products && !single_row)
    return plan::Support::no("more than 4 channel pairs in a group: a matrix product");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.strided_depthwise",
                                  .summary = "input gradient and Conv1d, groups of few channels or products",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make_kernel<Kernel>,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::strided_depthwise
