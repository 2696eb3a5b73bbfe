#include "cuda/simt/weight.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/simt/problem_class.hpp"
#include "cuda/simt/split_weight.hpp"
#include "cuda/simt/weight_plan.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// A thread adds at most this many products one after the other.
constexpr int64_t kLongest = 512;

// Fitted to 330 problems in bf16, tf32 and ieee on an H200; when fitted to half of them, its median error on
// the rest is 10%. Blocks of an SM share its issue slots, and there are more instructions around a load than
// products. What a block waits for at each turn of its threads is not shared; it grows with the number of
// cache lines that a warp's loads of dy touch.
double seconds_of(const WeightPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  const WeightTile& tile = kWeightTileTable[plan.tile];
  const double rate = p.dtype == core::DType::f64 && device.fp64_gflops < device.fp32_gflops / 4 ? 32 : 1;
  const double sums = tile.cin * tile.cout * tile.taps, of_dy = tile.cout * tile.taps;
  const double apart =
      std::clamp(static_cast<double>(p.stride) * static_cast<double>(size_of(p.dtype)) / 4, 1.0, 16.0);
  const bool half = size_of(p.dtype) == 2;  // widened in registers, loads of two bytes
  const double load = half ? 28 : 19;
  const double cycles = std::max(load * (tile.cin + of_dy) + 12, rate * sums) + 0.25 * of_dy * apart;
  const auto turns = static_cast<double>(ceil_div(plan.params.split_positions, int64_t{kWeightThreads}));
  const auto depth = static_cast<double>(ceil_div(plan.blocks, std::max(1, device.sm_count)));
  const double busy = depth * (turns * cycles + 12 * sums),
               waits = turns * (half ? 800 + 40 * apart : 400 + 5 * apart);
  const double copy = 0.8 * device.copy_gbps * 1e9, bytes = problem_work(p).bytes;
  const double taken = (busy + waits) / 1.6e9 + 0.35 * bytes / copy;
  return 1.5e-6 + std::max(taken, bytes / copy) + (plan.params.splits > 1 ? 3.5e-6 : 0);
}

class Kernel final : public SplitWeightKernel<WeightPlan, WeightFunctions> {
 public:
  Kernel(const Problem& problem, const core::DeviceInfo& device, const plan::PlanOptions&)
      : SplitWeightKernel(problem, device, weight_plan(problem, device),
                          by_dtype(problem.dtype, weight_f32, weight_f64, weight_f16, weight_bf16)()) {}

  std::string describe() const override {
    return std::string("a block ") + kWeightTileTable[plan_.tile].name + " (ci x co x taps), " + tiles_text();
  }
  std::vector<plan::StageLine> stages() const override {
    const WeightTile& tile = kWeightTileTable[plan_.tile];
    return {
        schedule_line(),
        {"source", "x and dy by elements from L1 to registers, any strides"},
        {"product", "fused multiply-adds, a thread every " + std::to_string(kWeightThreads) +
                        "th position of " + std::to_string(tile.cin) + " ci x " + std::to_string(tile.cout) +
                        " co x " + std::to_string(tile.taps) + " taps; a tree adds a block's"},
        epilogue_line(problem_),
        writer_line("from registers, element by element", plan_.params.splits)};
  }

  std::string where(int64_t element) const override {
    const TileSum at = tile_sum(plan_, element);
    return block_text(element, at.tile) + ", sum " + std::to_string(at.sum) +
           " of all threads, added in thread " + std::to_string(at.sum % kWeightThreads);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    return run_as(kSimtWeight.name, kWeightThreads, operands, context);
  }
};

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = simt_refusal(p, device, core::Operation::weight); !words.empty()) {
    return Support::no(std::move(words));
  }
  return supports_split(kSimtWeight, weight_plan(p, device), p, device, options);
}

}  // namespace

TileSum tile_sum(const WeightPlan& plan, int64_t element) {
  const WeightParams& k = plan.params;
  const WeightTile& tile = kWeightTileTable[plan.tile];
  const int64_t tap = element % k.k, co = element / k.k % k.cout_group, ci = element / k.k / k.cout_group;
  const int64_t group = ci / k.cin_group, row = ci % k.cin_group;
  TileSum at{};
  at.tile = ((group * k.row_tiles + row / tile.cin) * k.column_tiles + co / tile.cout) * k.tap_tiles +
            tap / tile.taps;
  at.sum = static_cast<int>((row % tile.cin * tile.cout + co % tile.cout) * tile.taps + tap % tile.taps);
  return at;
}

WeightPlan weight_plan_of(const Problem& p, const core::DeviceInfo& device, int index) {
  const WeightTile& tile = kWeightTileTable[index];
  WeightPlan plan;
  plan.tile = index;
  WeightParams& k = plan.params;
  set_steps(k, p);
  k.l = p.l, k.lout = p.lout(), k.stride = p.stride, k.padding = p.padding, k.dilation = p.dilation,
  k.k = p.k;
  k.cin_group = p.cin_per_group(), k.cout_group = p.cout_per_group();
  k.row_tiles = ceil_div(k.cin_group, tile.cin);
  k.column_tiles = ceil_div(k.cout_group, tile.cout);
  k.tap_tiles = ceil_div(k.k, tile.taps);
  k.tiles = p.groups * k.row_tiles * k.column_tiles * k.tap_tiles;
  k.elements = p.weight_elements();
  const int64_t positions = positions_of(p);
  // About eight blocks per SM, at least sixteen positions per thread, and no thread's sum too long.
  const int64_t wanted = ceil_div(int64_t{8} * std::max(1, device.sm_count), k.tiles);
  const int64_t most = ceil_div(positions, int64_t{kWeightThreads} * 16);
  const int64_t least = ceil_div(positions, int64_t{kWeightThreads} * kLongest);
  const int64_t splits = std::max<int64_t>({1, least, std::min(wanted, most)});
  set_splits(plan, p, splits);
  plan.seconds = seconds_of(plan, p, device);
  return plan;
}

WeightPlan weight_plan(const Problem& p, const core::DeviceInfo& device) {
  WeightPlan best = weight_plan_of(p, device, 0);
  for (int tile = 1; tile < kWeightTiles; ++tile) {
    const WeightPlan other = weight_plan_of(p, device, tile);
    if (other.seconds < best.seconds) best = other;
  }
  return best;
}

}  // namespace simt

const plan::KernelEntry kSimtWeight = {
    .name = "cuda.simt.weight",
    .summary = "weight gradient of few channels a group, and without tensor cores",
    .device = core::DeviceKind::cuda,
    .supports = simt::supports,
    .make = simt::make_kernel<simt::Kernel>,
    .y_steps = true};

}  // namespace tconv::cuda
