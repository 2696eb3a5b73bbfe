// The choice of Config, and the tables of a Job.
#include <algorithm>
#include <map>
#include <utility>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/narrow/contract.hpp"

namespace tconv::cpu::narrow {

using core::Problem;

namespace {

constexpr int64_t kLanes = 16;  // of the widest vector

// Rows whose taps meet the same places of x, split evenly into blocks.
void add_blocks(Job& job, int64_t offset, int64_t taps, const std::vector<int64_t>& rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t blocks = core::ceil_div(count, kBlockRows);
  for (int64_t b = 0; b < blocks; ++b) {
    Block block{offset, taps, 0, {}};
    block.rows.assign(rows.begin() + count * b / blocks, rows.begin() + count * (b + 1) / blocks);
    job.blocks.push_back(std::move(block));
  }
}

void make_blocks(Job& job) {
  const Problem& p = job.problem;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> classes;
  job.first_tap.assign(static_cast<std::size_t>(p.stride), 0);
  for (int64_t co = 0; co < p.cout_per_group(); ++co) {
    for (int64_t f = 0; f < p.stride; ++f) {
      const Residue& residue = job.ends.table[static_cast<std::size_t>(f)];
      const int64_t r = (f + p.padding) % p.stride, q_first = (f + p.padding) / p.stride;
      job.first_tap[static_cast<std::size_t>(r)] = residue.k0;
      const int64_t offset = residue.count == 0 ? 0 : residue.offset - q_first;
      classes[{offset, residue.count}].push_back(co * p.stride + r);
    }
  }
  for (auto& [taps, rows] : classes) {
    std::sort(rows.begin(), rows.end());
    add_blocks(job, taps.first, taps.second, rows);
  }
  int64_t weights = 0;
  for (Block& block : job.blocks) {
    block.weights = weights;
    weights += p.cin_per_group() * block.taps * static_cast<int64_t>(block.rows.size());
    if (block.taps == 0) continue;
    job.lowest = std::min(job.lowest, block.offset - (block.taps - 1) * job.x_step);
    job.highest = std::max(job.highest, block.offset);
  }
}

}  // namespace

Job job_of(const Problem& p) {
  Job job;
  job.problem = p;
  job.ends = residues_of(p);
  job.x_step = job.ends.x_step;
  job.k_step = job.ends.k_step;
  job.lout = p.lout();
  make_blocks(job);
  job.q_begin = p.padding / p.stride;
  job.q_end = (job.lout - 1 + p.padding) / p.stride + 1;
  Config& c = job.config;
  // 384 is a multiple of V*lanes for every block; the part's rows fill at most half of L1.
  c.part = job.row_count() <= 16 ? 384 : job.row_count() <= 32 ? 192 : 96;
  // Many channels are many pages and many streams: 512 -> 1, K 16, stride 8 takes 4.2 ms in place (5.6 ms
  // with all channels at a time), 2.4 ms from bfloat16, which is copied first.
  c.depth = 64;
  c.in_place = p.cin_per_group() <= 128;
  c.tile = std::clamp<int64_t>(65536 / p.cin_per_group() / c.part * c.part, c.part, 6 * 384);
  job.tiles = core::ceil_div(job.q_end - job.q_begin, c.tile);
  const int64_t products = std::min(c.tile, job.q_end - job.q_begin) * job.row_count() * p.cin_per_group();
  c.units_per_task = std::max<int64_t>(1, 65536 / products);
  job.pitch = round_up(c.part + 2 * kLanes + job.highest - job.lowest, kLanes);
  return job;
}

std::string Config::text() const {
  return "tile " + std::to_string(tile) + " positions in parts of " + std::to_string(part) + ", " +
         std::to_string(depth) + " ci at a time, x " + (in_place ? "in place, " : "copied, ") +
         std::to_string(units_per_task) + " units a task";
}

std::size_t Job::table_bytes() const {
  std::size_t bytes = ends.table_bytes() + blocks.capacity() * sizeof(Block);
  for (const Block& block : blocks) bytes += block.rows.capacity() * sizeof(int64_t);
  return bytes + first_tap.capacity() * sizeof(int64_t);
}

std::size_t Job::weight_bytes() const {
  return static_cast<std::size_t>(problem.weight_elements()) * accumulator_size(problem.dtype);
}

std::size_t Job::scratch_bytes() const {
  const int64_t elements = std::min(problem.cin_per_group(), config.depth) * pitch +
                           row_count() * (config.part + kLanes) + problem.cout_per_group();
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

}  // namespace tconv::cpu::narrow
