// The choice of Config, and the tables of a Job.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/longk/contract.hpp"

namespace tconv::cpu::longk {

using core::Problem;

namespace {

constexpr int64_t kPanel = 64;      // rows of the widest panel
constexpr int64_t kOverhang = 16;   // of the last vector
constexpr int64_t kPanelTaps = 96;  // (ci, tap) of a panel: 24 KiB of L1
constexpr int64_t kPart = 128;      // blocks of a task at most

// Parts are short enough that every thread gets a few tasks, and long enough to amortise packing the panel.
int64_t part_of(const Job& job, int64_t threads) {
  const int64_t tasks = job.problem.cout_per_group() * core::ceil_div(job.problem.stride, kPanel);
  const int64_t parts =
      std::clamp<int64_t>(core::ceil_div(4 * threads, tasks), 1, std::max<int64_t>(1, job.config.stage / 16));
  // As even as they can be: a short last part packs its panel for few blocks.
  return core::ceil_div(job.config.stage, std::max(parts, core::ceil_div(job.config.stage, kPart)));
}

}  // namespace

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

std::string Config::text() const {
  return std::to_string(stage) + " blocks of 6 positions staged, " + std::to_string(part) + " a task, " +
         std::to_string(depth) + " ci at a time";
}

// Rows of x are stored in whole vectors; each row overwrites the overhang of the one before.
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

}  // namespace tconv::cpu::longk
