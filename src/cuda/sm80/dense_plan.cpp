#include "cuda/sm80/dense_plan.hpp"

#include <algorithm>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/candidates.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/tensor.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

constexpr int64_t kReservedShared = 1024;  // of each block, by the driver

// The most taps that a group may have. Its halo passes through a block's registers at once, during the last
// tap of the group before, so no group may have a single tap.
int tap_group_of(const Phases& f, const Sm80Tile& tile) {
  const int64_t halo = tile.threads() / kSm80Blocks;
  for (int64_t group = std::min(f.taps, halo / f.step + 1); group > 1; --group) {
    if (f.taps % group != 1) return static_cast<int>(group);
  }
  return 1;
}

void set_problem(Sm80Plan& plan, const Problem& p, const ArithmeticShape& shape, const Sm80Tile& tile) {
  Sm80Params& k = plan.params;
  const Phases& f = plan.phases;
  set_sizes(k, p, f);
  k.last_phases = static_cast<int>(std::min(f.count, p.k - (f.taps - 1) * f.tap_stride));
  k.slabs = static_cast<int>(ceil_div(p.cin_per_group(), shape.slab()));
  k.splits = plan.config.splits;
  k.row_tiles = static_cast<int>(ceil_div(p.cout_per_group(), 16) * f.count);
  k.row_tile_bytes = int64_t{k.slabs} * k.taps * sm80_tile_bytes(shape);
  k.row_blocks = static_cast<int>(ceil_div(k.row_tiles, tile.rows() / 16));
  const int64_t reach = (f.count - 1) * f.dilation;
  k.first_u = std::min(p.padding / p.stride, ceil_div(p.padding - reach, p.stride));
  set_columns(k, p, f, tile.columns(), plan.config.folded);
  k.partial = k.folded || k.splits > 1;
}

// Places in shared memory, in order: x, weights, staged sums, bias, table of phases.
void set_shared(Sm80Plan& plan, const ArithmeticShape& shape, const Sm80Tile& tile) {
  Sm80Params& k = plan.params;
  const Sm80Config& c = plan.config;
  k.tap_group = c.tap_group;
  k.tap_groups = static_cast<int>(ceil_div(k.taps, c.tap_group));
  k.width = tile.columns() + k.step * (c.tap_group - 1);
  k.x_pitch =
      round_up(k.width, 8) + 4;  // 4 mod 8: the two channel blocks of a float64 step lie in other banks
  k.halo = k.width - tile.columns();
  k.halo_shift = 0;
  while (1 << k.halo_shift < k.halo) ++k.halo_shift;
  k.resident = c.resident;
  const int64_t blocks = ceil_div(k.slabs, c.splits) * k.taps;
  const int64_t weight_slots = c.resident ? blocks : tile.slots;
  k.pass_columns = c.pass_columns;
  k.stage_pitch = c.pass_columns + 8;
  const int vector = 16 / shape.element;
  const int64_t extra = std::max<int64_t>(0, int64_t{k.phases - 1} * k.dilation - (k.stride - 1));
  const int64_t slots = int64_t{k.stride} * c.pass_columns + extra;
  k.row_shift = 0;
  while (vector << k.row_shift < c.pass_columns) ++k.row_shift;
  k.row_chunks = static_cast<int>(ceil_div(slots, 32));
  k.row_chunks_div = Divisor::of(static_cast<uint32_t>(k.row_chunks));

  int64_t at = 2LL * shape.parts * kSm80Blocks * k.x_pitch * kSm80UnitBytes;
  k.shared_weights = static_cast<int>(at);
  at += weight_slots * (tile.rows() / 16) * sm80_tile_bytes(shape);
  k.shared_stage = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  if (!k.partial) at += int64_t{tile.rows()} * k.stage_pitch * shape.element + tile.rows() / 16 * 16;
  k.shared_bias = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  at += tile.rows() * shape.sum;
  k.shared_table = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  if (k.stride > 1) at += 8 * k.stride;
  plan.shared_bytes = static_cast<std::size_t>(at);
}

// Blocks that an SM holds at once; 0 if none.
int64_t occupancy(const Sm80Plan& plan, const core::DeviceInfo& d, const Sm80Tile& tile) {
  const int64_t shared = static_cast<int64_t>(plan.shared_bytes) + kReservedShared;
  if (static_cast<int64_t>(plan.shared_bytes) > d.shared_per_block) return 0;
  const int64_t by_registers = tile.blocks_of(shape_of(plan.mode));
  return std::min(by_registers, d.shared_per_sm / shared);
}

// Blocks along the columns: as many as the SMs hold at once, each with an equal share; or one for each tile.
int walkers_of(const Sm80Plan& plan, const core::DeviceInfo& d, int64_t resident_blocks) {
  const Sm80Params& k = plan.params;
  const int64_t tiles = std::max(1, k.column_tiles);
  const int64_t rows = int64_t{k.row_blocks} * k.groups * k.splits, slots = d.sm_count * resident_blocks;
  if (plan.config.walkers == kOneATile)
    return static_cast<int>(std::min<int64_t>(tiles, std::max<int64_t>(1, (1 << 22) / rows)));
  const int64_t most = std::max<int64_t>(1, rows < slots ? slots / rows : ceil_div(4 * slots, rows));
  return static_cast<int>(ceil_div(tiles, ceil_div(tiles, most)));
}

// All configurations that the kernel has for a problem. Whether one fits, its plan says.
std::vector<Sm80Config> candidates(const Problem& p, const SplitLimits& limits) {
  std::vector<Sm80Config> out;
  const Phases phases = phases_of(p);
  const Arithmetic arithmetic = arithmetic_of(p);
  const int64_t slabs = ceil_div(p.cin_per_group(), shape_of(arithmetic).slab());
  // For a tile and a split: how x lies, how much is stored at once, where weights stay, and how many blocks
  // there are.
  const auto add = [&](int index, int splits, bool folded) {
    const Sm80Tile& tile = kSm80Tiles[index];
    const int tap_group = tap_group_of(phases, tile);
    const int least =
        folded || splits > 1 ? tile.columns() : tile.warp_columns();  // partial sums need no passes
    for (int pass = tile.columns(); pass >= least; pass /= 2) {
      for (const bool resident : {false, true}) {
        for (const int walkers : {kFillSms, kOneATile}) {
          out.push_back({index, splits, tap_group, pass, walkers, resident, folded});
        }
      }
    }
  };
  for (int index = 0; index < kSm80TileCount; ++index) {
    if (!sm80_has(arithmetic, index)) continue;
    for (const int splits : kTensorSplits) {
      if (!limits.take(splits, slabs)) continue;
      add(index, splits, false);
      if (may_fold(p, phases)) add(index, splits, true);
    }
  }
  return out;
}

// What the tile, the split and the layout of samples decide.
Sm80Plan begun(const Problem& p, const Sm80Config& config) {
  Sm80Plan plan{};
  plan.mode = arithmetic_of(p);
  plan.config = config;
  plan.phases = phases_of(p);
  const ArithmeticShape shape = shape_of(plan.mode);
  set_problem(plan, p, shape, kSm80Tiles[config.tile]);
  const Sm80Params& k = plan.params;
  plan.packed_bytes = int64_t{k.groups} * k.row_tiles * k.row_tile_bytes;
  plan.marks_at = plan.packed_bytes;
  if (shape.parts == 2) plan.packed_bytes += round_up<int64_t>(int64_t{k.groups} * k.row_tiles, 16);
  if (k.partial) {
    plan.partial_bytes = int64_t{k.splits} * k.groups * k.row_tiles * 16 * k.partial_columns * shape.sum;
  }
  return plan;
}

// The rest, of which there are many variants for each of those. same_shared: what is stored at once and where
// weights stay are as in the plan already.
void finish(Sm80Plan& plan, const Problem& p, const core::DeviceInfo& d, const Sm80Config& config,
            bool same_shared) {
  plan.config = config;
  const Sm80Tile& tile = kSm80Tiles[config.tile];
  Sm80Params& k = plan.params;
  if (!same_shared) set_shared(plan, shape_of(plan.mode), tile);
  const int64_t resident_blocks = occupancy(plan, d, tile);
  plan.blocks = 0;
  if (resident_blocks == 0) return;
  if (config.walkers <= 0) plan.config.walkers = walkers_of(plan, d, resident_blocks);
  k.walkers = plan.config.walkers;
  plan.blocks = int64_t{k.walkers} * k.row_blocks * k.groups * k.splits;
  plan.cost = sm80_cost(plan, p, d, resident_blocks);
}

Sm80Plan cheapest(const Problem& p, const core::DeviceInfo& d, const SplitLimits& limits) {
  Sm80Plan best{}, plan{};
  const Sm80Config* last = nullptr;
  double least = 0;
  const std::vector<Sm80Config> all = candidates(p, limits);
  for (const Sm80Config& config : all) {
    const bool same = last != nullptr && last->tile == config.tile && last->splits == config.splits &&
                      last->folded == config.folded;
    if (!same) {
      plan = begun(p, config);
      least = sm80_least_ms(plan, p, d);
    }
    const bool same_shared =
        same && last->pass_columns == config.pass_columns && last->resident == config.resident;
    last = &config;
    if (best.fits() && least >= best.cost.total) continue;
    finish(plan, p, d, config, same_shared);
    if (!plan.fits() || !limits.take_bytes(plan.partial_bytes)) continue;
    if (!best.fits() || plan.cost.total < best.cost.total) best = plan;
  }
  return best;
}

}  // namespace

Sm80Plan sm80_plan_of(const Problem& p, const core::DeviceInfo& d, const Sm80Config& config) {
  Sm80Plan plan = begun(p, config);
  finish(plan, p, d, config, false);
  return plan;
}

Sm80Plan sm80_plan(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  static thread_local Memo<Sm80Plan> memo;
  return memo.get(p, d, batch_invariant, [&] {
    return choose_plan(p, batch_invariant, [&](const Problem& one, const SplitLimits& limits) {
      return cheapest(one, d, limits);
    });
  });
}

int sm80_tap_group(const Problem& p, int tile) {
  return tap_group_of(phases_of(p), kSm80Tiles[tile]);
}

PhaseSumParams sm80_sum_params(const Sm80Plan& plan, const Problem& p) {
  const Sm80Params& k = plan.params;
  PhaseSumParams s = phase_sum_params(p, plan.phases);
  s.group_rows = int64_t{k.row_tiles} * 16;
  s.split_size = s.group_rows * k.groups * k.partial_columns;
  s.partial_columns = k.partial_columns;
  s.first_u = k.first_u;
  s.block_couts = 16;
  s.block_rows = 16 * k.phases;
  s.cout_rows = 1;
  s.phase_rows = 16;
  s.splits = k.splits;
  s.sample_columns = k.sample_columns;
  return s;
}

}  // namespace tconv::cuda
