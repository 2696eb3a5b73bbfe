// From a problem to the choices of cpu.outer. Chunks and slabs do not depend on the threads.
#include <algorithm>
#include <limits>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/run_cycles.hpp"
#include "cpu/outer/contract.hpp"

namespace tconv::cpu::outer {
namespace {

using core::ceil_div;

constexpr int64_t kChunk = 256;
constexpr int64_t kSingleChunk = kMostDepth;   // up to here no totals
constexpr int64_t kPanelElements = 96 * 1024;  // Y: 384 KiB of float, half of a 1 MiB L2
constexpr int64_t kMostPanelColumns = 32 * kTile;
constexpr int64_t kTotalElements = 256 * 1024;    // 2 MiB of float64 per task
constexpr int64_t kPartialElements = 256 * 1024;  // and of all slabs
// Slabs are added up to kTasks tasks, counted in tasks of this many rows and columns.
constexpr int64_t kTasks = 16, kLeastRows = 64, kLeastPanelColumns = 4 * kTile;
constexpr double kProductCycles = 0.036;

int64_t panels(const Job& job) {
  return ceil_div(job.columns, job.config.panel_columns);
}

int64_t row_ranges(const Job& job) {
  return ceil_div(job.cin, job.config.task_rows);
}

int64_t chunks(const Job& job) {
  return std::max<int64_t>(1, ceil_div(job.depth, job.config.chunk));
}

// Cycles for a column of Y at a position.
double y_cycles(const core::Problem& p) {
  return p.k < 8 ? 1.3 : 0.7;
}

// Splits a depth that few tasks share into slabs, which are tasks of their own.
void choose_slabs(Job& job) {
  Config& c = job.config;
  const int64_t tasks =
      job.problem.groups * ceil_div(job.columns, kLeastPanelColumns) * ceil_div(job.cin, kLeastRows);
  const int64_t most = kPartialElements / std::max<int64_t>(1, job.problem.weight_elements());
  const int64_t wanted = std::clamp<int64_t>(std::min(ceil_div(kTasks, tasks), most), 1, chunks(job));
  c.chunks_per_slab = ceil_div(chunks(job), wanted);
  c.slabs = ceil_div(chunks(job), c.chunks_per_slab);
}

// Cycles of a task on 16 lanes of float32, fitted to random layers: Y, the products and X of each position,
// and for each chunk the move of the sums to dw or to the totals. Each row's part of dw lies in other cache
// lines.
double task_cycles(const Job& job, int64_t slab, int64_t panel_columns, int64_t task_rows) {
  const auto columns = static_cast<double>(panel_columns), rows = static_cast<double>(task_rows);
  const Config& c = job.config;
  // The last slab may have fewer chunks.
  const int64_t of_slab = c.chunk * c.chunks_per_slab, left = job.depth - slab * of_slab;
  const auto positions = static_cast<double>(std::clamp<int64_t>(left, 0, of_slab));
  return 2000 + positions * (columns * y_cycles(job.problem) + rows * (columns * kProductCycles + 0.3)) +
         positions / static_cast<double>(c.chunk) * rows * columns * 0.5 + rows * 60;
}

// Fewer rows or columns per task: then several tasks make the same Y or the same X, but no thread is idle.
void choose_tasks(Job& job, int threads) {
  Config& c = job.config;
  const int64_t fit = std::clamp<int64_t>(kPanelElements / c.chunk / kTile * kTile, kTile, kMostPanelColumns);
  const int64_t most_columns = std::min(fit, round_up(job.columns, kTile));
  int64_t most_rows = round_up(job.cin, kRows);
  if (!job.single()) most_rows = std::min(most_rows, kTotalElements / most_columns / kRows * kRows);
  c.panel_columns = most_columns, c.task_rows = most_rows;
  if (threads == 1) return;
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t across : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int64_t columns =
        round_up(ceil_div(job.columns, ceil_div(job.columns, most_columns) * across), kTile);
    for (const int64_t down : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
      const int64_t rows = round_up(ceil_div(job.cin, ceil_div(job.cin, most_rows) * down), kRows);
      const int64_t tasks =
          job.config.slabs * job.problem.groups * ceil_div(job.columns, columns) * ceil_div(job.cin, rows);
      const auto task = [&](int64_t index) {
        const int64_t ranges = ceil_div(job.cin, rows), row = index % ranges * rows;
        const int64_t panels = ceil_div(job.columns, columns), column = index / ranges % panels * columns;
        const int64_t slab = index / ranges / panels / job.problem.groups;
        return task_cycles(job, slab, std::min(columns, job.columns - column), std::min(rows, job.cin - row));
      };
      const double cycles = run_cycles_of(tasks, threads, task);
      if (cycles < best) best = cycles, c.panel_columns = columns, c.task_rows = rows;
      if (rows <= kRows) break;
    }
    if (columns <= kTile) break;
  }
}

constexpr int64_t kMostPadded = 16 * 1024;  // elements of a padded row: 64 KiB of float

// Padded rows pay where many positions have a tap that misses dy, and where taps lie apart: both would be
// copied one by one.
int64_t padded_row(const Job& job) {
  const core::Problem& p = job.problem;
  if (p.k == 1 || job.depth == 0) return 0;
  const int64_t reach = p.dilation * (p.k - 1);
  const int64_t first = ceil_div(p.padding, p.stride);
  const int64_t inside =
      std::clamp<int64_t>(core::floor_div(job.lout - 1 + p.padding - reach, p.stride) + 1 - first, 0, p.l);
  const bool edges = (p.l - inside) * 8 > p.l, apart = p.dilation > 1 && p.stride == 1;
  if (!edges && !apart) return 0;
  const int64_t pieces = std::min(job.config.chunk, ceil_div(job.config.chunk, p.l) + 1);
  const int64_t elements = p.stride * job.config.chunk + pieces * (reach + 1);
  return elements <= kMostPadded ? round_up<int64_t>(elements + kSlack, 64) : 0;
}

}  // namespace

std::size_t Job::panel_elements() const {
  const int64_t y = config.panel_columns * config.chunk + kSlack;
  return static_cast<std::size_t>(
      round_up<int64_t>(y + kBlocks * kRows * (x_line() + kTile) + config.padded_row, 64));
}

std::size_t Job::total_elements() const {
  if (single() || config.slabs > 1) return 0;  // slabs have their totals in the workspace
  return static_cast<std::size_t>(config.task_rows * config.panel_columns);
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
  job.config.padded_row = padded_row(job);
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
