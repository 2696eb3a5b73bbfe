#include "cuda/simt/weight_plan.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::floor_div;
using core::Polyphase;
using core::Problem;

namespace {

constexpr int64_t kMostShares = 1024;

// Positions u of a sample that have a product of so many neighbouring taps.
int64_t tile_positions(const Problem& p, const Polyphase& f, int64_t taps) {
  return p.l + (std::min(taps, f.taps) - 1) * f.step;
}

Divisor counted(int64_t tiles, int64_t& product) {
  product *= tiles;
  return Divisor::of(static_cast<uint32_t>(std::min<int64_t>(tiles, kMaxBlocks)));
}

void set_tiles(WeightParams& k, const Problem& p, const Polyphase& f, const WeightTile& tile) {
  k.tiles = p.groups;
  k.by_row_tiles = counted(ceil_div(p.cin_per_group(), tile.cin), k.tiles);
  k.by_column_tiles = counted(ceil_div(p.cout_per_group(), tile.cout), k.tiles);
  k.by_phase_tiles = counted(ceil_div(f.count, k.lane_phases), k.tiles);
  k.by_tap_tiles = counted(ceil_div(f.taps, tile.taps), k.tiles);
}

// Steps of a sample, from the tile's first tap on; and those whose lanes have all products of every tile, of
// taps that fill it included.
void set_steps_of_tile(WeightParams& k, const Problem& p, const Polyphase& f, const WeightTile& tile) {
  const int64_t q = k.lane_positions, steps = ceil_div(tile_positions(p, f, tile.taps), q);
  k.by_sample_steps = Divisor::of(static_cast<uint32_t>(steps));
  k.steps = p.lout() == 0 ? 0 : p.n * steps;
  k.x_wrap = k.x_step[0] - steps * k.x_advance, k.y_wrap = k.y_step[0] - steps * k.y_advance;
  const int64_t last_tap = (int64_t{k.by_tap_tiles.value} - 1) * tile.taps * f.step;
  const int64_t last_o = p.lout() - 1 + p.padding - (f.count - 1) * p.dilation;
  const int64_t last = floor_div(last_o, p.stride) - last_tap - (q - 1);
  const int64_t first = std::max(ceil_div((tile.taps - 1) * f.step, q), ceil_div(p.padding, p.stride * q));
  const int64_t end = std::min(p.l / q, floor_div(last, q) + 1);
  k.inside_first = static_cast<int>(std::clamp<int64_t>(first, 0, steps));
  k.inside_end = static_cast<int>(std::clamp<int64_t>(end, 0, steps));
}

void set_shares(WeightPlan& plan, int64_t shares) {
  WeightParams& k = plan.params;
  shares = std::max(shares, ceil_div(k.steps, int64_t{kWeightLongest}));
  k.log_tile_warps = shares >= 4 ? 2 : shares >= 2 ? 1 : 0;
  k.tile_warps = 1 << k.log_tile_warps;
  const int64_t splits = ceil_div(shares, int64_t{k.tile_warps});
  k.share_steps = static_cast<int>(std::max<int64_t>(1, ceil_div(k.steps, splits * k.tile_warps)));
  k.splits = std::max<int64_t>(1, ceil_div(k.steps, int64_t{k.share_steps} * k.tile_warps));
  plan.config.shares = shares;
  plan.blocks = ceil_div(k.tiles, int64_t{kWeightWarps / k.tile_warps}) * k.splits;
}

// Fitted to 4,386 configurations of 100 drawn layers in f32 and bf16 on an H100: half of them are within 7%.
// The configuration that the model prefers takes 1.02 times as long as a layer's fastest. Cycles of an SM
// that a step of a warp on each of its schedulers takes, by tile, if all its products lie inside; for a load
// from a tap that is no neighbour; and for a step that is tested, as a factor and beside it.
constexpr double kTileCycles[] = {7, 6, 7, 9, 27, 38, 29, 46, 33, 33, 67, 79};
static_assert(std::size(kTileCycles) == kWeightTiles);
constexpr double kFarLoad = 2.8, kTestedFactor = 1.6, kTested = 24;
// Cycles: of a block for each of a lane's sums; that a block waits; that the loads of several steps take.
constexpr double kLaneSum = 62, kBlockWaits = 2400, kLoadsWait = 650, kClock = 1.7e9;
constexpr double kStart = 2.1e-6, kSecond = 2.3e-6, kSplit = 0.026e-6;  // seconds; of the second kernel
// Bytes that tiles read again come from the L2 cache. What binds a block overlaps in part.
constexpr double kAgain = 0.03;

// Cycles of a step of the plan's tile, on average.
double step_cycles(const WeightPlan& plan, const Problem& p, const DeviceInfo& device) {
  const WeightTile& tile = plan.tile();
  const WeightParams& k = plan.params;
  // Float64 on GPUs that have few units for it.
  const double slow = p.dtype == core::DType::f64 && device.fp64_gflops < device.fp32_gflops / 4 ? 32 : 0;
  const double sums = tile.cin * tile.cout * tile.taps;
  const double step =
      kTileCycles[plan.config.tile] + slow * sums + (plan.near ? 0 : kFarLoad * tile.cin * tile.taps);
  const double inside = std::max(0, k.inside_end - k.inside_first) / double(k.by_sample_steps.value);
  return inside * step + (1 - inside) * (kTestedFactor * step + kTested);
}

// What plans of one tile have in common.
struct TileCost {
  double cycles;  // of a step
  double memory;  // seconds
  double least;   // seconds, of all its plans
};

TileCost tile_cost(const WeightPlan& plan, const Problem& p, const DeviceInfo& device) {
  const WeightParams& k = plan.params;
  const double cycles = step_cycles(plan, p, device);
  const double dy_again = double(k.by_row_tiles.value) * k.by_tap_tiles.value - 1;
  const double x_again = double(k.by_column_tiles.value) * k.by_tap_tiles.value * k.by_phase_tiles.value - 1;
  const auto again = static_cast<double>(size_of(p.dtype)) * (x_again * static_cast<double>(p.x_elements()) +
                                                              dy_again * static_cast<double>(p.y_elements()));
  const double memory = (problem_work(p).bytes + kAgain * again) / (device.copy_gbps * 1e9);
  const double warps = static_cast<double>(k.tiles) * static_cast<double>(k.steps) / kWeightWarps;
  const double busy = warps * cycles / kClock / std::max(1, device.sm_count);
  return {cycles, memory, kStart + std::max(busy, memory)};
}

double seconds_of(const WeightPlan& plan, const TileCost& cost, const Problem& p, const DeviceInfo& device) {
  const WeightTile& tile = plan.tile();
  const WeightParams& k = plan.params;
  const double sums = tile.cin * tile.cout * tile.taps;
  const auto depth = static_cast<double>(ceil_div(plan.blocks, std::max(1, device.sm_count)));
  const double waves = std::ceil(depth / weight_blocks(tile.cin * tile.cout, static_cast<int>(sums),
                                                       p.dtype == core::DType::f64 ? 8 : 4));
  const double busy = depth * (k.share_steps * cost.cycles + kLaneSum * sums);
  const double waits = waves * (std::ceil(double(k.share_steps) / tile.at_once) * kLoadsWait + kBlockWaits);
  // To the power of 3/2, and back.
  const auto power = [](double v) { return v * std::sqrt(v); };
  const double all = power(busy / kClock) + power(waits / kClock) + power(cost.memory);
  const double bound = std::cbrt(all * all);
  return kStart + bound + (k.splits > 1 ? kSecond + kSplit * static_cast<double>(k.splits) : 0);
}

}  // namespace

double weight_least_seconds(const Problem& p, const DeviceInfo& device) {
  constexpr double kMostPerCycle = 58;  // products of an SM, in the tile that has most for its cycles
  const double products = problem_work(p).flops / 2 / kMostPerCycle / kClock / std::max(1, device.sm_count);
  return kStart + std::max(products, problem_work(p).bytes / (device.copy_gbps * 1e9));
}

std::string weight_refusal(const Problem& p) {
  const Polyphase f(p);
  // What is named beyond the last position: a step, and the positions that fill it.
  const int64_t positions = tile_positions(p, f, f.taps) + 64;
  const bool fits = p.stride < kWeightReach / 64 && positions < kWeightReach &&
                    positions < (kWeightReach - p.padding) / p.stride && p.k < kWeightReach / p.dilation;
  return fits ? "" : "positions, outputs or taps beyond 2^30";
}

namespace {

// Without a tile.
WeightPlan of_problem(const Problem& p, const Polyphase& f) {
  WeightPlan plan;
  WeightParams& k = plan.params;
  set_steps(k, p);
  k.elements = p.weight_elements();
  k.l = static_cast<int>(p.l), k.lout = static_cast<int>(p.lout()), k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride), k.padding = static_cast<int>(p.padding);
  k.dilation = static_cast<int>(p.dilation);
  k.cin_group = static_cast<int>(p.cin_per_group()), k.cout_group = static_cast<int>(p.cout_per_group());
  k.phases = static_cast<int>(f.count), k.tap_stride = static_cast<int>(f.tap_stride);
  k.step = static_cast<int>(f.step);
  k.lane_phases = std::min(k.phases, 32), k.lane_positions = 32 / k.lane_phases;
  k.by_lane_phases = Divisor::of(static_cast<uint32_t>(k.lane_phases));
  k.step_outputs = k.stride * k.lane_positions;
  k.x_advance = k.lane_positions * k.x_step[2], k.y_advance = k.step_outputs * k.y_step[2];
  k.tap_advance = k.step * k.x_step[2];
  plan.near = k.tap_advance == 1;
  return plan;
}

// blocks: 0 if there are more tiles than a block can count.
void set_tile(WeightPlan& plan, const Problem& p, const Polyphase& f, int tile) {
  plan.config.tile = tile;
  set_tiles(plan.params, p, f, plan.tile());
  set_steps_of_tile(plan.params, p, f, plan.tile());
  plan.blocks = plan.params.tiles < kMaxBlocks - kWeightWarps ? 1 : 0;
}

void finish(WeightPlan& plan, const Problem& p) {
  WeightParams& k = plan.params;
  k.by_tile_blocks = Divisor::of(static_cast<uint32_t>(plan.blocks / k.splits));
  const std::size_t sum = p.dtype == core::DType::f64 ? 8 : 4;
  if (k.splits > 1) plan.part_bytes = static_cast<std::size_t>(k.splits * k.elements) * sum;
}

}  // namespace

WeightPlan weight_plan_of(const Problem& p, const DeviceInfo& device, const WeightConfig& config) {
  const Polyphase f(p);
  WeightPlan plan = of_problem(p, f);
  set_tile(plan, p, f, config.tile);
  if (plan.blocks == 0) return plan;
  const TileCost cost = tile_cost(plan, p, device);
  set_shares(plan, config.shares);
  plan.seconds = seconds_of(plan, cost, p, device);
  finish(plan, p);
  return plan;
}

namespace {

WeightPlan cheapest(const Problem& p, const DeviceInfo& device) {
  WeightPlan best;
  if (!weight_refusal(p).empty()) return best;
  const Polyphase f(p);
  WeightPlan plan = of_problem(p, f);
  for (int tile = 0; tile < kWeightTiles; ++tile) {
    set_tile(plan, p, f, tile);
    if (plan.blocks == 0) continue;
    const TileCost cost = tile_cost(plan, p, device);
    if (best.blocks != 0 && cost.least >= best.seconds) continue;
    for (int64_t shares = 1; shares <= kMostShares; shares *= 2) {
      set_shares(plan, shares);
      plan.seconds = seconds_of(plan, cost, p, device);
      if (best.blocks == 0 || plan.seconds < best.seconds) best = plan;
      if (plan.params.share_steps <= plan.tile().at_once) break;
    }
  }
  if (best.blocks != 0) finish(best, p);
  return best;
}

}  // namespace

const WeightPlan& weight_plan(const Problem& p, const DeviceInfo& device) {
  static thread_local Memo<WeightPlan> memo;
  return memo.get(p, device, false, [&] { return cheapest(p, device); });
}

TileSum tile_sum(const WeightPlan& plan, int64_t element) {
  const WeightParams& k = plan.params;
  const WeightTile& tile = plan.tile();
  const int64_t of_k = element % k.k, co = element / k.k % k.cout_group, ci = element / k.k / k.cout_group;
  const int64_t phase = of_k % k.tap_stride, tap = of_k / k.tap_stride;
  const int64_t group = ci / k.cin_group, row = ci % k.cin_group;
  TileSum at{};
  at.tile =
      ((group * int64_t{k.by_row_tiles.value} + row / tile.cin) * k.by_column_tiles.value + co / tile.cout) *
          k.by_phase_tiles.value +
      phase / k.lane_phases;
  at.tile = at.tile * k.by_tap_tiles.value + tap / tile.taps;
  at.sum = static_cast<int>((row % tile.cin * tile.cout + co % tile.cout) * tile.taps + tap % tile.taps);
  at.phase = static_cast<int>(phase % k.lane_phases);
  return at;
}

}  // namespace tconv::cuda::simt
