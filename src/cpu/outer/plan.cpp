// From a problem to the choices of cpu.outer. Chunks and slabs are blind to the threads.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/outer/contract.hpp"

namespace tconv::cpu::outer {
namespace {

using core::ceil_div;

constexpr int64_t kChunk = 256;
constexpr int64_t kSingleChunk = 512;          // up to here no totals
constexpr int64_t kPanelElements = 96 * 1024;  // Y: 384 KiB of float, half of a 1 MiB L2
constexpr int64_t kMostPanelColumns = 32 * kTile, kLeastPanelColumns = 4 * kTile;
constexpr int64_t kTotalElements = 256 * 1024;    // 2 MiB of float64 a task
constexpr int64_t kPartialElements = 256 * 1024;  // and of all slabs
constexpr int64_t kLeastRows = 64;
constexpr int64_t kTasks = 16, kTasksPerThread = 8;

int64_t panels(const Job& job) {
  return ceil_div(job.columns, job.config.panel_columns);
}

int64_t row_ranges(const Job& job) {
  return ceil_div(job.cin, job.config.task_rows);
}

int64_t chunks(const Job& job) {
  return std::max<int64_t>(1, ceil_div(job.depth, job.config.chunk));
}

// Tasks of their own for parts of a depth that few tasks share.
void choose_slabs(Job& job) {
  Config& c = job.config;
  const int64_t tasks =
      job.problem.groups * ceil_div(job.columns, kLeastPanelColumns) * ceil_div(job.cin, kLeastRows);
  const int64_t most = kPartialElements / std::max<int64_t>(1, job.problem.weight_elements());
  const int64_t wanted = std::clamp<int64_t>(std::min(ceil_div(kTasks, tasks), most), 1, chunks(job));
  c.chunks_per_slab = ceil_div(chunks(job), wanted);
  c.slabs = ceil_div(chunks(job), c.chunks_per_slab);
}

void choose_tasks(Job& job, int threads) {
  Config& c = job.config;
  const int64_t fit = kPanelElements / c.chunk / kTile * kTile;
  c.panel_columns =
      std::min(std::clamp<int64_t>(fit, kTile, kMostPanelColumns), round_up(job.columns, kTile));
  c.task_rows = round_up(job.cin, kRows);
  if (!job.single()) {
    c.task_rows = std::min(c.task_rows, kTotalElements / c.panel_columns / kRows * kRows);
  }
  const int64_t wanted = threads > 1 ? kTasksPerThread * threads : 1;
  while (task_count(job) < wanted && c.panel_columns > kLeastPanelColumns) {
    c.panel_columns = std::max(kLeastPanelColumns, round_up(c.panel_columns / 2, kTile));
  }
  while (task_count(job) < wanted && c.task_rows > kLeastRows) {
    c.task_rows = std::max(kLeastRows, round_up(c.task_rows / 2, kRows));
  }
}

}  // namespace

std::size_t Job::panel_elements() const {
  const int64_t y = config.panel_columns * config.chunk + kSlack;
  return static_cast<std::size_t>(round_up<int64_t>(y + kBlocks * kRows * (x_line() + kTile), 64));
}

std::size_t Job::total_elements() const {
  return single() ? 0 : static_cast<std::size_t>(config.task_rows * config.panel_columns);
}

std::size_t Job::partial_elements() const {
  return config.slabs == 1 ? 0 : static_cast<std::size_t>(config.slabs * problem.weight_elements());
}

Job make_job(const core::Problem& p, int threads) {
  Job job{p, p.lout(), p.cin_per_group(), p.cout_per_group(), 0, 0, {}};
  job.depth = job.lout == 0 ? 0 : p.n * p.l;
  job.columns = job.cout * p.k;
  const int64_t count = job.depth <= kSingleChunk ? 1 : ceil_div(job.depth, kChunk);
  job.config.chunk = std::max<int64_t>(1, ceil_div(job.depth, count));
  choose_slabs(job);
  choose_tasks(job, threads);
  return job;
}

int64_t task_count(const Job& job) {
  return job.config.slabs * job.problem.groups * panels(job) * row_ranges(job);
}

Task task_at(const Job& job, int64_t index) {
  const Config& c = job.config;
  const int64_t ranges = row_ranges(job), row = index % ranges * c.task_rows;
  const int64_t column = index / ranges % panels(job) * c.panel_columns;
  const int64_t rest = index / ranges / panels(job);
  return {rest / job.problem.groups,
          rest % job.problem.groups,
          column,
          std::min(job.columns, column + c.panel_columns),
          row,
          std::min(job.cin, row + c.task_rows)};
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return number(job.cin) + " ci x " + number(job.columns) + " (co, k), depth " + number(job.depth) +
         " in chunks of " + number(c.chunk) + " and " + number(c.slabs) + " slabs, " + number(c.task_rows) +
         " ci x " + number(c.panel_columns) + " (co, k) a task, " + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::outer
