#include "cpu/simd/entry.hpp"

#include <algorithm>
#include <atomic>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/depthwise/contract.hpp"
#include "cpu/simd/storage.hpp"

namespace tconv::cpu::depthwise {
namespace {

using core::Problem;

constexpr int64_t kLanes = 16;  // of the widest vector; smaller vectors need less padding

// t per unit: long enough to hide a unit's set-up, short enough that x, w and a tile of rows stay in L1/L2.
int64_t tile_of(const Problem& p, Way way) {
  const int64_t per_channel = core::ceil_div(p.lout(), p.stride);
  const int64_t room =
      way != Way::rows_tile ? 4096 / p.cin_per_group() : 16384 / std::clamp<int64_t>(p.lout(), 1, p.stride);
  return std::clamp<int64_t>(room / kLanes * kLanes, kLanes, std::max(kLanes, per_channel));
}

Job job_of(const Problem& p) {
  Job job{p, {}, rows_of(p), p.lout(), 0};
  Config& c = job.config;
  const bool all_residues = job.lout >= p.stride;
  c.way = all_residues && p.stride <= 4     ? Way::interleave
          : all_residues && p.dilation == 1 ? Way::residues
                                            : Way::rows_tile;
  c.tile = tile_of(p, c.way);
  c.tiles = core::ceil_div(core::ceil_div(job.lout, p.stride), c.tile);  // 0 where y is empty
  // Tasks of about 64K outputs.
  const int64_t outputs = std::min(c.tile * p.stride, job.lout) * p.cout_per_group();
  c.units_per_task = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, outputs));
  job.pitch = round_up(c.tile + kLanes + job.rows.highest - job.rows.lowest, kLanes);
  return job;
}

class DepthwiseKernel final : public plan::Kernel {
 public:
  DepthwiseKernel(const Problem& problem, int threads)
      : job_(job_of(problem)),
        scratch_(round_up<std::size_t>(job_.scratch_bytes(), 256)),
        threads_(threads) {}

  std::size_t workspace_bytes() const override { return scratch_ * static_cast<std::size_t>(threads_); }
  std::size_t table_bytes() const override { return job_.rows.table_bytes(); }
  std::string describe() const override { return job_.config.text(); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    std::atomic<bool> finite{true};
    context.executor.run(job_.tasks(), [&](int64_t task, int32_t slot) {
      if (!run_task(job_, operands, task, context.workspace + scratch_ * static_cast<std::size_t>(slot))) {
        finite.store(false, std::memory_order_relaxed);
      }
    });
    if (!finite) repair_ends(job_.problem, job_.rows, operands, context.executor);
    store_bias_alone(job_.problem, job_.rows, operands, context.executor);
    return {};
  }

 private:
  Job job_;
  std::size_t scratch_;
  int threads_;
};

plan::Support supports(const Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::forward) return plan::Support::no("forward only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  const int64_t per_group = p.cin_per_group() * p.cout_per_group();
  if (p.cin_per_group() > 64) return plan::Support::no("more than 64 channels in a group");
  if (p.stride > 4096) return plan::Support::no("stride above 4096");
  if (core::Size(per_group) * p.k > 65536) return plan::Support::no("more than 65536 weights in a group");
  const int64_t reach = (p.k - 1) * p.dilation / p.stride;
  if (core::Size(reach) * p.cin_per_group() > 65536) {
    return plan::Support::no("the taps span more than 65536 positions of a group's channels");
  }
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  // ms on one core, depthwise and cpu.dense, 256 channels, K4 s2, L 8000: 1 a group 1.8, 4.6; 4 2.3, 2.6;
  // 8 3.6, 3.1.
  if (per_group > 24) return plan::Support::no("more than 24 channel pairs in a group: a matrix product");
  if (p.groups == 1) return plan::Support::no("one group");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<DepthwiseKernel>(p, std::max(1, options.threads));
}

}  // namespace

std::string Config::text() const {
  return "tile " + std::to_string(tile) + " positions, " + std::to_string(tiles) + " a channel, " +
         std::to_string(units_per_task) + " units a task, " +
         (way == Way::interleave ? "residues interleaved in registers"
          : way == Way::residues ? "vectors along residues"
                                 : "residues interleaved from a tile");
}

std::size_t Job::scratch_bytes() const {
  const int64_t rows_tile =
      config.way != Way::rows_tile ? 0 : static_cast<int64_t>(rows.rows.size()) * (config.tile + kLanes);
  const int64_t elements = problem.cin_per_group() * pitch + weights_per_group() + kSlack + rows_tile;
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

const plan::KernelEntry kEntry = {"cpu.depthwise", "groups of few channels, vectors along positions",
                                  core::DeviceKind::cpu, supports, make};

}  // namespace tconv::cpu::depthwise
