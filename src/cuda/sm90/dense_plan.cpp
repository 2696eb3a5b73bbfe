#include "cuda/sm90/dense_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/candidates.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/bound.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// The tiles that a plan with tensor copies marks are tiles of its second launch, that of second_config, which
// has the same rows and columns.
constexpr bool marks_fit() {
  for (const Sm90Tile& t : kSm90Tiles) {
    if (t.tma && t.columns() != kSm90MarkedColumns) return false;
  }
  return true;
}
static_assert(marks_fit());

// Row blocks of a cout: one, or a part of one, up to 64 phases.
int64_t cout_blocks_of(const Phases& f) {
  return ceil_div(f.count, int64_t{kSm90Rows});
}
Sm90Packing packing_of(const Problem& p, const Phases& f, Arithmetic mode, bool scaled) {
  const Sm90Layout layout = sm90_layout(mode, scaled);
  const int64_t row_blocks = sm90_row_blocks(p, f) * p.groups;
  Sm90Packing packing{};
  packing.row_block_bytes =
      ceil_div(p.cin_per_group(), layout.slab()) * f.taps * layout.parts * kSm90PartBytes;
  packing.scales_at = packing.row_block_bytes * row_blocks;
  packing.marks_at = packing.scales_at + (scaled ? round_up<int64_t>(4 * p.cout, kSm90RowMarks) : 0);
  packing.looked_at = packing.marks_at + kSm90RowMarks * row_blocks;
  const int64_t looked = scaled ? p.cout * kSm90Shares * static_cast<int64_t>(sizeof(Sm90Looked)) : 0;
  packing.bytes = round_up<int64_t>(packing.looked_at + looked, 256);
  return packing;
}

void set_rows(Sm90Plan& plan, const Problem& p, const Sm90Tile& tile) {
  Sm90StageParams& k = plan.params;
  const Phases& f = plan.phases;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  set_sizes(k.sizes, p, f);
  k.sizes.tap_stride = static_cast<int>(f.tap_stride);
  k.sizes.k = static_cast<int>(p.k);
  k.sizes.ragged = f.count + (f.taps - 1) * f.tap_stride > p.k;
  k.grid.slabs = static_cast<int>(ceil_div(p.cin_per_group(), layout.slab()));
  k.grid.splits = plan.config.splits;
  k.grid.units = static_cast<int>(ceil_div(p.cin_per_group(), kSm90Unit));
  k.grid.unit_slabs = kSm90Unit / layout.slab();
  k.sizes.cout_blocks = static_cast<int>(cout_blocks_of(f));
  k.sizes.block_couts = std::max(1, kSm90Rows / k.sizes.phases);
  k.sizes.row_blocks = static_cast<int>(sm90_row_blocks(p, f));
  k.grid.row_runs = static_cast<int>(ceil_div(k.sizes.row_blocks, tile.row_blocks));
  const Sm90Packing packing = packing_of(p, f, plan.mode, plan.config.scaled);
  k.weights.row_block_bytes = packing.row_block_bytes;
  k.weights.marks_at = packing.marks_at;
  k.weights.scales_at = packing.scales_at;
  plan.packed_at = plan.config.scaled ? packing_of(p, f, plan.mode, false).bytes : 0;
  plan.packed_bytes = packing.bytes + plan.packed_at;
  if (sm90_scales(plan.mode) && !plan.config.scaled)
    plan.packed_bytes += packing_of(p, f, plan.mode, true).bytes;
}

void set_columns(Sm90Plan& plan, const Problem& p, const Sm90Tile& tile) {
  Sm90StageParams& k = plan.params;
  const Phases& f = plan.phases;
  const int64_t reach = (f.count - 1) * f.dilation;
  // The outputs without taps after a skewed phase reach back like the phase, by less than a stride more.
  k.columns.first_u = std::min(p.padding / p.stride, core::floor_div(p.padding - reach, p.stride));
  const int64_t multiple = plan.config.aligned ? 16 : 2;  // 16-bit types load pairs
  k.columns.first_u = core::floor_div(k.columns.first_u, multiple) * multiple;
  set_columns(k.columns, p, f, tile.columns(), plan.config.folded);
  k.pass.partial = k.grid.splits > 1 || k.sizes.cout_blocks > 1;
  k.sizes.skewed = reach >= p.stride;
}

// Whether warpgroups draw tiles from a counter. By turns they drift apart, and what they read and write at a
// time lies further and further apart in memory: n64 ci128 co128 l65536 k3 p0 in bf16 takes 0.94 ms by turns
// and 0.76 with the counter, 8 like it of 1.1 to 2.1 GB 0.78 to 0.97 of the time. Of 12 with 130 to 550 MB
// they take 1.01 of it, with 2 and 4 runs of row blocks, each with its own counter, 1.00 and 1.09 (H200); and
// where sums are short and runs are eight or more, two to four times as long (H100).
bool is_drawn(const Sm90Plan& plan, const Problem& p) {
  constexpr double kLarge = 550e6;  // bytes
  const Sm90StageParams& k = plan.params;
  return k.sizes.groups * k.grid.row_runs == 1 && problem_work(p).bytes >= kLarge;
}

}  // namespace

int64_t sm90_row_blocks(const Problem& p, const Phases& f) {
  const int64_t each = cout_blocks_of(f);
  return each > 1 ? p.cout_per_group() * each : ceil_div(p.cout_per_group(), kSm90Rows / f.count);
}

Sm90Plan sm90_laid_out(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config,
                       const Sm90Storing* storing) {
  Sm90Plan plan{};
  plan.mode = arithmetic_of(p);
  plan.config = config;
  plan.phases = phases_of(p);
  const Sm90Tile& tile = kSm90Tiles[config.tile];
  if (tile.tma ? config.folded || plan.phases.count > kSm90Rows : config.resident) return plan;
  plan.config.aligned = config.aligned || tile.tma;
  set_rows(plan, p, tile);
  set_columns(plan, p, tile);
  Sm90StageParams& k = plan.params;
  if (tile.tma) {
    if (!sm90_tma_takes(plan, p)) return plan;
    sm90_set_tma(plan, tile, d.shared_per_block);
  } else {
    sm90_set_gather(plan, tile, d,
                    storing ? *storing : sm90_dense_storing(sm90_layout(plan.mode, config.scaled).parts));
  }
  if (plan.shared_bytes == 0) return plan;
  if (k.pass.partial) {
    plan.partial_bytes =
        4LL * k.grid.splits * k.sizes.groups * k.sizes.row_blocks * kSm90Rows * k.columns.partial_columns;
  }
  if (config.walkers == 0) {
    const int64_t rows = int64_t{k.grid.row_runs} * k.sizes.groups * k.grid.splits;
    const int64_t tiles = std::max(1, tile.tma ? k.tiles.rounds : k.columns.column_tiles);
    plan.config.walkers = static_cast<int>(walkers_of(rows, block_places(d, 1, 1), tiles));
  }
  k.grid.walkers = plan.config.walkers;
  if (config.scaled)
    plan.tile_marks_bytes = 8LL * k.grid.splits * k.sizes.groups * k.grid.row_runs * k.columns.column_tiles;
  plan.config.drawn = tile.tma && k.weights.resident && (config.drawn || is_drawn(plan, p));
  if (plan.config.drawn) plan.counter_bytes = 4LL * k.sizes.groups * k.grid.row_runs;
  plan.config.stages = tile.tma ? k.tma.stages : k.gather.stages;
  plan.blocks = int64_t{k.grid.walkers} * k.grid.row_runs * k.sizes.groups * k.grid.splits;
  return plan;
}

namespace {

// For a plan that holds float32 in float16: tiles of the same rows and columns with operands in tf32.
Sm90Config second_config(const Sm90Plan& plan) {
  Sm90Config config = plan.config;
  const Sm90Tile& tile = kSm90Tiles[config.tile];
  for (int t = 0; tile.tma && t < static_cast<int>(std::size(kSm90Tiles)); ++t) {
    if (!kSm90Tiles[t].tma && kSm90Tiles[t].row_blocks == tile.row_blocks && kSm90Tiles[t].n == tile.n)
      config.tile = t;
  }
  config.scaled = config.resident = false;
  config.stages = 0;
  if (tile.tma) config.walkers = 0;
  return config;
}

// There must be a second launch for what it marks.
bool has_second(const Sm90Plan& plan, const Problem& p, const core::DeviceInfo& d) {
  if (!plan.config.scaled) return true;
  return sm90_laid_out(p, d, second_config(plan)).blocks > 0;
}

Sm90Plan plan_with(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config) {
  Sm90Plan plan = sm90_laid_out(p, d, config);
  if (plan.blocks > 0 && !has_second(plan, p, d)) plan.blocks = 0;
  if (plan.blocks > 0) plan.cost = sm90_cost(plan, p, d, kSm90Tiles[config.tile]);
  return plan;
}

struct Candidate {
  Sm90Config config;
  double least_ms;
  std::size_t place;  // of equal times, the first one's plan is taken
};

// forced_splits > 0: the plan's bits must not depend on n. So nothing is scaled to float16, because which
// tiles leave its range would depend on the tiles; and x does not come by tensor copies, because sums have
// another order there.
std::vector<Candidate> candidates_of(const Problem& p, const core::DeviceInfo& d, int forced_splits,
                                     int most_splits) {
  const Sm90DenseBound bound(p, d);
  const bool folds = may_fold(p, phases_of(p));
  const Arithmetic mode = arithmetic_of(p);
  const int64_t units = ceil_div(p.cin_per_group(), int64_t{kSm90Unit});
  std::vector<Candidate> candidates;
  Sm90Config config;
  for (config.tile = 0; config.tile < static_cast<int>(std::size(kSm90Tiles)); ++config.tile) {
    const bool tma = kSm90Tiles[config.tile].tma;
    if (tma && forced_splits > 0) continue;
    for (const int splits : kTensorSplits) {
      if (splits > std::min<int64_t>(tma ? 1 : most_splits, units)) break;
      if (forced_splits > 0 && splits != forced_splits) continue;
      config.splits = splits;
      for (const bool other : {false, true}) {  // weights that stay, or samples that share tiles
        if (other && !tma && !folds) continue;
        config.resident = other && tma, config.folded = other && !tma;
        for (const bool scaled : {false, true}) {
          if ((scaled && forced_splits > 0) || !sm90_has(mode, scaled, config.tile)) continue;
          config.scaled = scaled;
          candidates.push_back({config, bound.ms(config), candidates.size()});
        }
      }
    }
  }
  return candidates;
}

Sm90Plan cheapest(const Problem& p, const core::DeviceInfo& d, int forced_splits, int most_splits) {
  std::vector<Candidate> candidates = candidates_of(p, d, forced_splits, most_splits);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.least_ms < b.least_ms; });
  Sm90Plan best{};
  std::size_t place = 0;
  for (const Candidate& candidate : candidates) {
    if (best.blocks > 0 && candidate.least_ms > best.cost.total) break;
    Sm90Plan plan = sm90_laid_out(p, d, candidate.config);
    if (plan.blocks == 0 || !sm90_partials_fit(plan, forced_splits > 0)) continue;
    plan.cost = sm90_cost(plan, p, d, sm90_tile(candidate.config));
    const bool better = best.blocks == 0 || plan.cost.total < best.cost.total ||
                        (plan.cost.total == best.cost.total && candidate.place < place);
    if (better && has_second(plan, p, d)) best = plan, place = candidate.place;
  }
  return best;
}

}  // namespace

Sm90GatherParams gather_params(const Sm90StageParams& k) {
  return {{{}, k.sizes, k.columns, k.grid, {}, k.weights, {}}, k.gather, k.pass, k.barriers};
}

Sm90TmaParams tma_params(const Sm90StageParams& k) {
  return {{{}, k.sizes, k.columns, k.grid, {}, k.weights, {}}, k.tma, k.tiles, k.writer, k.barriers};
}

std::span<const Sm90Tile> sm90_tiles() {
  return kSm90Tiles;
}

const Sm90Tile& sm90_tile(const Sm90Config& config) {
  return kSm90Tiles[config.tile];
}

bool sm90_has(Arithmetic mode, bool scaled, int tile) {
  const Sm90Tile& t = kSm90Tiles[tile];
  const bool ieee = mode == Arithmetic::ieee;
  if (mode == Arithmetic::f64 || (scaled && !sm90_scales(mode))) return false;
  if (t.tma) return ieee ? scaled && t.row_blocks == 1 : scaled == (mode == Arithmetic::tf32);
  return t.n < 256 || (!ieee && !scaled);
}

Sm90Packing sm90_packing(const Problem& p, Arithmetic mode, bool scaled) {
  return packing_of(p, phases_of(p), mode, scaled);
}

float sm90_least_sum(const Sm90Plan& plan) {
  // What an operand below the normal range adds to a sum's error, in two parts and in one (fp16_scale.cuh),
  // and what may be added, as a share of the sum: with one part an eighth or less of what the additions of so
  // many products may be off by (tools/judge/bound.hpp).
  if (plan.mode == Arithmetic::ieee) return 0x1p-19f / 0x1p-26f;
  const int products = std::min(1024, plan.params.sizes.cin_group * plan.params.sizes.taps);
  return 0x1p-9f / (0x1p-27f * static_cast<float>(products));
}

PhaseSumParams sm90_sum_params(const Sm90Plan& plan, const Problem& p) {
  const Sm90StageParams& k = plan.params;
  PhaseSumParams s = phase_sum_params(p, plan.phases);
  s.group_rows = int64_t{k.sizes.row_blocks} * kSm90Rows;
  s.split_size = s.group_rows * k.sizes.groups * k.columns.partial_columns;
  s.partial_columns = k.columns.partial_columns;
  s.first_u = k.columns.first_u;
  s.block_couts = k.sizes.block_couts;
  s.block_rows = kSm90Rows * k.sizes.cout_blocks;
  s.cout_rows = k.sizes.phases;
  s.phase_rows = 1;
  s.splits = k.grid.splits;
  s.sample_columns = k.columns.sample_columns;
  return s;
}

bool sm90_partials_fit(const Sm90Plan& plan, bool forced) {
  // Of a plan that cannot do without them, they take as much memory as y in float32, or a little more.
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool chosen = plan.config.splits > 1 || plan.config.folded;
  return forced || plan.partial_bytes <= (chosen ? kMaxPartialBytes : kMost);
}

Sm90Plan sm90_second(const Sm90Plan& plan, const Problem& p, const core::DeviceInfo& d) {
  return plan_with(p, d, second_config(plan));
}

Sm90Plan sm90_plan_of(const Problem& p, const core::DeviceInfo& d, const Sm90Config& config) {
  return plan_with(p, d, config);
}

Sm90Plan sm90_plan(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  static thread_local Memo<Sm90Plan> memo;
  return memo.get(p, d, batch_invariant, [&] {
    if (!batch_invariant) return cheapest(p, d, 0, kAnySplits);
    Problem one = p;
    one.n = 1;
    const int splits = cheapest(one, d, 0, most_shared_splits(one, phases_of(one))).config.splits;
    return cheapest(p, d, splits, kAnySplits);
  });
}

bool sm90_fits(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  // The smallest tile with streamed weights, not split; partial sums take even less, as they stage no
  // outputs.
  Sm90Config smallest;
  smallest.tile = kSm90SmallestTile;
  const Sm90Plan plan = sm90_laid_out(p, d, smallest);
  return (plan.blocks > 0 && sm90_partials_fit(plan, false)) || sm90_plan(p, d, batch_invariant).blocks > 0;
}

}  // namespace tconv::cuda
