// The choice of Config, and the tables of a Job.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/strided_depthwise/contract.hpp"

namespace tconv::cpu::strided_depthwise {
namespace {

using core::ceil_div;

constexpr int64_t kTileAlign = 16;         // of the widest vector
constexpr int64_t kLineElements = 8192;    // of all lines of a unit: they stay in L1 or close to it
constexpr int64_t kTaskOutputs = 1 << 15;  // a task's set-up is then a small part of it
constexpr int64_t kTasksPerThread = 4;

}  // namespace

Job job_of(const core::Problem& p, int threads) {
  core::Problem one = p;
  one.n = 1;
  Job job{p, {}, strided::split_panel(one, p.cin_per_group())};
  Config& c = job.config;
  const int64_t room = kLineElements / (p.cout_per_group() * job.split.lines) - job.split.halo;
  c.tile = std::clamp<int64_t>(room / kTileAlign * kTileAlign, 8 * kTileAlign, 4096);
  c.tile = std::min(c.tile, round_up(std::max<int64_t>(p.l, 1), kTileAlign));
  c.tiles = ceil_div(p.l, c.tile);
  job.split.set_columns(c.tile);
  const int64_t outputs = std::max<int64_t>(1, std::min(c.tile, p.l) * p.cin_per_group());
  c.units_per_task = std::max<int64_t>(1, kTaskOutputs / outputs);
  if (threads > 1) {
    const int64_t share = ceil_div(job.units(), kTasksPerThread * threads);
    c.units_per_task = std::clamp<int64_t>(share, 1, c.units_per_task);
  }
  return job;
}

std::string Config::text() const {
  return "tile " + std::to_string(tile) + " positions, " + std::to_string(tiles) + " a channel, " +
         std::to_string(units_per_task) + " units a task";
}

std::size_t Job::scratch_bytes() const {
  const int64_t elements = line_elements() + group_weights() + kSlack;
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

}  // namespace tconv::cpu::strided_depthwise
