#include "cuda/simt/outer.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"
#include "cuda/simt/split_weight.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// Fitted to 472 problems in bf16, tf32 and ieee on an H200; the median error is 10%. The blocks of an SM
// share its instructions: a column costs as much as 24 products, for its load and its test. Waiting is not
// shared: at each position a column waits for its load, and waits longer if a warp's 32 columns lie in more
// rows of dy (lines of the cache).
double seconds_of(const OuterPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const OuterTile& tile = kOuterTileTable[plan.tile];
  const OuterParams& k = plan.params;
  const double slow = device.fp64_gflops < device.fp32_gflops / 4 ? 32 : 2;
  const double sums = tile.rows * tile.columns;
  const double cycles = 0.86 * sums * (p.dtype == core::DType::f64 ? slow : 1.0) + 24 * tile.columns;
  const double lines = std::min(32.0, 32.0 / static_cast<double>(p.k) + 1);
  const auto positions = static_cast<double>(k.split_positions);
  const auto depth = static_cast<double>(ceil_div(plan.blocks, std::max(1, device.sm_count)));
  const double busy = depth * (positions * cycles + 62 * sums),
               waits = positions * tile.columns * (49 + lines);
  const double copy = 0.8 * device.copy_gbps * 1e9, all = problem_work(p).bytes;
  const double dw = static_cast<double>(k.elements) * static_cast<double>(size_of(p.dtype));
  const bool split = k.splits > 1;
  const double parts = split ? 1.2 * static_cast<double>(plan.part_bytes) : 0;
  const double taken = (busy + waits) / 1.7e9 + (parts + 0.7 * (all - dw)) / copy;
  return 4e-6 + std::max(taken, all / copy) + (split ? 2.2e-6 : 0);
}

class Kernel final : public SplitWeightKernel<OuterPlan, OuterFunctions> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const plan::PlanOptions&)
      : SplitWeightKernel(problem, device, outer_plan(problem, device),
                          by_dtype(problem.dtype, outer_f32, outer_f64, outer_f16, outer_bf16)()) {}

  std::string describe() const override {
    const OuterTile& tile = kOuterTileTable[plan_.tile];
    return "a block " + std::to_string(tile.rows) + " x " + std::to_string(tile.columns * kOuterThreads) +
           " (ci x (co,k)), " + tiles_text();
  }
  std::vector<plan::StageLine> stages() const override {
    const OuterTile& tile = kOuterTileTable[plan_.tile];
    return {schedule_line(),
            {"source", "x in shared memory, " + std::to_string(kOuterPositions) +
                           " positions at once; dy by elements from L1; any strides"},
            {"product", "fused multiply-adds, a thread " + std::to_string(tile.rows) + " rows ci x " +
                            std::to_string(tile.columns) + " columns (co,k), positions in order"},
            epilogue_line(problem_),
            writer_line("from registers, neighbouring threads neighbouring outputs", plan_.params.splits)};
  }

  std::string where(int64_t element) const override {
    const OuterSum at = outer_sum(plan_, element);
    return block_text(element, at.tile) + ", thread " + std::to_string(at.thread) + ", sums[" +
           std::to_string(at.column) + "][" + std::to_string(at.row) + "]";
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    return run_as(kSimtOuter.name, functions_.tiles[plan_.tile], kOuterThreads, operands, context);
  }
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = simt_refusal(p, device, core::Operation::weight); !words.empty()) {
    return Support::no(std::move(words));
  }
  if (std::max({(p.l + 1) * p.stride, p.k * p.dilation, p.padding, p.lout()}) >= kOuterReach) {
    return Support::no("positions in dy beyond 2^30");
  }
  return supports_split(kSimtOuter, outer_plan(p, device), p, device, options);
}

}  // namespace

OuterSum outer_sum(const OuterPlan& plan, int64_t element) {
  const OuterParams& k = plan.params;
  const OuterTile& tile = kOuterTileTable[plan.tile];
  const int64_t width = k.cout_group * k.k, column = element % width, ci = element / width;
  const int64_t group = ci / k.cin_group, row = ci % k.cin_group,
                block_columns = tile.columns * kOuterThreads;
  OuterSum at{};
  at.tile = (group * k.row_tiles + row / tile.rows) * k.column_tiles + column / block_columns;
  at.thread = static_cast<int>(column % kOuterThreads);
  at.column = static_cast<int>(column % block_columns / kOuterThreads);
  at.row = static_cast<int>(row % tile.rows);
  return at;
}

OuterPlan outer_plan_of(const Problem& p, const core::DeviceInfo& device, int index, int64_t splits) {
  const OuterTile& tile = kOuterTileTable[index];
  OuterPlan plan;
  plan.tile = index;
  OuterParams& k = plan.params;
  set_steps(k, p);
  k.l = static_cast<int>(p.l), k.lout = static_cast<int>(p.lout()), k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride), k.padding = static_cast<int>(p.padding);
  k.dilation = static_cast<int>(p.dilation);
  k.cin_group = p.cin_per_group(), k.cout_group = p.cout_per_group();
  k.row_tiles = ceil_div(k.cin_group, int64_t{tile.rows});
  k.column_tiles = ceil_div(k.cout_group * p.k, int64_t{tile.columns} * kOuterThreads);
  k.tiles = p.groups * k.row_tiles * k.column_tiles;
  k.elements = p.weight_elements();
  set_splits(plan, p, splits);
  plan.seconds = seconds_of(plan, p, device);
  return plan;
}

OuterPlan outer_plan(const Problem& p, const core::DeviceInfo& device) {
  OuterPlan best;
  const int64_t positions = positions_of(p);
  const int64_t least = std::max<int64_t>(1, ceil_div(positions, int64_t{kOuterLongest}));
  for (int tile = 0; tile < kOuterTiles; ++tile) {
    for (int64_t splits = least; splits <= std::max(least, positions / 16); splits *= 2) {
      const OuterPlan plan = outer_plan_of(p, device, tile, splits);
      if (best.blocks == 0 || plan.seconds < best.seconds) best = plan;
      if (plan.blocks > 8 * int64_t{std::max(1, device.sm_count)}) break;  // more splits would only add sums
    }
  }
  return best;
}

}  // namespace simt

const plan::KernelEntry kSimtOuter = {.name = "cuda.simt.outer",
                                      .summary = "weight gradient of few positions, as outer products",
                                      .device = core::DeviceKind::cuda,
                                      .supports = simt::supports,
                                      .make = simt::make_kernel<simt::Kernel>,
                                      .y_steps = true};

}  // namespace tconv::cuda
