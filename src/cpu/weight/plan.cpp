// From a problem and the vectors' size to the choices of cpu.weight. Pure, and independent of the threads.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/weight/contract.hpp"

namespace tconv::cpu::weight {
namespace {

using core::ceil_div;

// With a single row of x every piece of dy is read once, and longer pieces come faster from memory, if few of
// them reach into the next sample: 6 layers on a Zen 5 take 0.86 of the time in the geometric mean with
// AVX-512, with one thread and with two. Layers of 2 to 4 rows take 1.03; with AVX2 one of one tap takes
// 0.91, and three of 3 and 7 taps 1.04.
constexpr int64_t kChunkOfRow = 4096;
constexpr int64_t kDyElements = 48 * 1024;        // of a task's panel: it and x stay in L2
constexpr int64_t kCiBlock = 32;                  // rows of x in the same panel
constexpr int64_t kTasks = 32;                    // slabs make up for few channels
constexpr int64_t kPartialElements = 256 * 1024;  // 2 MiB of float64
constexpr int64_t kTotalElements = 128 * 1024;    // 1 MiB of float64 per task

int64_t tap_blocks(const Job& job) {
  return ceil_div(job.problem.k, job.split.tap_block);
}

int64_t tasks_of_a_slab(const Job& job) {
  return job.problem.groups * ceil_div(job.cin, job.config.ci_block) *
         ceil_div(job.cout, job.config.co_block) * tap_blocks(job);
}

int64_t most_of_chunk(const Job& job, int vector_bytes) {
  const core::Problem& p = job.problem;
  const bool long_samples = p.n == 1 || p.l >= 8 * kChunkOfRow;
  const bool in_place =
      job.split.contiguous() && !job.split.expanded && accumulator_size(p.dtype) == core::size_of(p.dtype);
  const bool pays = p.k == 1 || !short_vectors(vector_bytes);
  return job.cin == 1 && in_place && long_samples && pays ? kChunkOfRow
         : job.split.lines <= kLinesOfLongChunk           ? kLongChunk
                                                          : kChunk;
}

// Samples lie a gap apart, so that taps which reach beyond one meet zeros. Where the gap is wide, tiles pass
// over it, sample by sample, or every tap has a line of its own without gaps: whichever takes the fewest
// cycles, half a cycle for a vector of x times one of dy and 1.5 for a vector that is copied.
void set_split(Job& job) {
  const core::Problem& p = job.problem;
  const auto rows = static_cast<double>(job.cin), length = static_cast<double>(std::max<int64_t>(1, p.l));
  job.split = strided::split_panel(p, job.cin);
  job.used = job.split.period;
  if (p.n == 1 || p.k > strided::kMaxTapBlock) return;
  strided::SplitPanel gaps = strided::split_panel(p, 1);
  const int64_t used = round_up<int64_t>(p.l, 16), period = round_up<int64_t>(used + gaps.halo, 16);
  if (gaps.expanded || 2 * period > kChunk) return;
  const auto cycles = [&](const strided::SplitPanel& s, int64_t multiplied, int64_t copied) {
    const double copies = 1.5 * static_cast<double>(s.lines) / static_cast<double>(p.k);
    return (0.5 * rows * static_cast<double>(multiplied) + copies * static_cast<double>(copied)) / length;
  };
  if (cycles(gaps, used, period) >= 0.95 * cycles(job.split, job.split.period, job.split.period)) return;
  gaps.period = period;
  gaps.columns = (p.n - 1) * period + p.l;
  job.split = std::move(gaps);
  job.used = used;
}

}  // namespace

std::size_t Job::total_elements() const {
  return static_cast<std::size_t>(round_up<int64_t>(config.ci_block * config.co_block * split.tap_block, 32));
}

std::size_t Job::panel_elements() const {
  return static_cast<std::size_t>(
      round_up<int64_t>(config.co_block * split.channel() + config.ci_block * x_line(), 64));
}

std::size_t Job::partial_elements() const {
  return config.slabs == 1 ? 0 : static_cast<std::size_t>(config.slabs * problem.weight_elements());
}

Job make_job(const core::Problem& p, int vector_bytes) {
  Job job{p, p.lout(), p.cin_per_group(), p.cout_per_group(), {}, 0, {}};
  set_split(job);
  Config& c = job.config;
  const int64_t all = round_up(std::max<int64_t>(job.split.columns, 1), dense::kColumnAlign);
  c.chunk =
      std::clamp<int64_t>(2 * kDyElements / job.split.lines / 16 * 16, 64, most_of_chunk(job, vector_bytes));
  if (job.passes_gaps()) c.chunk = std::max<int64_t>(1, c.chunk / job.split.period) * job.split.period;
  c.chunk = std::min(c.chunk, all);
  job.split.set_columns(c.chunk);
  c.ci_block = std::min(job.cin, kCiBlock);
  const int64_t most_cos = kTotalElements / (c.ci_block * job.split.tap_block);
  c.co_block = std::clamp<int64_t>(kDyElements / job.split.channel(), 1, std::min(job.cout, most_cos));
  const int64_t chunks = ceil_div(std::max<int64_t>(job.split.columns, 1), c.chunk);
  const int64_t wanted = ceil_div(kTasks, tasks_of_a_slab(job));
  const int64_t most = std::max<int64_t>(1, kPartialElements / std::max<int64_t>(1, p.weight_elements()));
  c.chunks_per_slab = ceil_div(chunks, std::min({wanted, most, chunks}));
  c.slabs = ceil_div(chunks, c.chunks_per_slab);
  return job;
}

int64_t task_count(const Job& job) {
  return job.config.slabs * tasks_of_a_slab(job);
}

// Slabs vary slowest, so that consecutive tasks share rows of x.
Task task_at(const Job& job, int64_t index) {
  const Config& c = job.config;
  const int64_t taps = tap_blocks(job), cos = ceil_div(job.cout, c.co_block);
  const int64_t cis = ceil_div(job.cin, c.ci_block);
  const int64_t tap = index % taps * job.split.tap_block, co = index / taps % cos * c.co_block;
  const int64_t ci = index / taps / cos % cis * c.ci_block;
  const int64_t rest = index / taps / cos / cis;
  return {rest / job.problem.groups,
          rest % job.problem.groups,
          ci,
          std::min(job.cin, ci + c.ci_block),
          co,
          std::min(job.cout, co + c.co_block),
          tap,
          std::min(job.problem.k, tap + job.split.tap_block)};
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return number(job.cin) + " ci x " + number(job.cout * job.problem.k) + " (co, k), depth " +
         number(job.split.columns) + " in chunks of " + number(c.chunk) + " (" + number(job.split.lines) +
         (job.split.expanded ? " taps" : " phases") + " a channel" +
         (job.passes_gaps() ? ", gaps passed over" : "") + ") and " + number(c.slabs) + " slabs, " +
         number(c.ci_block) + " ci x " + number(c.co_block) + " co a task, " + number(task_count(job)) +
         " tasks";
}

}  // namespace tconv::cpu::weight
