// The choice of Config, and the tables of a Job.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/depthwise/contract.hpp"

namespace tconv::cpu::depthwise {

using core::Problem;

namespace {

constexpr int64_t kLine = 4096;  // outputs of a line: 16 KiB of L1
constexpr int64_t kLanes = 16;   // of the widest vector; smaller vectors need less padding

// t per unit: long enough to hide a unit's set-up, short enough to keep x, w and a tile of rows in L1 or L2.
int64_t tile_of(const Problem& p, Way way, bool stream) {
  const int64_t per_channel = core::ceil_div(p.lout(), p.stride);
  int64_t room =
      way != Way::rows_tile ? 4096 / p.cin_per_group() : 16384 / std::clamp<int64_t>(p.lout(), 1, p.stride);
  if (stream) room = std::min(room, kLine / std::clamp<int64_t>(p.lout(), 1, p.stride));
  return std::clamp<int64_t>(room / kLanes * kLanes, kLanes, std::max(kLanes, per_channel));
}

// Taps that meet x at no output only multiply zeros: short samples would spend most of their time on them.
void drop_far_taps(Job& job) {
  Residues& r = job.residues;
  const int64_t last = core::ceil_div(job.lout, job.problem.stride) - 1;  // t
  bool any = false;
  for (Residue& residue : r.table) {
    const int64_t begin = std::max<int64_t>(0, core::ceil_div(residue.offset - job.problem.l + 1, r.x_step));
    const int64_t end = std::min(residue.count, core::floor_div(last + residue.offset, r.x_step) + 1);
    residue.count = std::max<int64_t>(0, end - begin);
    residue.k0 += begin * r.k_step;
    residue.offset -= begin * r.x_step;
    if (residue.count == 0) {
      residue.offset = 0;
      continue;
    }
    const int64_t lowest = residue.offset - (residue.count - 1) * r.x_step;
    r.lowest = any ? std::min(r.lowest, lowest) : lowest;
    r.highest = any ? std::max(r.highest, residue.offset) : residue.offset;
    any = true;
  }
  if (!any) r.lowest = r.highest = 0;
}

}  // namespace

Job job_of(const Problem& p, bool stream, int threads) {
  Job job{p, {}, residues_of(p), {}, p.lout(), 0};
  Config& c = job.config;
  job.flat = flat_of(p, job.residues, threads);
  const bool all_residues = job.lout >= p.stride;
  c.way = job.flat.taps > 0                 ? Way::flat
          : all_residues && p.stride <= 4   ? Way::interleave
          : all_residues && p.dilation == 1 ? Way::residues
                                            : Way::rows_tile;
  if (c.way != Way::residues && p.l > 0) drop_far_taps(job);
  c.stream = stream;
  c.tile = tile_of(p, c.way, stream);
  c.tiles = core::ceil_div(core::ceil_div(job.lout, p.stride), c.tile);  // 0 if y is empty
  // Tasks of about 64K outputs.
  const int64_t outputs = std::min(c.tile * p.stride, job.lout) * p.cout_per_group();
  c.units_per_task = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, outputs));
  job.pitch = round_up(c.tile + kLanes + job.residues.highest - job.residues.lowest, kLanes);
  return job;
}

std::string Config::text() const {
  return "tile " + std::to_string(tile) + " positions, " + std::to_string(tiles) + " a channel, " +
         std::to_string(units_per_task) + " units a task, " +
         (way == Way::interleave ? "residues interleaved in registers"
          : way == Way::residues ? "vectors along residues"
                                 : "residues interleaved from a tile") +
         (stream ? ", y past the caches" : "");
}

int64_t Job::line_elements() const {
  return config.stream ? config.tile * std::min(problem.stride, lout) + kLanes : 0;
}

int64_t Job::tasks() const {
  if (config.way != Way::flat) return core::ceil_div(units(), config.units_per_task);
  return core::ceil_div(problem.groups, flat.blocks * kFlatGroups) * core::ceil_div(problem.n, flat.samples);
}

int64_t Job::flat_raw_elements() const {
  return kFlatGroups * (weights_per_group() + problem.cout_per_group()) + kFlatOverrun;  // whole lines
}

int64_t Job::flat_x_pitch() const {
  return flat.blocks * kFlatGroups * problem.cin_per_group() * problem.l + kFlatOverrun;
}

std::size_t Job::scratch_bytes() const {
  if (config.way == Way::flat) {
    const int64_t elements =
        flat_raw_elements() + flat.blocks * flat.outputs * (flat.taps + 1) + kFlatSamples * flat_x_pitch();
    return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
  }
  const int64_t rows_tile =
      config.way != Way::rows_tile ? 0 : static_cast<int64_t>(residues.table.size()) * (config.tile + kLanes);
  const int64_t elements =
      problem.cin_per_group() * pitch + weights_per_group() + kSlack + rows_tile + line_elements();
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

}  // namespace tconv::cpu::depthwise
