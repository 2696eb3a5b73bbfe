// From a problem to the choices of cpu.strided. Pure; nothing is tuned per length.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::strided {
namespace {

using core::ceil_div;

constexpr int64_t kSumElements = 128 * 1024;  // C of a task with several depth blocks
constexpr int64_t kMinPanelColumns = 192, kMaxPanelColumns = 1536;
constexpr int64_t kMaxCoBlock = 512;
constexpr int64_t kMaxDepth = 4096;  // (co, tap) of a depth block: 128 KiB of a row block's weights in float
constexpr int64_t kMinCoBlock = 8;
constexpr int64_t kTasksPerThread = 8;

void choose_panel(Job& job) {
  Config& c = job.config;
  const int64_t all = round_up(std::max<int64_t>(job.split.columns, 1), kColumnAlign);
  const int64_t most = std::clamp(kMaxDepth / job.split.tap_block, kMinCoBlock, kMaxCoBlock);
  c.co_block = ceil_div(job.cout, ceil_div(job.cout, most));
  const int64_t lines = c.co_block * job.split.lines;
  const int64_t columns =
      std::clamp(kPanelElements / lines / kMaxTile * kMaxTile, kMinPanelColumns, kMaxPanelColumns);
  const int64_t panels = ceil_div(all, columns);
  c.panel_columns = std::min(columns, round_up(ceil_div(all, panels), kMaxTile));
  job.split.set_columns(c.panel_columns);
  c.co_block = std::clamp<int64_t>(kPanelElements / job.split.channel(), 1, c.co_block);
}

// Tasks enough for the threads: fewer row blocks each, then shorter panels.
void spread(Job& job, int threads) {
  Config& c = job.config;
  c.blocks = ceil_div(job.cin, kRows);
  c.blocks_per_task = c.blocks;
  if (!job.one_depth_block()) {
    c.blocks_per_task = std::clamp<int64_t>(kSumElements / (kRows * c.panel_columns), 1, c.blocks);
  }
  const int64_t wanted = threads > 1 ? kTasksPerThread * threads : 1;
  const int64_t least = std::min<int64_t>(8, c.blocks_per_task);
  while (task_count(job) < wanted && c.blocks_per_task > least) {
    c.blocks_per_task = std::max(least, c.blocks_per_task / 2);
  }
  while (task_count(job) < wanted && c.panel_columns > kMaxTile) {
    c.panel_columns = round_up(c.panel_columns / 2, kMaxTile);
  }
  job.split.set_columns(c.panel_columns);
}

}  // namespace

std::size_t Job::panel_elements() const {
  return static_cast<std::size_t>(round_up<int64_t>(config.co_block * split.channel(), 64));
}

int64_t Job::sums_line() const {
  return one_depth_block() ? kMaxTile : round_up(config.panel_columns, kMaxTile);
}

std::size_t Job::sum_elements() const {
  return static_cast<std::size_t>(kRows * (one_depth_block() ? 1 : config.blocks_per_task) * sums_line());
}

std::size_t Job::row_elements() const {
  return static_cast<std::size_t>(kRows * config.co_block * split.tap_block);
}

Job make_job(const core::Problem& p, int threads) {
  Job job{p, p.lout(), p.cin_per_group(), p.cout_per_group(), split_panel(p, p.cin_per_group()), {}};
  choose_panel(job);
  spread(job, threads);
  return job;
}

int64_t task_count(const Job& job) {
  const Config& c = job.config;
  return job.problem.groups * ceil_div(c.blocks, c.blocks_per_task) *
         ceil_div(job.split.columns, c.panel_columns);
}

Task task_at(const Job& job, int64_t index) {
  const Config& c = job.config;
  const int64_t panels = ceil_div(job.split.columns, c.panel_columns);
  const int64_t chunks = ceil_div(c.blocks, c.blocks_per_task);
  const int64_t column = index % panels * c.panel_columns,
                block = index / panels % chunks * c.blocks_per_task;
  return {index / panels / chunks, block, std::min(c.blocks, block + c.blocks_per_task), column,
          std::min(job.split.columns, column + c.panel_columns)};
}

int64_t packed_elements(const Job& job) {
  return job.problem.groups * job.config.blocks * kRows * job.cout * job.problem.k;
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return "rows " + number(job.cin) + ", columns " + number(job.split.columns) + " in panels of " +
         number(c.panel_columns) + " (" + number(job.split.lines) +
         (job.split.expanded ? " taps" : " phases") + " a channel), depth blocks of " + number(c.co_block) +
         " co x " + number(job.split.tap_block) + " taps, " + number(c.blocks_per_task) + " of " +
         number(c.blocks) + " row blocks a task, " + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::strided
