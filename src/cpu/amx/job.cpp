// What follows from the choices of a Job: sizes, tasks, text.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/amx/contract.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/task_grid.hpp"

namespace tconv::cpu::amx {

using core::ceil_div;

namespace {
constexpr int64_t kMostGathered = 256;  // largest stride: a row that is not yet split stays in L2
}

int64_t Job::unit_weights() const {
  const int64_t first = classes[0].row_tiles * classes[0].taps,
                second = classes[1].row_tiles * classes[1].taps;
  return (first + second) * config.steps * kWeights;
}

bool Job::gathers() const {
  const int64_t reach = split.stride * config.panel_columns;
  return split.stride > 1 && split.stride <= kMostGathered && split.place_step == 1 && !split.expanded &&
         split.lines * problem.dilation <= reach;
}

int64_t Job::panel_elements() const {
  return round_up<int64_t>(config.block_steps * step_elements(), 64);
}

// Two rows of 16-bit elements, split by phase or not yet split, with room for one more vector of places.
int64_t Job::pair_elements() const {
  const int64_t row =
      split.stride * (config.panel_columns + split.halo + 2 * kTile) + split.lines * problem.dilation;
  return round_up<int64_t>(std::max(split.channel(), gathers() ? row : 0), 64);
}

// Rounded rows, two residues per element, and the same interleaved; or cpu.dense's run of floats.
int64_t Job::run_elements() const {
  const int64_t rounded = (out.stride / 2 + 3 + out.stride / 2 + 1) * config.group_columns;
  return round_up<int64_t>(std::max(rounded, out.stride * kColumns) + 64, 64);
}

int64_t Job::sum_elements() const {
  return unit_rows() * sums_line() * (one_block() ? 1 : config.units_per_task);
}

namespace {

TaskGrid grid_of(const Job& job) {
  const Config& c = job.config;
  return {c.units, c.units_per_task, job.split.columns, c.panel_columns};
}

}  // namespace

int64_t task_count(const Job& job) {
  return grid_of(job).count(job.problem.groups);
}

Task task_at(const Job& job, int64_t index) {
  return grid_of(job).at<Task>(index);
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return "rows " + number(job.out_channels * job.out.residues) + " in units of " + number(c.channels) +
         " channels (" + number(job.unit_rows()) + " rows), columns " + number(job.split.columns) +
         " in panels of " + number(c.panel_columns) +
         (job.split.lines > 1 ? " (" + number(job.split.lines) + " lines a channel)" : std::string()) +
         ", depth " + number(c.steps) + " x 32 channels x " + number(job.out.taps) + " taps in blocks of " +
         number(c.block_steps) + " steps, " + number(c.units_per_task) + " of " + number(c.units) +
         " units a task, " + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::amx
