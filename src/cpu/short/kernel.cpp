#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/make_kernel.hpp"
#include "cpu/common/residues.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/workspace.hpp"
#include "cpu/short/contract.hpp"

namespace tconv::cpu::short_l {
namespace {

using core::Problem;

class ShortKernel final : public plan::Kernel {
 public:
  ShortKernel(const Problem& problem, const core::DeviceInfo& device, int threads)
      : job_(job_of(problem, threads, device.vector_bytes)),
        ends_(residues_of(problem)),
        stage_(Workspace::aligned(job_.stage_bytes())),
        workspace_(job_.scratch_bytes(), threads, stage_ * static_cast<std::size_t>(job_.config.stage)) {}

  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string describe() const override { return job_.config.text(); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    for (int64_t chunk = 0; chunk < job_.chunks; chunk += job_.config.stage) {
      const int64_t count = std::min(job_.config.stage, job_.chunks - chunk);
      stage(operands.x, chunk, count, context);
      multiply(operands, chunk, count, context);
    }
    store_bias_alone(job_.problem, ends_, operands, context.executor);
    return {};
  }

 private:
  void stage(const void* x, int64_t chunk, int64_t count, const plan::RunContext& context) const {
    const int64_t blocks = column_blocks(job_);
    context.executor.run(count * blocks, [&](int64_t index, int32_t) {
      const int64_t i = index / blocks;
      stage_columns(job_, x, chunk + i, index % blocks, staged(context, i));
    });
  }
  void multiply(const plan::Operands& operands, int64_t chunk, int64_t count,
                const plan::RunContext& context) const {
    const int64_t tasks = job_.problem.groups * job_.channel_blocks;
    workspace_.run(context, count * tasks, [&](int64_t index, std::byte* own) {
      const int64_t i = index / tasks;
      run_task(job_, operands, chunk + i, staged(context, i), index % tasks, own);
    });
  }
  std::byte* staged(const plan::RunContext& context, int64_t i) const {
    return context.workspace + stage_ * static_cast<std::size_t>(i);
  }

  Job job_;
  Residues ends_;
  std::size_t stage_;  // of a chunk
  Workspace workspace_;
};

plan::Support valid(const Problem& p) {
  if (plan::Support takes = supports_tiles(p, core::Operation::transposed); !takes.ok) return takes;
  if (p.l > 4096 || core::Size(p.l) * p.cin > kBuffer)
    return plan::Support::no("a sample's x is more than 2^18 elements");
  if (p.k > 2048) return plan::Support::no("more than 2048 taps");
  if (p.l * round_up(p.k, kPanel) > kBuffer)
    return plan::Support::no("a channel's columns take more than 2^18 elements");
  const core::Size line = core::Size(p.l + 1) * p.stride + core::Size(p.k) * p.dilation + p.output_padding;
  if (line > kBuffer / 2) return plan::Support::no("more than 2^17 outputs in a row");
  // A line is computed whole, even if padding leaves little of it.
  if (line > core::Size(64) * p.lout() + 8192) return plan::Support::no("padding cuts nearly all of a row");
  return plan::Support::yes();
}

// Few rows fill few vectors, but cpu.dense fills none of its tiles either. us on an AVX-512 Xeon, short and
// cpu.dense, 1 sample and 64 or 128: 192 -> 1 K7 L1 1.2, 9.9 and 92, 194; 96 -> 4 K7 L12 1.4, 5.3 and 57,
// 100; but 48 -> 4 K7 L24 1.7, 2.2 and 98, 64; 16 -> 2 K8 s4 L6 0.2, 0.7 and 32, 22. Of random ones short
// takes half of the time, with AVX2 as well; with fewer than 16 channels, with one tap, or from 16 positions
// on, it often takes longer.
plan::Support few_rows_are_fast(const Problem& p) {
  if (p.cout_per_group() * p.k >= 32) return plan::Support::yes();
  const int64_t cin = p.cin_per_group(), most = cin < 16 ? 0 : cin < 48 ? 4 : 12;
  if (p.k > 1 && p.l <= most) return plan::Support::yes();
  return plan::Support::no("fewer than 32 rows (channel, tap)");
}

plan::Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  // ms on one core with raw weights, short and cpu.dense: 512 -> 512 K4 s2 L8 0.30, 2.8; 512 -> 256 K16 s8
  // L32 1.7, 3.0, the same 16 times 18.7, 20.2, L64 2.8, 4.5; 512 -> 512 K12 s12 L17, 32 times 34.5, 35.7;
  // 96 -> 256 K4 s2 L16 0.022, 0.042, 16 times 0.28, 0.26; 64 -> 64 K16 s8 L16 0.012, 0.025, 16 times 0.17,
  // 0.18; 32 -> 256 K3 L16 0.013, 0.008, 16 times 0.097, 0.076. With vectors of 32 bytes, where cpu.dense
  // keeps strips of x in L1, on a Zen 3: 2048 -> 128 K4 s2 L12 0.61, 1.45, L28 1.40, 1.38; 768 -> 64 K16 s8
  // takes 0.76 of cpu.dense's time at L24, 16 times 0.92, and 2048 -> 32 K5 L61, 16 times 1.85 of it. The
  // batch must not count: it would change a sample's bits.
  const int64_t most = short_vectors(device.vector_bytes) ? 24 : 64, cin = p.cin_per_group();
  if (p.l > (cin < 64 ? 8 : cin < 128 ? 16 : cin < 256 ? 24 : most))
    return plan::Support::no("too many positions: a matrix product");
  return few_rows_are_fast(p);
}

}  // namespace

const plan::KernelEntry kEntry = {"cpu.short", "few positions a sample, vectors along channels and taps",
                                  core::DeviceKind::cpu, supports, make_kernel<ShortKernel>};

}  // namespace tconv::cpu::short_l
