#include "cpu/simd/entry.hpp"

#include <algorithm>
#include <atomic>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/longk/contract.hpp"
#include "cpu/simd/storage.hpp"

namespace tconv::cpu::longk {
namespace {

using core::Problem;

constexpr int64_t kPanel = 64;        // rows of the widest panel
constexpr int64_t kColumns = 6;       // q of a block
constexpr int64_t kOverhang = 16;     // of the last vector
constexpr int64_t kStaged = 3 << 18;  // accumulators of x: they are read in order, and need no cache
constexpr int64_t kPanelTaps = 96;    // (ci, tap) of a panel: 24 KiB of L1
constexpr int64_t kPart = 64;         // blocks of a task at most

// Parts short enough for every thread to have a few tasks, long enough to pay for packing the panel.
int64_t part_of(const Job& job, int64_t threads) {
  const int64_t tasks = job.problem.cout_per_group() * core::ceil_div(job.problem.stride, kPanel);
  const int64_t parts =
      std::clamp<int64_t>(core::ceil_div(4 * threads, tasks), 1, std::max<int64_t>(1, job.config.stage / 16));
  return std::min(kPart, core::ceil_div(job.config.stage, parts));
}

Job job_of(const Problem& p, int64_t threads) {
  Job job{p, {}, p.lout(), 0, 0, core::ceil_div(p.k, p.stride), 0};
  if (job.lout == 0 || p.n == 0) return job;
  job.q_begin = p.padding / p.stride;
  job.q_end = (job.lout - 1 + p.padding) / p.stride + 1;
  job.blocks_per_sample = core::ceil_div(job.q_end - job.q_begin, kColumns);
  Config& c = job.config;
  c.depth = std::clamp<int64_t>(kPanelTaps / job.taps, 1, p.cin_per_group());
  c.stage = std::clamp<int64_t>(kStaged / (job.slabs() * job.block_elements()), 1, job.blocks());
  c.part = part_of(job, threads);
  return job;
}

class LongkKernel final : public plan::Kernel {
 public:
  LongkKernel(const Problem& problem, int threads)
      : job_(job_of(problem, threads)),
        ends_(rows_of(problem)),
        stage_(round_up<std::size_t>(job_.stage_bytes(), 256)),
        scratch_(round_up<std::size_t>(job_.scratch_bytes(), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t workspace_bytes() const override { return stage_ + scratch_ * threads_; }
  std::size_t table_bytes() const override { return ends_.table_bytes(); }
  std::string describe() const override { return job_.config.text(); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    std::atomic<bool> finite{true};
    for (int64_t group = 0; group < job_.problem.groups; ++group) {
      for (int64_t block = 0; block < job_.blocks(); block += job_.config.stage) {
        run_stage(operands, {group, block, std::min(job_.config.stage, job_.blocks() - block)}, context,
                  finite);
      }
    }
    if (!finite) repair_ends(job_.problem, ends_, operands, context.executor);
    store_bias_alone(job_.problem, ends_, operands, context.executor);
    return {};
  }

 private:
  void run_stage(const plan::Operands& operands, const Stage& stage, const plan::RunContext& context,
                 std::atomic<bool>& finite) const {
    const Problem& p = job_.problem;
    std::byte* staged = context.workspace;
    std::byte* scratch = context.workspace + stage_;
    context.executor.run(
        stage.count, [&](int64_t block, int32_t) { stage_block(job_, operands.x, stage, block, staged); });
    const int64_t parts = core::ceil_div(stage.count, job_.config.part);
    context.executor.run(panels(job_) * p.cout_per_group() * parts, [&](int64_t task, int32_t slot) {
      std::byte* own = scratch + scratch_ * static_cast<std::size_t>(slot);
      if (!run_task(job_, operands, stage, staged, task, own)) finite.store(false, std::memory_order_relaxed);
    });
  }

  Job job_;
  Rows ends_;
  std::size_t stage_, scratch_, threads_;
};

plan::Support valid(const Problem& p) {
  if (p.operation != core::Operation::forward) return plan::Support::no("forward only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (p.dilation != 1) return plan::Support::no("dilation is not 1");
  if (p.stride > 1 << 16) return plan::Support::no("stride above 65536");
  const int64_t taps = core::ceil_div(p.k, p.stride);
  if (taps > 1024) return plan::Support::no("more than 1024 taps a residue");
  if (core::Size(p.cin_per_group()) * (taps + kColumns) > kStaged)
    return plan::Support::no("6 positions and their taps of x: more than 3 * 2^18");
  return plan::Support::yes();
}

plan::Support supports(const Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  if (p.stride < 32) return plan::Support::no("stride below 32");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<LongkKernel>(p, std::max(1, options.threads));
}

}  // namespace

std::string Config::text() const {
  return std::to_string(stage) + " blocks of 6 positions staged, " + std::to_string(part) + " a task, " +
         std::to_string(depth) + " ci at a time";
}

// Rows of x are stored whole vectors at a time, one over the end of the one before.
int64_t Job::block_elements() const {
  return config.depth * (kColumns + taps - 1) + kOverhang;
}

std::size_t Job::stage_bytes() const {
  if (blocks() == 0) return 0;
  return static_cast<std::size_t>(slabs() * config.stage * block_elements()) *
         accumulator_size(problem.dtype);
}

std::size_t Job::scratch_bytes() const {
  const int64_t elements = (config.part * kColumns + config.depth * taps) * kPanel;
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

const plan::KernelEntry kEntry = {"cpu.longk", "long strides, vectors along the residues of a position",
                                  core::DeviceKind::cpu, supports, make};

}  // namespace tconv::cpu::longk
