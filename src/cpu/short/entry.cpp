#include "cpu/simd/entry.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/short/contract.hpp"
#include "cpu/simd/rows.hpp"
#include "cpu/simd/storage.hpp"

namespace tconv::cpu::short_l {
namespace {

using core::Problem;

constexpr int64_t kPanel = 64;        // rows of the widest panel
constexpr int64_t kFewColumns = 24;   // up to here weights are read in place, in order
constexpr int64_t kBuffer = 1 << 18;  // accumulators that the tile, or staged x, may take

// Channels of a task: about `rows` rows, with little of the last panel unused.
int64_t channels_of(const Problem& p, int64_t rows) {
  const int64_t cout = p.cout_per_group(), most = std::clamp<int64_t>(rows / p.k, 1, cout);
  int64_t best = most;
  double best_waste = 1e9;
  for (int64_t c = most; c >= std::max<int64_t>(1, most / 2); --c) {
    const double waste =
        static_cast<double>(round_up(c * p.k, kPanel)) / static_cast<double>(std::min(c * p.k, cout * p.k));
    if (waste < best_waste - 0.01) {
      best = c;
      best_waste = waste;
    }
  }
  return best;
}

void configure(Job& job, int64_t threads) {
  const Problem& p = job.problem;
  Config& c = job.config;
  const int64_t n = std::max<int64_t>(1, p.n);
  const int64_t most =
      std::min({512 / p.l, kBuffer / (p.l * p.cin), kBuffer / (p.l * round_up(p.k, kPanel))});
  c.samples = std::clamp<int64_t>(most, 1, n);
  job.chunks = core::ceil_div(p.n, c.samples);
  if (job.chunks > 0) c.samples = core::ceil_div(p.n, job.chunks);
  const int64_t columns = job.columns();
  c.pack_panels = columns > kFewColumns;
  c.depth = std::min<int64_t>(p.cin_per_group(), c.pack_panels ? 128 : 8);
  // Many columns: the rows of a few panels. Few: the tile stays in L1 while the weights pass by, and every
  // thread has some tasks.
  const int64_t share = threads == 1 ? p.cout * p.k : p.cout * p.k / (3 * threads);
  const int64_t few = std::clamp<int64_t>(std::min(6144 / columns, share), 256, 2048);
  c.channels = channels_of(p, c.pack_panels ? 128 : few);
  job.channel_blocks = core::ceil_div(p.cout_per_group(), c.channels);
  job.row_pitch = round_up(c.channels * p.k, kPanel);
  c.stage = std::clamp<int64_t>(kBuffer / (columns * p.cin), 1, std::max<int64_t>(1, job.chunks));
}

class ShortKernel final : public plan::Kernel {
 public:
  ShortKernel(const Problem& problem, int threads)
      : ends_(rows_of(problem)), threads_(static_cast<std::size_t>(threads)) {
    job_.problem = problem;
    job_.lout = problem.lout();
    job_.full = (problem.l - 1) * problem.stride + problem.dilation * (problem.k - 1) + 1;
    configure(job_, threads);
    stage_ = round_up<std::size_t>(job_.stage_bytes(), 256);
    scratch_ = round_up<std::size_t>(job_.scratch_bytes(), 256);
  }

  std::size_t workspace_bytes() const override {
    return stage_ * static_cast<std::size_t>(job_.config.stage) + scratch_ * threads_;
  }
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
    std::byte* scratch = staged(context, job_.config.stage);
    context.executor.run(count * tasks, [&](int64_t index, int32_t slot) {
      const int64_t i = index / tasks;
      run_task(job_, operands, chunk + i, staged(context, i), index % tasks,
               scratch + scratch_ * static_cast<std::size_t>(slot));
    });
  }
  std::byte* staged(const plan::RunContext& context, int64_t i) const {
    return context.workspace + stage_ * static_cast<std::size_t>(i);
  }

  Job job_;
  Rows ends_;
  std::size_t stage_ = 0, scratch_ = 0, threads_;
};

plan::Support valid(const Problem& p) {
  if (p.operation != core::Operation::forward) return plan::Support::no("forward only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (p.l > 4096 || core::Size(p.l) * p.cin > kBuffer)
    return plan::Support::no("a sample's x is more than 2^18 elements");
  if (p.k > 2048) return plan::Support::no("more than 2048 taps");
  if (p.l * round_up(p.k, kPanel) > kBuffer) return plan::Support::no("a channel's columns: more than 2^18");
  const core::Size line = core::Size(p.l + 1) * p.stride + core::Size(p.k) * p.dilation + p.output_padding;
  if (line > kBuffer / 2) return plan::Support::no("more than 2^17 outputs in a row");
  // A line is made whole, also where padding leaves little of it.
  if (line > core::Size(64) * p.lout() + 8192) return plan::Support::no("padding cuts nearly all of a row");
  return plan::Support::yes();
}

plan::Support supports(const Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  // ms on one core with raw weights, short and cpu.dense: 512 -> 512 K4 s2 L8 0.30, 2.8; 512 -> 256 K16 s8
  // L32 1.7, 3.0, the same 16 times 18.7, 20.2, L64 2.8, 4.5; 512 -> 512 K12 s12 L17, 32 times 34.5, 35.7; 32
  // -> 32 K4 s2 L16, 32 times 0.11, 0.07. The batch must not count: it would change a sample's bits.
  if (p.l > (p.cin_per_group() < 128 ? 8 : 64))
    return plan::Support::no("too many positions: a matrix product");
  if (p.cout_per_group() * p.k < 32) return plan::Support::no("fewer than 32 rows (channel, tap)");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<ShortKernel>(p, std::max(1, options.threads));
}

}  // namespace

std::string Config::text() const {
  return std::to_string(samples) + " samples a chunk, " + std::to_string(channels) + " channels a task, " +
         std::to_string(depth) + " ci at a time, weights " + (pack_panels ? "in packed panels" : "in place") +
         ", " + std::to_string(stage) + " chunks staged";
}

std::size_t Job::stage_bytes() const {
  return static_cast<std::size_t>(columns() * problem.cin) * accumulator_size(problem.dtype);
}

std::size_t Job::scratch_bytes() const {
  // A vector's overhang behind the tile and behind the line.
  const int64_t line = full + problem.output_padding + problem.stride + kPanel;
  const int64_t elements = (columns() + 1 + config.depth) * row_pitch + line;
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

const plan::KernelEntry kEntry = {"cpu.short", "few positions a sample, vectors along channels and taps",
                                  core::DeviceKind::cpu, supports, make};

}  // namespace tconv::cpu::short_l
