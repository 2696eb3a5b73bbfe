#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/residues.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/longk/contract.hpp"

namespace tconv::cpu::longk {
namespace {

using core::Problem;

class LongkKernel final : public plan::Kernel {
 public:
  LongkKernel(const Problem& problem, int threads)
      : job_(job_of(problem, threads)),
        ends_(residues_of(problem)),
        workspace_(job_.scratch_bytes(), threads, job_.stage_bytes()) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t table_bytes() const override { return ends_.table_bytes(); }
  std::string describe() const override { return job_.config.text(); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    bool finite = true;
    for (int64_t group = 0; group < job_.problem.groups; ++group) {
      for (int64_t block = 0; block < job_.blocks(); block += job_.config.stage) {
        const StagedBlocks stage{group, block, std::min(job_.config.stage, job_.blocks() - block)};
        finite = run_stage(operands, stage, context) && finite;
      }
    }
    if (!finite) repair_ends(job_.problem, ends_, operands, context.executor);
    store_bias_alone(job_.problem, ends_, operands, context.executor);
    return {};
  }

 private:
  bool run_stage(const plan::Operands& operands, const StagedBlocks& stage,
                 const plan::RunContext& context) const {
    const Problem& p = job_.problem;
    std::byte* staged = context.workspace;
    context.executor.run(
        stage.count, [&](int64_t block, int32_t) { stage_block(job_, operands.x, stage, block, staged); });
    const int64_t parts = core::ceil_div(stage.count, job_.config.part);
    const int64_t tasks = panels(job_) * p.cout_per_group() * parts;
    return workspace_.run_all(context, tasks, [&](int64_t task, std::byte* own) {
      return run_task(job_, operands, stage, staged, task, own);
    });
  }

  Job job_;
  Residues ends_;
  Workspace workspace_;
};

plan::Support valid(const Problem& p) {
  if (plan::Support takes = supports_tiles(p, core::Operation::transposed); !takes.ok) return takes;
  if (p.dilation != 1) return plan::Support::no("dilation is not 1");
  if (p.stride > 1 << 16) return plan::Support::no("stride above 65536");
  const int64_t taps = core::ceil_div(p.k, p.stride);
  if (taps > 1024) return plan::Support::no("more than 1024 taps a residue");
  if (core::Size(p.cin_per_group()) * (taps + kColumns) > kStaged)
    return plan::Support::no("x of 6 positions and their taps is more than 3 * 2^18 elements");
  return plan::Support::yes();
}

// Whether another kernel takes less time: cpu.short with few positions, where most taps of a block meet
// zeros; cpu.dense with many; either of them if the weights are so large that these pieces of 256 bytes come
// from memory. ms on a Zen 3 with AVX2, one thread, here and there: 1922 -> 1, K1920 s300 L24 9.1, 3.4,
// L60 14.6, 9.2, L2400 336, 215; 1026 -> 1, K1024 s256 L64 2.2, 2.6, L256 8.3, 7.9, L400 14.2, 12.8; 642 ->
// 1, K640 s160 L64 1.1, 1.1, L256 3.8, 2.9; 64 -> 16, K64 s32 L1000 2.4, 1.9. With 1 to 4 positions cpu.short
// takes 0.21 to 0.9 of the time here. With 12 it takes 0.5 to 0.85 of it on one thread, but 1 to 1.6 times as
// long on two. With AVX-512 on a Zen 5, 33 layers of 1 to 8 positions take 0.54 of the time here and 3 of 9
// to 12 0.73. With more, cpu.short takes 1.01 of it (25 layers of less than 192) and cpu.dense 0.98 (19 of
// more).
bool others_are_faster(const Problem& p, const core::DeviceInfo& device) {
  constexpr int64_t kManyPositions = 192, kLargeWeights = 8 << 20;
  // Of those that cpu.short takes: else the next kernel would be cpu.dense.
  const bool few = p.l <= (p.cin_per_group() < 128 ? 8 : 12) && p.k >= 32 && p.k <= 2048;
  const int64_t bytes = p.weight_elements() * static_cast<int64_t>(core::size_of(p.dtype));
  if (p.stride > 512) return false;
  return few || (short_vectors(device.vector_bytes) && (p.l >= kManyPositions || bytes > kLargeWeights));
}

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  if (p.stride < 32) return plan::Support::no("stride below 32");
  if (others_are_faster(p, device))
    return plan::Support::no("too few or too many positions, or weights of more than 8 MiB");
  return plan::Support::yes();
}

}  // namespace

const plan::KernelEntry kEntry = {"cpu.longk", "long strides, vectors along the residues of a position",
                                  core::DeviceKind::cpu, supports, make_kernel<LongkKernel>};

}  // namespace tconv::cpu::longk
