#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/last_cache.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/depthwise/contract.hpp"

namespace tconv::cpu::depthwise {
namespace {

using core::Problem;

class DepthwiseKernel final : public plan::Kernel {
 public:
  DepthwiseKernel(const Problem& problem, const core::DeviceInfo& device, int threads)
      : job_(job_of(problem, streams_output(problem, device), threads)),
        workspace_(job_.scratch_bytes(), threads) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override { return job_.residues.table_bytes() + job_.flat.table_bytes(); }
  std::string describe() const override {
    return job_.config.way == Way::flat ? job_.flat.text() : job_.config.text();
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const bool finite = workspace_.run_all(context, job_.tasks(), [&](int64_t task, std::byte* own) {
      return run_task(job_, operands, task, own);
    });
    if (!finite) repair_ends(job_.problem, job_.residues, operands, context.executor);
    store_bias_alone(job_.problem, job_.residues, operands, context.executor);
    return {};
  }

 private:
  Job job_;
  Workspace workspace_;
};

// Whether outputs have so few products that cpu.dense spends more time on storing and interleaving them than
// on multiplying. ms on a Zen 3 with AVX2, one thread, here and in the fastest other kernel: 4 -> 64, K6 s3
// L256, a batch of 32, 0.79, 1.28; 8 -> 32, K4 s2 L256 0.036, 0.042; 2 -> 16, K8 s4 L256 0.024, 0.034; 1 ->
// 64, K7 L4000 0.10, 0.14; 2 -> 32, K6 s3 L4000 takes 0.34 of the time there. Beyond these limits 16 -> 64,
// K8 s4 takes 1.35 times as long as there, 8 -> 8, K10 s5 7.3 times, and 4 -> 64, K6 s3 L16 in a batch of
// 32 1.15 times.
//
// With AVX-512 on a Zen 5, time over that of cpu.dense: strides of 2 to 4, up to 4 products 0.20 to 0.71 (24
// layers), 5 to 8 0.47 to 0.94 (5); 9 to 16 0.76 to 1.1 (11), where cpu.narrow takes less. At longer strides
// one input channel with up to 3 taps, whose residues fit in a vector, goes by registers: 0.21 to 0.68 (26
// layers); 4 to 8 taps take 1.7 to 6.5 times as long (40), and two channels and more 1.75 to 5.7 (21). At
// stride 1 cpu.narrow takes less where it takes a layer; 1 -> 384, K7 L3048 0.69, 1 -> 398, K7 L257 0.79.
bool few_products(const Problem& p, const core::DeviceInfo& device) {
  constexpr int64_t kNarrowRows = 64;  // of cpu.narrow at stride 1
  const int64_t products = p.cin_per_group() * core::Polyphase(p).taps;
  if (p.l < (products <= 4 ? 16 : 32)) return false;
  if (short_vectors(device.vector_bytes)) {
    return (p.stride <= 3 && products <= 16) || (p.stride == 4 && products <= 8);
  }
  if (products > 8) return false;
  if (p.stride == 1) return p.cout_per_group() > kNarrowRows;
  const int64_t lanes = device.vector_bytes / static_cast<int64_t>(accumulator_size(p.dtype));
  return p.stride <= 4 || (p.cin_per_group() == 1 && products <= 3 && p.stride <= lanes && p.dilation == 1);
}

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (plan::Support takes = supports_tiles(p, core::Operation::transposed); !takes.ok) return takes;
  const int64_t per_group = p.cin_per_group() * p.cout_per_group();
  if (p.cin_per_group() > 64) return plan::Support::no("more than 64 channels in a group");
  if (p.stride > 4096) return plan::Support::no("stride above 4096");
  if (core::Size(per_group) * p.k > 65536) return plan::Support::no("more than 65536 weights in a group");
  const int64_t reach = (p.k - 1) * p.dilation / p.stride;
  if (core::Size(reach) * p.cin_per_group() > 65536) {
    return plan::Support::no("the taps span more than 65536 positions of a group's channels");
  }
  if (options.force_kernel == kEntry.name || few_products(p, device)) return plan::Support::yes();
  // ms on one core, depthwise and cpu.dense, 256 channels, K4 s2, L 8000: 1 a group 1.8, 4.6; 4 2.3, 2.6;
  // 8 3.6, 3.1.
  if (per_group > 24) return plan::Support::no("more than 24 channel pairs in a group: a matrix product");
  if (p.groups == 1) return plan::Support::no("one group");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {"cpu.depthwise",
                                  "groups of few channels or few products, vectors along positions",
                                  core::DeviceKind::cpu, supports, make_kernel<DepthwiseKernel>};

}  // namespace tconv::cpu::depthwise
