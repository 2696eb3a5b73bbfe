// The choice of Config.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/dots/contract.hpp"

namespace tconv::cpu::dots {

using core::ceil_div;

namespace {
constexpr int64_t kTasksPerThread = 3;
constexpr int64_t kMostRows = 1024, kLeastRows = 32;  // of a task: a task loads X for itself

// X that is there at once: so few columns that a tile reads less of it than of the weights, and elements that
// fit in L2. With 4 columns a Zen 3 would lose a tenth.
constexpr int64_t kMostStagedColumns = 3, kMostStaged = 32 * 1024;
}  // namespace

Job make_job(const core::Problem& p, int threads) {
  Job job{p, p.lout(), p.cin_per_group(), p.cout_per_group(), {}};
  Config& c = job.config;
  c.samples = std::clamp<int64_t>(kColumns / p.l, 1, std::max<int64_t>(1, p.n));
  c.co_block = std::clamp<int64_t>(kDepth / p.k, 1, job.cout);
  const int64_t blocks = ceil_div(job.cout, c.co_block);
  const bool all_at_once =
      job.columns() <= kMostStagedColumns && blocks * job.columns() * job.x_pitch() <= kMostStaged;
  c.staged = all_at_once ? blocks : 1;
  c.rows = std::min(job.cin, kMostRows);
  const int64_t wanted = threads > 1 ? kTasksPerThread * threads : 1;
  while (task_count(job) < wanted && c.rows > kLeastRows) {
    c.rows = round_up(ceil_div(c.rows, int64_t{2}), int64_t{4});
  }
  return job;
}

int64_t Job::x_pitch() const {
  // An odd number of cache lines: columns spread over the sets of L1.
  return (ceil_div(config.co_block * problem.k, kPad) | 1) * kPad;
}

std::size_t Job::scratch_elements() const {
  return static_cast<std::size_t>(columns() * (config.staged * x_pitch() + config.rows));
}

int64_t task_count(const Job& job) {
  return job.problem.groups * ceil_div(job.cin, job.config.rows) *
         ceil_div(job.problem.n, job.config.samples);
}

Task task_at(const Job& job, int64_t index) {
  const Config& c = job.config;
  const int64_t ranges = ceil_div(job.cin, c.rows), chunks = ceil_div(job.problem.n, c.samples);
  const int64_t sample = index % chunks * c.samples, row = index / chunks % ranges * c.rows;
  return {index / chunks / ranges, row, std::min(job.cin, row + c.rows), sample,
          std::min(job.problem.n, sample + c.samples)};
}

std::string text(const Job& job) {
  const auto number = [](int64_t v) { return std::to_string(v); };
  return number(job.config.samples) + " samples and " + number(job.config.rows) + " of " + number(job.cin) +
         " rows a task, depth blocks of " + number(job.config.co_block) + " co" +
         (job.config.staged > 1 ? ", all at once, " : ", ") + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::dots
