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
constexpr int64_t kTaskOutputs = 1 << 15;  // so that a task's set-up is a small part of it
constexpr int64_t kTasksPerThread = 4;

// Whether groups lie side by side. Each element that moves between rows and vectors then takes about a cycle;
// otherwise a channel's lines and tile take 100 cycles before the first product, fewer at stride 1. us on one
// core, tiles and abreast: 1024 groups K9 s1 L29 60, 34; 512 K7 s1 L60 29, 31; 2048 K4 s4 L5 107, 26; 512 K16
// s8 L12 34, 23, L20 43, 42; 512 groups of two channels K3 s1 L30, four samples, 172, 124.
bool short_rows(const core::Problem& p) {
  constexpr int64_t kMost = 2048, kLeastGroups = 8;  // kMost: they stay in L2
  if (p.groups < kLeastGroups || p.l > kMost || p.lout() > kMost || p.k > kMost) return false;
  const int64_t ci = p.cin_per_group(), co = p.cout_per_group();
  const int64_t moved = ci * p.l + co * p.lout() + ci * co * p.k;
  return moved <= std::min(kMost, (ci + co) * (p.stride == 1 ? 60 : 96));
}

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
  c.abreast = short_rows(p);
  const int64_t together = c.abreast ? kAbreast : 1;
  const int64_t outputs = std::max<int64_t>(1, std::min(c.tile, p.l) * p.cin_per_group() * together);
  c.units_per_task = std::max<int64_t>(1, kTaskOutputs / outputs);
  if (threads > 1) {
    const int64_t share = ceil_div(job.units(), kTasksPerThread * threads);
    c.units_per_task = std::clamp<int64_t>(share, 1, c.units_per_task);
  }
  return job;
}

std::string Config::text() const {
  if (abreast) return "16 groups abreast, " + std::to_string(units_per_task) + " units a task";
  return "tile " + std::to_string(tile) + " positions, " + std::to_string(tiles) + " a channel, " +
         std::to_string(units_per_task) + " units a task";
}

std::size_t Job::scratch_bytes() const {
  const int64_t rows = problem.cin_per_group() * problem.l + problem.cout_per_group() * problem.lout();
  const int64_t elements =
      config.abreast ? (rows + group_weights()) * kAbreast : line_elements() + group_weights() + kSlack;
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

}  // namespace tconv::cpu::strided_depthwise
