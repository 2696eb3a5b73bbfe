#include "cpu/simd/entry.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/narrow/contract.hpp"
#include "cpu/simd/storage.hpp"

namespace tconv::cpu::narrow {
namespace {

using core::Problem;

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
      const Row& row = job.ends.rows[static_cast<std::size_t>(f)];
      const int64_t r = (f + p.padding) % p.stride, q_first = (f + p.padding) / p.stride;
      job.first_tap[static_cast<std::size_t>(r)] = row.k0;
      const int64_t offset = row.count == 0 ? 0 : row.offset - q_first;
      classes[{offset, row.count}].push_back(co * p.stride + r);
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

Job job_of(const Problem& p) {
  Job job;
  job.problem = p;
  job.ends = rows_of(p);
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

class NarrowKernel final : public plan::Kernel {
 public:
  NarrowKernel(const Problem& problem, int threads)
      : job_(job_of(problem)),
        weights_(round_up<std::size_t>(job_.weight_bytes(), 64)),
        scratch_(round_up<std::size_t>(job_.scratch_bytes(), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t packed_bytes() const override {
    return sizeof(PackedHeader) + weights_ + raw_bytes(job_.problem);
  }
  std::string pack_key() const override {
    const Problem& p = job_.problem;
    const auto number = [](int64_t v) { return std::to_string(v); };
    return std::string("cpu.narrow.1 ") + name_of(p.dtype) + " g" + number(p.groups) + " ci" +
           number(p.cin_per_group()) + " co" + number(p.cout_per_group()) + " k" + number(p.k) + " s" +
           number(p.stride) + " d" + number(p.dilation);
  }
  std::size_t workspace_bytes() const override { return scratch_ * threads_; }
  std::size_t table_bytes() const override { return job_.table_bytes(); }
  std::string describe() const override {
    return job_.config.text() + ", " + std::to_string(job_.row_count()) + " rows in " +
           std::to_string(job_.blocks.size()) + " blocks";
  }

  core::Status pack(const void* weight, void* packed, const plan::RunContext&) const override {
    auto* to = static_cast<std::byte*>(packed);
    const bool finite = reorder_weights(job_, weight, to + sizeof(PackedHeader));
    new (packed) PackedHeader{finite ? 0 : 1};
    if (!finite) std::memcpy(to + sizeof(PackedHeader) + weights_, weight, raw_bytes(job_.problem));
    return {};
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const auto* packed = static_cast<const std::byte*>(operands.weight);
    const std::byte* reordered = packed + sizeof(PackedHeader);
    context.executor.run(job_.tasks(), [&](int64_t task, int32_t slot) {
      run_task(job_, operands, reordered, task,
               context.workspace + scratch_ * static_cast<std::size_t>(slot));
    });
    if (static_cast<const PackedHeader*>(operands.weight)->special != 0) {
      plan::Operands raw = operands;
      raw.weight = reordered + weights_;
      repair_ends(job_.problem, job_.ends, raw, context.executor);
    }
    store_bias_alone(job_.problem, job_.ends, operands, context.executor);
    return {};
  }

 private:
  static std::size_t raw_bytes(const Problem& p) {
    return static_cast<std::size_t>(p.weight_elements()) * size_of(p.dtype);
  }

  Job job_;
  std::size_t weights_, scratch_, threads_;
};

plan::Support valid(const Problem& p) {
  if (p.operation != core::Operation::forward) return plan::Support::no("forward only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (core::Size(p.cout_per_group()) * p.stride > 256)
    return plan::Support::no("more than 256 rows (channel, residue)");
  // The packed layout has every residue, whatever l is.
  if (p.lout() < p.stride) return plan::Support::no("fewer outputs than the stride");
  if (p.weight_elements() > 1 << 18) return plan::Support::no("more than 2^18 weights");
  const int64_t reach = (p.k - 1) * p.dilation / p.stride;
  if (reach > 65536 || core::Size(reach + 512) * p.cin_per_group() > 1 << 19) {
    return plan::Support::no("a tile of x and its halo take more than 2^19 elements");
  }
  return plan::Support::yes();
}

plan::Support supports(const Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  const plan::Support support = valid(p);
  if (!support.ok || options.force_kernel == kEntry.name) return support;
  // ms on one core, narrow and cpu.dense: 64 -> 1 K8 s4 2.5, 4.9; 4 -> 4 K4 s4 0.28, 0.64; 16 -> 8 K4
  // s2 1.4, 1.75; 64 -> 8 K8 s4 18.3, 25.4; 64 -> 16 K8 s4 7.9, 10.3; 4 -> 64 K8 s4 9.7, 11.4.
  if (p.cout_per_group() * p.stride > 64 && p.cin_per_group() > 8) {
    return plan::Support::no("more than 64 rows (channel, residue): a matrix product");
  }
  if ((p.lout() - 1) / p.stride < 64) return plan::Support::no("fewer than 64 positions");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<NarrowKernel>(p, std::max(1, options.threads));
}

}  // namespace

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

const plan::KernelEntry kEntry = {"cpu.narrow", "few rows or few channels in, bound by memory",
                                  core::DeviceKind::cpu, supports, make};

}  // namespace tconv::cpu::narrow
