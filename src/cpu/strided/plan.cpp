// From a problem to the choices of cpu.strided. Pure; nothing is tuned per length.
#include <algorithm>
#include <limits>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/run_cycles.hpp"
#include "cpu/common/task_grid.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::strided {
namespace {

using core::ceil_div;

constexpr int64_t kSumElements = 128 * 1024;  // C of a task with several depth blocks
constexpr int64_t kMinPanelColumns = 192, kMaxPanelColumns = 1536;
constexpr int64_t kMaxCoBlock = 512;
constexpr int64_t kMaxDepth = 4096;  // (co, tap) of a depth block: 128 KiB of a row block's weights in float
constexpr int64_t kMinCoBlock = 8;

// Of tiled panels, measured on a Xeon with AVX-512 and 2 MiB of L2. Strips of one tile keep it in L1, but
// their rows of dy and dx are too many streams: n1 ci64 co64 l54989 takes 8.6 ms then, and 3.2 with strips of
// 768. Whole depths gain 5 to 15% on depth blocks of 512, unless few rows share a panel: its first row block
// waits for dy, and blocks leave room in L2 for the next strip: n2 ci128 co2048 l1324 takes 9.4 ms with them,
// else 9.6 to 12.5.
constexpr int64_t kMaxTiledBlock = 2048, kMaxTiledBlockOfFewRows = 512, kFewRows = 8;
constexpr int64_t kMinStrip = 96, kMaxStrip = 768;
constexpr int64_t kOneStrip = 256;  // columns: a second strip would read the weights again

void choose_strip(Job& job) {
  Config& c = job.config;
  const int64_t all = round_up(std::max<int64_t>(job.split.columns, 1), kColumnAlign);
  const bool few_rows = job.cin * kFewRows <= job.cout;
  c.co_block = ceil_div(job.cout, ceil_div(job.cout, few_rows ? kMaxTiledBlockOfFewRows : kMaxTiledBlock));
  const int64_t most = std::clamp(kPanelElements / c.co_block, kMinStrip, kMaxStrip);
  const int64_t strips = all <= kOneStrip ? 1 : ceil_div(all, most);
  c.strip = round_up(ceil_div(all, strips), kMaxTile);
  c.panel_columns = c.strip * std::min(strips, std::max<int64_t>(1, kMaxPanelColumns / c.strip));
}

void choose_panel(Job& job) {
  if (job.split.tiled) return choose_strip(job);
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

// Cycles of a task on 16 lanes of float32: the panel, raw weights of its row blocks, products and stores.
double task_cycles(const Job& job, int64_t blocks, int64_t panel_columns) {
  const auto columns = static_cast<double>(panel_columns), rows = static_cast<double>(blocks * kRows);
  const auto channels = static_cast<double>(job.cout);
  const double depth = channels * static_cast<double>(job.problem.k);
  const double split = job.problem.stride == 1 ? 0.15 : 0.6;
  const double lines = channels * static_cast<double>(job.split.lines);
  // The weights of a single tile are read in place, which makes its products take a fifth longer.
  const bool single = panel_columns <= kMaxTile;
  return 5000 + lines * (20 + split * (columns + static_cast<double>(job.split.halo))) +
         rows * (depth * (single ? 0.1 : 0.4) + columns * (depth * (single ? 0.044 : 0.036) + 0.3));
}

// With several threads, a task gets fewer row blocks or a shorter panel: then several tasks load the same
// panel or pack the same row block, but no thread is idle.
void spread(Job& job, int threads) {
  Config& c = job.config;
  c.blocks = ceil_div(job.cin, kRows);
  c.blocks_per_task = c.blocks;
  if (!job.one_depth_block()) {
    c.blocks_per_task = std::clamp<int64_t>(kSumElements / (kRows * c.panel_columns), 1, c.blocks);
  }
  if (threads == 1) return;
  const int64_t all = std::max<int64_t>(1, job.split.columns), panels = ceil_div(all, c.panel_columns);
  const int64_t most_blocks = c.blocks_per_task;
  struct {
    int64_t blocks, columns;
  } chosen = {most_blocks, c.panel_columns};
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t across : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int64_t columns = std::min(c.panel_columns, round_up(ceil_div(all, panels * across), kMaxTile));
    for (const int64_t down : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
      const int64_t blocks = ceil_div(c.blocks, ceil_div(c.blocks, most_blocks) * down);
      const int64_t tasks = job.problem.groups * ceil_div(c.blocks, blocks) * ceil_div(all, columns);
      const double cycles = run_cycles(task_cycles(job, blocks, columns), tasks, threads);
      if (cycles < best) best = cycles, chosen = {blocks, columns};
      if (blocks == 1) break;
    }
    if (columns == kMaxTile) break;
  }
  c.blocks_per_task = chosen.blocks, c.panel_columns = chosen.columns;
  c.strip = std::min(c.strip, c.panel_columns);
  job.split.set_columns(c.panel_columns);
}

}  // namespace

std::size_t Job::panel_elements() const {
  if (split.tiled) return static_cast<std::size_t>(config.co_block * config.strip);
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

namespace {

TaskGrid grid_of(const Job& job) {
  const Config& c = job.config;
  return {c.blocks, c.blocks_per_task, job.split.columns, c.panel_columns};
}

}  // namespace

int64_t task_count(const Job& job) {
  return grid_of(job).count(job.problem.groups);
}

Task task_at(const Job& job, int64_t index) {
  return grid_of(job).at<Task>(index);
}

int64_t packed_elements(const Job& job) {
  return job.problem.groups * job.config.blocks * kRows * job.cout * job.problem.k;
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return "rows " + number(job.cin) + ", columns " + number(job.split.columns) + " in panels of " +
         number(c.panel_columns) + " (" + number(job.split.lines) +
         (job.split.expanded ? " taps" : " phases") + " a channel" +
         (job.split.tiled ? ", strips of " + number(c.strip) : "") + "), depth blocks of " +
         number(c.co_block) + " co x " + number(job.split.tap_block) + " taps, " + number(c.blocks_per_task) +
         " of " + number(c.blocks) + " row blocks a task, " + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::strided
