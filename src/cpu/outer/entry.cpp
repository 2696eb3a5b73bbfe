#include "cpu/simd/entry.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/outer/contract.hpp"
#include "cpu/simd/storage.hpp"

namespace tconv::cpu::outer {

using core::ceil_div;
using dense::kColumnAlign;
using dense::kMaxTile;
using dense::kRows;

namespace {

constexpr int64_t kPanelElements = 96 * 1024;  // Y: 384 KiB of float, half of a 1 MiB L2
constexpr int64_t kMostPanelColumns = 1536, kLeastPanelColumns = 192;
constexpr int64_t kTasksPerThread = 8;

}  // namespace

std::size_t Job::scratch_elements() const {
  return static_cast<std::size_t>(depth * pitch() + kRows * (depth + kMaxTile) + 64);
}

Job make_job(const core::Problem& p, int threads) {
  Job job{p, p.lout(), p.cin_per_group(), p.cout_per_group()};
  job.depth = p.lout() == 0 ? 0 : p.n * p.l;
  job.columns = job.cout * p.k;
  job.blocks = ceil_div(job.cin, kRows);
  job.blocks_per_task = job.blocks;
  const int64_t fit = kPanelElements / std::max<int64_t>(1, job.depth) / kMaxTile * kMaxTile;
  job.panel_columns =
      std::min(std::clamp<int64_t>(fit, kMaxTile, kMostPanelColumns), round_up(job.columns, kColumnAlign));
  const int64_t wanted = threads > 1 ? kTasksPerThread * threads : 1;
  while (task_count(job) < wanted && job.panel_columns > kLeastPanelColumns) {
    job.panel_columns = std::max(kLeastPanelColumns, round_up(job.panel_columns / 2, kColumnAlign));
  }
  while (task_count(job) < wanted && job.blocks_per_task > 8) {
    job.blocks_per_task = std::max<int64_t>(8, job.blocks_per_task / 2);
  }
  return job;
}

int64_t task_count(const Job& job) {
  return job.problem.groups * ceil_div(job.columns, job.panel_columns) *
         ceil_div(job.blocks, job.blocks_per_task);
}

Task task_at(const Job& job, int64_t index) {
  const int64_t chunks = ceil_div(job.blocks, job.blocks_per_task);
  const int64_t panels = ceil_div(job.columns, job.panel_columns);
  const int64_t block = index % chunks * job.blocks_per_task;
  const int64_t column = index / chunks % panels * job.panel_columns;
  return {index / chunks / panels, column, std::min(job.columns, column + job.panel_columns), block,
          std::min(job.blocks, block + job.blocks_per_task)};
}

namespace {

class OuterKernel final : public plan::Kernel {
 public:
  OuterKernel(const core::Problem& problem, int threads)
      : job_(make_job(problem, threads)),
        slot_bytes_(round_up<std::size_t>(job_.scratch_elements() * accumulator_size(problem.dtype), 256)),
        threads_(static_cast<std::size_t>(threads)) {}

  std::size_t workspace_bytes() const override { return slot_bytes_ * threads_; }
  std::string describe() const override {
    const auto number = [](int64_t v) { return std::to_string(v); };
    return number(job_.cin) + " ci x " + number(job_.columns) + " (co, k) in panels of " +
           number(job_.panel_columns) + ", depth " + number(job_.depth) + ", " +
           number(job_.blocks_per_task) + " of " + number(job_.blocks) + " row blocks a task, " +
           number(task_count(job_)) + " tasks";
  }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    context.executor.run(task_count(job_), [&](int64_t index, int32_t slot) {
      compute(job_, task_at(job_, index), operands,
              context.workspace + static_cast<std::size_t>(slot) * slot_bytes_);
    });
    return {};
  }

 private:
  Job job_;
  std::size_t slot_bytes_, threads_;
};

plan::Support supports(const core::Problem& p, const core::DeviceInfo&, const plan::PlanOptions& options) {
  if (p.operation != core::Operation::weight) return plan::Support::no("gradient of the weight only");
  if (std::string far = core::beyond_tiles(p); !far.empty()) return plan::Support::no(std::move(far));
  if (p.n * p.l > kMostDepth) return plan::Support::no("more than 512 positions to sum");
  if (options.force_kernel == kEntry.name) return plan::Support::yes();
  // Y costs about two instructions an element, for all rows; a sum across lanes about 15, for all positions.
  if (p.cin_per_group() < kRows || 2 * p.n * p.l > 15 * p.cin_per_group()) {
    return plan::Support::no("few rows for so many positions");
  }
  if (p.cout_per_group() * p.k < kColumnAlign) return plan::Support::no("fewer than 16 (co, k)");
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const core::Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<OuterKernel>(p, std::max(1, options.threads));
}

}  // namespace

const plan::KernelEntry kEntry = {.name = "cpu.outer",
                                  .summary = "weight gradient of few positions: vectors along (co, k)",
                                  .device = core::DeviceKind::cpu,
                                  .supports = supports,
                                  .make = make,
                                  .y_steps = true,
                                  .strided_bias = true};

}  // namespace tconv::cpu::outer
