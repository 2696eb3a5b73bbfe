#include "cuda/sm90/dense_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/tiling.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Must match dense.cuh.
constexpr Sm90Tile kTiles[] = {{"128x256", 2, 256, false}, {"64x512", 1, 256, false},
                               {"128x128", 2, 128, false}, {"64x256", 1, 128, false},
                               {"64x128", 1, 64, false},   {"128x256", 2, 256, true},
                               {"64x256", 1, 128, true}};
constexpr int kSmallestTile = 4;

// What a direct tile marks are tiles of its second launch, second_config's, which has its rows and columns.
constexpr bool marks_fit() {
  for (const Sm90Tile& t : kTiles) {
    if (t.direct && t.columns() != kSm90MarkedColumns) return false;
  }
  return true;
}
static_assert(marks_fit());
constexpr int kMaxHalo = 128;  // positions of a stage before its columns
constexpr int kMinStages = 3, kMinSlots = 4, kMaxSlots = 12;
// What the model says of a plan whose x goes direct is within 10%, of others on long samples mostly too
// little: it was faster on 12 of 13 problems measured, also where the model said 15% slower (n16 ci32 co64
// l131072 k3 s2 in bf16: 0.26 ms against 0.35; n16 ci128 co64 l55104 k4 s2 in tf32: 0.33 against 0.41).
constexpr double kDirectShare = 0.8;
// By operands: of 11 problems in tf32 the model is right of both; in bf16 other plans took 1.2 to 1.8 times
// what it said, most where rows of x begin anywhere (n64 ci128 co128 l65535 k3: 1.19 ms predicted, 2.08
// measured).
constexpr double kOperandShare = 0.95, kOperandShare16 = 0.7;

void set_rows(Sm90Plan& plan, const Problem& p, const Sm90Tile& tile) {
  Sm90Params& k = plan.params;
  const Phases& f = plan.phases;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  set_sizes(k, p, f);
  k.tap_stride = static_cast<int>(f.tap_stride);
  k.k = static_cast<int>(p.k);
  k.ragged = f.count + (f.taps - 1) * f.tap_stride > p.k;
  k.slabs = static_cast<int>(ceil_div(p.cin_per_group(), layout.slab()));
  k.splits = plan.config.splits;
  k.units = static_cast<int>(ceil_div(p.cin_per_group(), kSm90Unit));
  k.unit_slabs = kSm90Unit / layout.slab();
  k.block_couts = kSm90Rows / k.phases;
  k.row_blocks = static_cast<int>(ceil_div(p.cout_per_group(), k.block_couts));
  k.row_runs = static_cast<int>(ceil_div(k.row_blocks, tile.row_blocks));
  const Sm90Packing packing = sm90_packing(p, plan.mode, plan.config.held);
  k.row_block_bytes = packing.row_block_bytes;
  k.marks_at = packing.marks_at;
  k.scales_at = packing.scales_at;
  plan.packed_at = plan.config.held ? sm90_packing(p, plan.mode, false).bytes : 0;
  plan.packed_bytes = packing.bytes + plan.packed_at;
  if (sm90_holds(plan.mode) && !plan.config.held) plan.packed_bytes += sm90_packing(p, plan.mode, true).bytes;
}

void set_columns(Sm90Plan& plan, const Problem& p, const Sm90Tile& tile) {
  Sm90Params& k = plan.params;
  const Phases& f = plan.phases;
  const int64_t reach = (f.count - 1) * f.dilation;
  // The outputs without taps behind a skewed phase reach back as it does, and less than a stride further.
  k.first_u = std::min(p.padding / p.stride, core::floor_div(p.padding - reach, p.stride));
  const int64_t multiple = plan.config.aligned ? 16 : 2;  // 16-bit types load pairs
  k.first_u = core::floor_div(k.first_u, multiple) * multiple;
  set_columns(k, p, f, tile.columns(), plan.config.folded);
  k.partial = k.folded || k.splits > 1;
  k.skewed = reach >= p.stride;
}

// How the epilogue stages a warpgroup's outputs.
void set_epilogue(Sm90Plan& plan, const Sm90Tile& tile) {
  Sm90Params& k = plan.params;
  const int element = sm90_layout(plan.mode, plan.config.held).element, vector = 16 / element;
  const int pass = sm90_pass(tile, element);
  const int reach = (k.phases - 1) * k.dilation;
  k.span = pass * k.stride + (k.skewed ? reach : 0);
  k.row_vectors = pass * k.stride / vector;
  k.row_turn = 128 / k.row_vectors;
  k.row_rest = 128 % k.row_vectors;
  k.vectors_div = Divisor::of(static_cast<uint32_t>(k.row_vectors));
  k.span_div = Divisor::of(static_cast<uint32_t>(k.span));
  // 8 words modulo 32 from row to row, as far as one phase a cout goes: 4 lanes a row, two columns each.
  k.row_pitch = round_up(k.span + vector, 2 * vector);
  if (k.phases == 1 && k.row_pitch % 64 == 0) k.row_pitch += 2 * vector;
}

// Places in shared memory, in order: x, weights, staged outputs, tables, barriers; as many stages as fit.
void set_shared(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90Params& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  k.tap_group = static_cast<int>(std::min<int64_t>(k.taps, kMaxHalo / k.step + 1));
  k.tap_groups = static_cast<int>(ceil_div(k.taps, k.tap_group));
  k.halo = round_up(k.step * (k.tap_group - 1), 2);  // even, so that 16-bit types load pairs
  k.width = tile.columns() + k.halo;
  k.x_pitch = round_up(k.width, 8);
  const int64_t stage = int64_t{layout.parts} * kSm90Blocks * k.x_pitch * 16;
  k.stage_bytes = static_cast<int>(stage);
  const int64_t slot = int64_t{tile.row_blocks} * layout.parts * kSm90BlockBytes;
  const int64_t staging =
      k.partial ? 0 : round_up<int64_t>(2LL * k.block_couts * k.row_pitch * layout.element, 128);
  const int64_t table =
      round_up<int64_t>(kSm90RowBytes * kSm90Rows * tile.row_blocks + (k.skewed ? 4 * k.stride : 0), 16);
  const int64_t all_taps = std::min<int64_t>(k.slabs, ceil_div(k.units, k.splits) * k.unit_slabs) * k.taps;
  const int64_t rest = limit - staging - table - 8 * kSm90MaxStages - kSm90ScaleBytes - 128;
  auto stages_with = [&](int64_t slots) { return (rest - slots * (slot + 16)) / (stage + 16); };

  k.resident = plan.config.resident;
  int64_t slots = all_taps;
  if (!k.resident) {
    slots = std::clamp<int64_t>(2 * k.tap_group, kMinSlots, kMaxSlots);
    while (slots > kMinSlots && stages_with(slots) < kMinStages) --slots;
  }
  int64_t stages = std::min<int64_t>(stages_with(slots), kSm90MaxStages);
  if (plan.config.stages > 0) stages = std::min<int64_t>(stages, plan.config.stages);
  plan.shared_bytes = 0;
  if (stages < 2) return;  // a stage is released only when the next one is being multiplied
  k.stages = static_cast<int>(stages);
  k.slots = static_cast<int>(slots);
  k.shared_weights = round_up(static_cast<int>(stages * stage), 128);
  k.shared_stage = static_cast<int>(k.shared_weights + slots * slot);
  k.shared_table = static_cast<int>(k.shared_stage + staging);
  k.shared_small = static_cast<int>(k.shared_table + table);
  k.shared_scale = k.shared_small + 8 * kSm90MaxStages;
  k.shared_barriers = k.shared_scale + kSm90ScaleBytes;
  plan.shared_bytes = static_cast<std::size_t>(k.shared_barriers + 16 * (stages + slots));
}

// Blocks along the columns: as many as the SMs hold at once, each with its equal share.
int walkers_of(const Sm90Params& k, const core::DeviceInfo& d, int64_t tiles) {
  const int64_t rows = int64_t{k.row_runs} * k.groups * k.splits;
  const int64_t most = std::max<int64_t>(1, rows < d.sm_count ? d.sm_count / rows : 1);
  return static_cast<int>(ceil_div(tiles, ceil_div(tiles, most)));
}

// Everything but the cost; blocks is 0 where it does not fit.
Sm90Plan laid_out(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config) {
  Sm90Plan plan{};
  plan.mode = sm80_mode(p);
  plan.config = config;
  plan.phases = phases_of(p);
  const Sm90Tile& tile = kTiles[config.tile];
  if (plan.phases.count > kSm90Rows || (tile.direct && config.folded)) return plan;
  plan.config.aligned = config.aligned || tile.direct;
  set_rows(plan, p, tile);
  set_columns(plan, p, tile);
  Sm90Params& k = plan.params;
  if (tile.direct) {
    if (!sm90_direct_takes(plan, p)) return plan;
    sm90_set_direct(plan, tile, d.shared_per_block);
  } else {
    set_epilogue(plan, tile);
    set_shared(plan, tile, d.shared_per_block);
  }
  if (plan.shared_bytes == 0) return plan;
  if (k.partial) {
    plan.partial_bytes = 4LL * k.splits * k.groups * k.row_blocks * kSm90Rows * k.partial_columns;
  }
  if (config.walkers == 0)
    plan.config.walkers = walkers_of(k, d, std::max(1, tile.direct ? k.half_rounds : k.column_tiles));
  k.walkers = plan.config.walkers;
  if (tile.direct && k.resident) plan.counter_bytes = 4LL * k.groups * k.row_runs;
  if (config.held) plan.tile_marks_bytes = 8LL * k.splits * k.groups * k.row_runs * k.column_tiles;
  plan.config.stages = k.stages;
  plan.blocks = int64_t{k.walkers} * k.row_runs * k.groups * k.splits;
  return plan;
}

// Of a plan that holds float32 in float16: tiles of the same rows and columns with operands in tf32.
Sm90Config second_config(const Sm90Plan& plan) {
  Sm90Config config = plan.config;
  const Sm90Tile& tile = kTiles[config.tile];
  for (int t = 0; tile.direct && t < static_cast<int>(std::size(kTiles)); ++t) {
    if (!kTiles[t].direct && kTiles[t].row_blocks == tile.row_blocks && kTiles[t].n == tile.n)
      config.tile = t;
  }
  config.held = config.resident = false;
  config.stages = 0;
  if (tile.direct) config.walkers = 0;
  return config;
}

// What it marks must have a second launch.
bool has_second(const Sm90Plan& plan, const Problem& p, const core::DeviceInfo& d) {
  if (!plan.config.held) return true;
  return laid_out(p, d, second_config(plan)).blocks > 0;
}

Sm90Plan plan_with(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config) {
  Sm90Plan plan = laid_out(p, d, config);
  if (plan.blocks > 0 && !has_second(plan, p, d)) plan.blocks = 0;
  if (plan.blocks > 0) plan.cost = sm90_cost(plan, p, d, kTiles[config.tile]);
  return plan;
}

double weighed(const Sm90Plan& plan) {
  if (!kTiles[plan.config.tile].direct) return plan.cost.total;
  if (plan.params.tap_group > 0) return plan.cost.total * kDirectShare;
  const bool wide = sm90_layout(plan.mode, plan.config.held).element == 4;
  return plan.cost.total * (wide ? kOperandShare : kOperandShare16);
}

// forced_splits > 0: the plan's bits are not to depend on n, so nothing is held in float16 either: which
// tiles leave its range would depend on the tiles. Nor does x go direct: sums have another order there.
Sm90Plan cheapest(const Problem& p, const core::DeviceInfo& d, int forced_splits, int most_splits) {
  Sm90Plan best{};
  const Phases phases = phases_of(p);
  const Sm80Mode mode = sm80_mode(p);
  const int64_t units = ceil_div(p.cin_per_group(), kSm90Unit);
  for (int t = 0; t < static_cast<int>(std::size(kTiles)); ++t) {
    for (const int splits : kTensorSplits) {
      if (splits > units || (forced_splits > 0 && splits != forced_splits)) continue;
      if (splits > most_splits) continue;
      for (const bool folded : {false, true}) {
        if (folded && !may_fold(p, phases)) continue;
        for (const bool resident : {false, true}) {
          for (const bool held : {false, true}) {
            if (held && (!sm90_holds(mode) || forced_splits > 0)) continue;
            if (!sm90_has(mode, held, t)) continue;
            if (kTiles[t].direct && (splits > 1 || forced_splits > 0)) continue;
            Sm90Config config;
            config.tile = t;
            config.splits = splits;
            config.resident = resident;
            config.folded = folded;
            config.held = held;
            Sm90Plan plan = laid_out(p, d, config);
            if (plan.blocks == 0 || (forced_splits == 0 && plan.partial_bytes > kMaxPartialBytes)) continue;
            plan.cost = sm90_cost(plan, p, d, kTiles[t]);
            if (best.blocks > 0 && weighed(plan) >= weighed(best)) continue;
            if (has_second(plan, p, d)) best = plan;
          }
        }
      }
    }
  }
  return best;
}

}  // namespace

std::span<const Sm90Tile> sm90_tiles() {
  return kTiles;
}

const Sm90Tile& sm90_tile(const Sm90Config& config) {
  return kTiles[config.tile];
}

bool sm90_has(Sm80Mode mode, bool held, int tile) {
  const Sm90Tile& t = kTiles[tile];
  const bool ieee = mode == Sm80Mode::ieee;
  if (mode == Sm80Mode::f64 || (held && !sm90_holds(mode))) return false;
  if (t.direct) return ieee ? held && t.row_blocks == 1 : held == (mode == Sm80Mode::tf32);
  return ieee ? !held && t.n < 256 : !held || t.n < 256;
}

Sm90Packing sm90_packing(const Problem& p, Sm80Mode mode, bool held) {
  const Phases f = phases_of(p);
  const Sm90Layout layout = sm90_layout(mode, held);
  const int64_t row_blocks = ceil_div(p.cout_per_group(), kSm90Rows / f.count) * p.groups;
  Sm90Packing packing{};
  packing.row_block_bytes =
      ceil_div(p.cin_per_group(), layout.slab()) * f.taps * layout.parts * kSm90BlockBytes;
  packing.scales_at = packing.row_block_bytes * row_blocks;
  packing.marks_at = packing.scales_at + (held ? round_up<int64_t>(4 * p.cout, kSm90Marks) : 0);
  packing.bytes = round_up<int64_t>(packing.marks_at + kSm90Marks * row_blocks, 256);
  return packing;
}

Sm90Plan sm90_second(const Sm90Plan& plan, const Problem& p, const core::DeviceInfo& d) {
  return plan_with(p, d, second_config(plan));
}

Sm90Plan sm90_plan_of(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config) {
  return plan_with(p, d, config);
}

Sm90Plan sm90_plan(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  if (!batch_invariant) return cheapest(p, d, 0, kAnySplits);
  Problem one = p;
  one.n = 1;
  const int splits = cheapest(one, d, 0, most_shared_splits(one, phases_of(one))).config.splits;
  return cheapest(p, d, splits, kAnySplits);
}

bool sm90_fits(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  // The smallest tile with streamed weights, unsplit; partial sums take less still, as they stage no outputs.
  Sm90Config smallest;
  smallest.tile = kSmallestTile;
  return laid_out(p, d, smallest).blocks > 0 || sm90_plan(p, d, batch_invariant).blocks > 0;
}

}  // namespace tconv::cuda
