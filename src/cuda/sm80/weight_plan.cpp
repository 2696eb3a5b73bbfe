#include "cuda/sm80/weight_plan.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_layout.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using plan::Support;

int step_of(Arithmetic mode) {
  return kWeightStepBytes / shape_of(mode).element;
}

int slots_of(Arithmetic mode, const core::DeviceInfo& device, const WeightTile& tile, int64_t slot_bytes) {
  const int64_t of_sm =
      device.shared_per_sm / weight_resident_blocks(mode, device, tile, slot_bytes) - kSharedOfSystem;
  const int64_t room = std::min(of_sm, device.shared_per_block) / slot_bytes;
  for (const int slots : {kWeightMostSlots, kWeightSomeSlots}) {
    if (slots <= room) return slots;
  }
  return kWeightLeastSlots;
}

void set_layout(WeightPlan& plan, const Problem& p, const core::DeviceInfo& device, const WeightTile& tile,
                bool exact) {
  WeightParams& k = plan.params;
  const int element = shape_of(plan.mode).element, positions = plan.config.piece * plan.config.stage_pieces;
  set_weight_pieces(k, p, plan.config.piece, plan.config.stage_pieces);
  k.chain = std::max(1, kWeightChain / positions);
  const int unit = 16 / element;
  k.line_shift = weight_line_shift(k, unit, tile.threads());
  const int x_unit = element == 8 ? 32 : 16;
  k.x_pitch = static_cast<int>(round_up<int64_t>(int64_t{positions} * element, x_unit));
  if (k.x_pitch / x_unit % 2 == 0) k.x_pitch += x_unit;
  k.y_pitch = weight_y_pitch(k, element, tile.columns(), exact);
  k.slot_bytes = static_cast<int>(
      round_up<int64_t>(int64_t{tile.rows()} * k.x_pitch + int64_t{k.block_couts} * k.y_pitch, 128));
  k.slots = slots_of(plan.mode, device, tile, k.slot_bytes);
  plan.shared_bytes = static_cast<std::size_t>(k.slots) * static_cast<std::size_t>(k.slot_bytes);
}

bool fits(const WeightPlan& plan, const core::DeviceInfo& device) {
  return static_cast<int64_t>(plan.shared_bytes) <= device.shared_per_block;
}

void set_splits(WeightPlan& plan, const core::DeviceInfo& device, const WeightTile& tile,
                const WeightStageCost& stage) {
  WeightParams& k = plan.params;
  set_weight_splits(k, plan.config.splits);
  plan.blocks = int64_t{k.tiles} * k.splits;
  const int64_t sum = plan.mode == Arithmetic::f64 ? 8 : 4;
  plan.part_bytes = k.direct ? 0 : plan.blocks * tile.rows() * tile.columns() * sum;
  set_weight_cost(plan, device, tile, stage);
}

// What all plans of a problem have in common.
WeightPlan begun(const Problem& p, const core::DeviceInfo& device) {
  WeightPlan plan{arithmetic_of(p), {}, {}, {}};
  set_weight_sizes(plan.params, p);
  plan.params.copy = weight_copy(p, nullptr);
  plan.dw_elements = p.weight_elements();
  plan.cost.dram = problem_work(p).bytes / (device.copy_gbps * 1e9);
  return plan;
}

WeightPlan without_splits(const WeightPlan& sized, const Problem& p, const core::DeviceInfo& device,
                          const WeightConfig& config, bool exact) {
  WeightPlan plan = sized;
  plan.config = config;
  const WeightTile& tile = kWeightTileTable[config.tile];
  set_weight_blocks(plan.params, tile.rows(), tile.columns(), config.block_taps, config.block_couts,
                    p.groups);
  plan.params.piece = config.piece;
  if (weight_reach(plan.params) * config.stage_pieces >= 1 << 18) return plan;
  plan.config.block_couts = plan.params.block_couts;
  plan.config.block_taps = plan.params.block_taps;
  set_layout(plan, p, device, tile, exact);
  plan.blocks = fits(plan, device) ? 1 : 0;
  return plan;
}

void try_splits(WeightPlan& best, const WeightPlan& plan, const core::DeviceInfo& device) {
  const WeightTile& tile = kWeightTileTable[plan.config.tile];
  const WeightStageCost stage = weight_stage_cost(plan, device, tile);
  if (best.blocks != 0 && weight_least_seconds(plan, device, stage) >= best.cost.total) return;
  try_weight_splits(best, plan, plan.params.tiles, device,
                    [&](WeightPlan& split) { set_splits(split, device, tile, stage); });
}

}  // namespace

WeightCopy weight_copy(const Problem& p, const void* x) {
  const auto steps = p.x_steps();
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  if (steps[2] != 1 && p.l > 1) return WeightCopy::elements;
  const int64_t places =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(x) % 16) | steps[0] * element | steps[1] * element;
  if (places % 16 == 0) return WeightCopy::vectors;
  return places % 4 == 0 ? WeightCopy::words : WeightCopy::elements;
}

bool weight_has(Arithmetic mode, int tile) {
  if (tile == 0) return mode != Arithmetic::ieee && mode != Arithmetic::f64;
  return tile != 1 || (mode != Arithmetic::f64 && mode != Arithmetic::ieee);
}

Support weight_y_support(const Problem& p) {
  if (p.y_steps()[2] != 1 && p.lout() > 1) return Support::no("positions of dy are not contiguous");
  return Support::yes();
}

Support weight_supports(const Problem& p) {
  if (std::string far = core::beyond_tiles(p); !far.empty()) return Support::no(std::move(far));
  if (Support y = weight_y_support(p); !y.ok) return y;
  // hi*hi + hi*lo + lo*hi differs from a product by up to 2^-22: within the promise for a sum of 16 terms or
  // more, not for a single product.
  if (arithmetic_of(p) == Arithmetic::ieee && core::Size(p.n) * p.l < 16) {
    return Support::no(
        "ieee float32 with fewer than 16 positions: too few to hide the error of split products");
  }
  constexpr int64_t kCount = int64_t{1} << 30;
  const core::Size columns = core::Size(p.cout_per_group()) * p.k;
  if (p.l >= kCount || p.lout() >= kCount || p.padding >= kCount || p.stride >= kCount ||
      p.dilation >= kCount || core::Size(p.n) * (p.l + 128) >= kCount * 4) {
    return Support::no("positions reach 2^30");
  }
  if (columns >= kCount || p.cin >= kCount || core::Size(p.cin) * p.cout_per_group() * p.k >= kCount) {
    return Support::no("elements of the weight reach 2^30");
  }
  return Support::yes();
}

WeightPlan weight_plan_of(const Problem& p, const core::DeviceInfo& device, const WeightConfig& config) {
  WeightPlan plan = without_splits(begun(p, device), p, device, config, true);
  if (plan.blocks == 0) return plan;
  const WeightTile& tile = kWeightTileTable[config.tile];
  set_splits(plan, device, tile, weight_stage_cost(plan, device, tile));
  return plan;
}

namespace {

std::vector<WeightTileTaps> by_bound(const Problem& p, const core::DeviceInfo& device,
                                     const WeightPlan& sized) {
  return weight_tiles_by_bound(kWeightTiles, [&](int tile) {
    if (!weight_has(sized.mode, tile)) return WeightTaps{};
    const WeightTile& t = kWeightTileTable[tile];
    return weight_taps(p, sized.params, t.rows(), t.columns(),
                       [&](int64_t tiles) { return weight_least_seconds(p, device, tile, tiles); });
  });
}

WeightPlan cheapest(const Problem& p, const core::DeviceInfo& device) {
  const Arithmetic mode = arithmetic_of(p);
  WeightPlan best{mode, {}, {}, {}};
  const WeightPlan sized = begun(p, device);
  for (const auto& [least, tile, ways] : by_bound(p, device, sized)) {
    if (best.blocks != 0 && least >= best.cost.total) break;
    const int columns = kWeightTileTable[tile].columns();
    for (int positions = 16; positions <= 128; positions *= 2) {
      for (int piece = step_of(mode); piece <= positions; piece *= 2) {
        // Small pieces waste halos; pieces beyond the sample waste positions.
        if (piece > step_of(mode) && piece / 2 >= p.l) break;
        if (piece < positions && piece < 16 && p.l > piece) continue;
        for (int way = 0; way < ways.count; ++way) {
          if (best.blocks != 0 && ways.least[way] >= best.cost.total) continue;
          int couts = static_cast<int>(std::min<int64_t>(p.cout_per_group(), columns));
          WeightPlan plan;
          for (; couts >= 1; couts /= 2) {  // fewer if their rows are long
            plan = without_splits(sized, p, device,
                                  {tile, piece, positions / piece, ways.taps[way], couts, 1}, false);
            if (plan.blocks != 0) break;
          }
          if (plan.blocks != 0) try_splits(best, plan, device);
        }
      }
    }
  }
  return best;
}

// Whether rows of dy that lie closer together might give an SM room for another block or stage, which saves
// time.
bool depends_on_pitch(const WeightPlan& plan, const core::DeviceInfo& device) {
  const WeightTile& tile = kWeightTileTable[plan.config.tile];
  const int64_t bytes = plan.params.slot_bytes,
                less = bytes - int64_t{kWeightPitchSlack} * plan.params.block_couts;
  return weight_resident_blocks(plan.mode, device, tile, bytes) !=
             weight_resident_blocks(plan.mode, device, tile, less) ||
         slots_of(plan.mode, device, tile, bytes) != slots_of(plan.mode, device, tile, less);
}

}  // namespace

double weight_least_seconds(const Problem& p, const core::DeviceInfo& device) {
  return by_bound(p, device, begun(p, device)).front().least;
}

const WeightPlan& weight_search(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<WeightPlan> memo;
  return memo.get(p, device, false, [&] {
    const WeightPlan best = cheapest(p, device);
    const bool exact = best.blocks != 0 && depends_on_pitch(best, device);
    return exact ? weight_plan_of(p, device, best.config) : best;
  });
}

WeightPlan weight_plan(const Problem& p, const core::DeviceInfo& device) {
  static thread_local Memo<WeightPlan> memo;
  return memo.get(p, device, false, [&] {
    const WeightPlan& found = weight_search(p, device);
    return found.blocks == 0 ? found : weight_plan_of(p, device, found.config);
  });
}

WeightSumParams weight_sum_params(const WeightParams& k, int rows, int columns, int64_t elements) {
  // Few elements with many splits: enough threads to fill an H100, with more than four parts each.
  constexpr int64_t kEnoughThreads = int64_t{1} << 18;
  WeightSumParams s{};
  s.part_size = int64_t{k.tiles} * rows * columns;
  s.elements = static_cast<uint32_t>(elements);
  s.splits = k.splits;
  while (s.runs_shift < 5 && 8 << s.runs_shift < k.splits && elements << s.runs_shift < kEnoughThreads) {
    ++s.runs_shift;
  }
  const auto by = [](int32_t value) { return Divisor::of(static_cast<uint32_t>(value)); };
  s.by_k = by(k.k), s.by_cout = by(k.cout_group), s.by_cin = by(k.cin_group);
  s.by_tap_stride = by(k.tap_stride);
  s.by_rows = by(rows), s.by_couts = by(k.block_couts), s.by_phases = by(k.block_phases);
  s.by_taps = by(k.block_taps);
  s.tile_columns = static_cast<uint32_t>(columns), s.rows = static_cast<uint32_t>(k.rows);
  s.row_tiles = static_cast<uint32_t>(k.row_tiles), s.cout_blocks = static_cast<uint32_t>(k.cout_blocks);
  s.phase_blocks = static_cast<uint32_t>(k.phase_blocks), s.tap_blocks = static_cast<uint32_t>(k.tap_blocks);
  return s;
}

}  // namespace tconv::cuda
