#include "cuda/sm90/weight_blocked_plan.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/weight.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

// The planes and shifts of a configuration, and the axis of positions.
bool set_sizes(Sm90WeightBlockedPlan& plan, const Problem& p) {
  const core::Polyphase form(p);
  Sm90WeightBlockedParams& k = plan.params;
  set_steps(k, p);
  k.l = p.l, k.lout = p.lout(), k.stride = p.stride, k.dilation = p.dilation, k.padding = p.padding;
  k.samples = p.n;
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.k = static_cast<int>(p.k);
  k.tap_stride = form.tap_stride * plan.config.y_fold;
  k.step = form.step * plan.config.y_fold;
  const int64_t y_planes = std::min(p.k, k.tap_stride), taps = ceil_div(p.k, k.tap_stride);
  const int64_t x_planes = std::min<int64_t>(taps, plan.config.x_fold);
  const int64_t gap = (taps - 1) * k.step;
  if (gap + p.l >= int64_t{1} << 30 || x_planes * k.cin_group >= 1 << 28 ||
      y_planes * k.cout_group >= 1 << 28 || core::Size(k.cout_group) * p.k >= int64_t{1} << 30) {
    return false;
  }
  k.y_planes = static_cast<int>(y_planes);
  k.x_planes = static_cast<int>(x_planes);
  k.taps = static_cast<int>(ceil_div(taps, x_planes));
  k.shift = static_cast<int>(x_planes * k.step);
  if (k.taps > 1 && k.shift % plan.layout().unit_positions != 0) return false;
  // dy's elements lie at [first, end) of a sample.
  const int64_t first = std::max<int64_t>(0, ceil_div(p.padding - (y_planes - 1) * p.dilation, p.stride));
  const int64_t end = std::min(p.l + gap, core::floor_div(p.lout() - 1 + p.padding, p.stride) + 1);
  k.pitch = std::max<int64_t>({1, end, p.l + gap - first});
  const core::Size all = core::Size(k.pitch) * p.n, reach = core::Size(k.pitch) * p.stride + k.padding;
  constexpr int64_t kFar = int64_t{1} << 30;
  if (all >= kFar / 2 || reach + core::Size(y_planes) * p.dilation >= kFar * 2 - 1) return false;
  if (x_planes * k.step >= kFar || std::max(k.x_step[2], k.y_step[2]) >= kFar ||
      std::min(k.x_step[2], k.y_step[2]) < 0)
    return false;
  plan.positions = p.lout() == 0 || first >= end ? 0 : all.value();
  return true;
}

// The order of columns, row blocks and tiles: two runs of columns (weight_columns.hpp) where they save tiles.
void set_order(Sm90WeightBlockedParams& k, const Sm90WeightBlockedShape& shape) {
  constexpr int64_t kPlanes = 8, kAll = int64_t{1} << 30;
  const int64_t tile_blocks = shape.rows() / 64, rows = ceil_div(k.row_blocks, tile_blocks);
  const int64_t columns = int64_t{k.cout_group} * k.y_planes;
  k.in_tiles = WeightTiles::all(rows, ceil_div(columns, shape.columns));
  k.columns = static_cast<int>(columns);
  bool apart = false;
  int64_t first = k.y_planes, first_run = kAll;
  const int64_t last = k.k - (k.taps - 1) * k.tap_stride;  // phases of the last shift
  if (k.taps > 1 && k.x_planes == 1 && last < k.y_planes) {
    const int64_t run = round_up<int64_t>(k.cout_group * last, kPlanes),
                  both = run + k.cout_group * (k.y_planes - last);
    const WeightTiles tiles =
        WeightTiles::runs(rows, ceil_div(both, shape.columns),
                          ceil_div(k.plane_blocks * (k.taps - 1), tile_blocks), ceil_div(run, shape.columns));
    if (tiles.of_group < k.in_tiles.of_group) {
      k.in_tiles = tiles, apart = true;
      k.columns = static_cast<int>(both), first = last, first_run = run;
    }
  }
  auto by = [](int64_t value) { return Divisor::of(static_cast<uint32_t>(std::max<int64_t>(1, value))); };
  k.in_columns = {static_cast<int>(first), static_cast<int>(k.y_planes - first), static_cast<int>(first_run),
                  by(first), by(k.y_planes - first)};
  k.in_rows = WeightRows::all(k.taps);
  if (apart) k.in_rows = {k.plane_blocks * (k.taps - 1), k.taps - 1, by(k.taps - 1)};
}

bool set_tiles(Sm90WeightBlockedPlan& plan, const Problem& p, const core::DeviceInfo& device) {
  Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedLayout layout = plan.layout();
  const Sm90WeightBlockedShape shape = plan.shape();
  const int64_t x_planes = int64_t{k.cin_group} * k.x_planes, y_planes = int64_t{k.cout_group} * k.y_planes;
  k.plane_blocks = static_cast<int>(ceil_div(x_planes, 64));
  if (int64_t{k.plane_blocks} * k.taps >= 1 << 24) return false;
  k.row_blocks = k.plane_blocks * k.taps;
  k.stage_positions = layout.positions;
  const core::Size tiles =
      core::Size(p.groups) * ceil_div(k.row_blocks, shape.rows() / 64) * ceil_div(y_planes, shape.columns);
  if (tiles >= 1 << 20) return false;
  set_order(k, shape);
  k.tiles = static_cast<int>(p.groups * k.in_tiles.of_group);
  k.x_box = static_cast<int>(std::min<int64_t>(64, round_up<int64_t>(x_planes, layout.unit_planes)));
  k.y_box =
      static_cast<int>(std::min<int64_t>(shape.columns, round_up<int64_t>(k.columns, layout.unit_planes)));
  k.by_x_planes = Divisor::of(static_cast<uint32_t>(k.x_planes));
  k.by_pitch = Divisor::of(static_cast<uint32_t>(k.pitch));
  k.slot_bytes = (shape.rows() + shape.columns) * layout.row_bytes();
  const int64_t room = device.shared_per_block - kSm90WeightBlockedBarriers;
  k.slots = static_cast<int>(std::min<int64_t>(kSm90WeightBlockedMaxSlots, room / k.slot_bytes));
  plan.shared_bytes = static_cast<std::size_t>(kSm90WeightBlockedBarriers) +
                      static_cast<std::size_t>(k.slots) * static_cast<std::size_t>(k.slot_bytes);
  return k.slots >= 2;
}

constexpr int64_t kMostParts = int64_t{1} << 29;  // bytes

// A tile's neighbouring columns lie in different sectors of dw, each of which is then stored many times: of
// an SM, one in a cycle. Through a part and lines they take less (bf16, H200: 92 us instead of 238 for weight
// n1 ci1770 co885 l427 k11).
bool scattered(const Sm90WeightBlockedParams& k, const Problem& p) {
  constexpr int64_t kSector = 32;
  return weight_has_lines(k) && least_phases(k) * static_cast<int64_t>(core::size_of(p.dtype)) < kSector;
}

void set_splits(Sm90WeightBlockedPlan& plan, const Sm90WeightBlockedUnsplit& unsplit, const Problem& p,
                const core::DeviceInfo& device, int splits) {
  Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedShape shape = plan.shape();
  k.splits = std::clamp(splits, 1, std::max(1, k.stages));
  plan.config.splits = k.splits;
  const bool one_chain = plan.mode == Arithmetic::ieee || k.stages <= k.chain;
  plan.blocks = int64_t{k.tiles} * k.splits;
  const int64_t part_bytes = plan.blocks * shape.rows() * shape.columns * 4;
  k.direct = k.splits == 1 && !(scattered(k, p) && part_bytes <= kMostParts);
  const bool parts = !k.direct || !one_chain || plan.chunks > 1;
  plan.part_bytes = parts ? part_bytes : 0;
  plan.cost = sm90_weight_blocked_cost(plan, unsplit, device);
}

Sm90WeightBlockedPlan without_splits(const Problem& p, const core::DeviceInfo& device,
                                     const Sm90WeightBlockedConfig& config) {
  Sm90WeightBlockedPlan plan{arithmetic_of(p), config, {}, {}, {}, {}};
  if (config.scaled && plan.mode != Arithmetic::tf32 && plan.mode != Arithmetic::ieee) return plan;
  if (weight_blocked_has(plan.mode, config.shape) && set_sizes(plan, p) && set_tiles(plan, p, device) &&
      sm90_set_weight_pass(plan, p)) {
    plan.blocks = 1;
  }
  return plan;
}

// Keeps the plan with the cheapest number of splits, of those that fit.
void try_splits(Sm90WeightBlockedPlan& best, const Sm90WeightBlockedPlan& unsplit, const Problem& p,
                const core::DeviceInfo& device) {
  const Sm90WeightBlockedUnsplit cost = sm90_weight_blocked_unsplit(unsplit, p, device);
  if (best.blocks != 0 && cost.least >= best.cost.total) return;
  Sm90WeightBlockedPlan plan = unsplit;
  int last = 0;
  for (int turn = 0; turn <= 6; ++turn) {
    const int64_t wanted = turn == 0 ? 1 : int64_t{device.sm_count} * turn / plan.params.tiles;
    const int splits = static_cast<int>(std::clamp<int64_t>(wanted, 1, 512));
    if (splits == last) continue;
    last = splits;
    set_splits(plan, cost, p, device, splits);
    if (plan.part_bytes > kMostParts) continue;
    if (best.blocks == 0 || plan.cost.total < best.cost.total) best = plan;
  }
}

}  // namespace

Support sm90_weight_blocked_supports(const Problem& p) {
  if (Support takes = weight_supports(p); !takes.ok) return takes;
  if (p.dtype == core::DType::f64) return Support::no("dtype f64: wgmma has no float64");
  return Support::yes();
}

Sm90WeightBlockedPlan sm90_weight_blocked_plan_of(const Problem& p, const core::DeviceInfo& device,
                                                  const Sm90WeightBlockedConfig& config) {
  Sm90WeightBlockedPlan plan = without_splits(p, device, config);
  if (plan.blocks != 0) {
    set_splits(plan, sm90_weight_blocked_unsplit(plan, p, device), p, device, config.splits);
  }
  return plan;
}

namespace {

Sm90WeightBlockedPlan cheapest(const Problem& p, const core::DeviceInfo& device) {
  const core::Polyphase form(p);
  Sm90WeightBlockedPlan best{arithmetic_of(p), {}, {}, {}, {}, {}};
  auto folds = [](int64_t most) {
    std::vector<int> list;
    for (const int64_t fold : {int64_t{1}, int64_t{2}, int64_t{4}, most}) {
      if (fold <= most && fold < 1 << 20 && (list.empty() || list.back() != fold)) {
        list.push_back(static_cast<int>(fold));
      }
    }
    return list;
  };
  for (int shape = 0; shape < kSm90WeightBlockedShapes; ++shape) {
    for (const int y_fold : folds(form.taps)) {
      for (const int x_fold : folds(ceil_div(form.taps, y_fold))) {
        for (const bool scaled : {false, true}) {
          const Sm90WeightBlockedPlan plan = without_splits(p, device, {shape, y_fold, x_fold, 1, 0, scaled});
          if (plan.blocks != 0) try_splits(best, plan, p, device);
        }
      }
    }
  }
  return best;
}

}  // namespace

Sm90WeightBlockedPlan sm90_weight_blocked_plan(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<Sm90WeightBlockedPlan> memo;
  return memo.get(p, device, false, [&] { return cheapest(p, device); });
}

}  // namespace tconv::cuda
