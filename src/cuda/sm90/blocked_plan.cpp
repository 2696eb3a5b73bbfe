#include "cuda/sm90/blocked_plan.hpp"

#include <algorithm>
#include <bit>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/candidates.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

// Its own columns: a sample's first output lies at a multiple of 8 columns, whatever its place in y, so that
// outputs of stride 1 may go to y as vectors. Unless samples are folded and so short that they would leave
// more than an eighth of the columns empty: then they lie close to each other.
void set_columns(Sm90StageParams& k, const Problem& f, const Phases& phases, int tile_columns, bool folded) {
  constexpr int64_t kUnit = 8;
  const int64_t reach = (phases.count - 1) * phases.dilation;
  const int64_t last = core::floor_div(f.lout() - 1 + f.padding, f.stride);
  const int64_t first =
      std::min(core::floor_div(f.padding, f.stride), core::floor_div(f.padding - reach, f.stride));
  k.columns.first_u = first;
  k.columns.folded = folded;
  int64_t tiles = 0;
  if (folded) {
    // Where a tap reaches back over a sample's beginning, it must meet the zeros after the sample before it.
    const int64_t reaches = f.l + (phases.taps - 1) * phases.step - first;
    const auto columns_from = [&](int64_t u) { return std::max({last - u + 1, f.l - u, reaches}); };
    const int64_t close_u = std::min<int64_t>(first, 0),
                  apart_u = first - (first > 0 ? round_up(first, kUnit) : 0);
    const int64_t apart = round_up(columns_from(apart_u), kUnit);
    k.columns.close = kUnit * apart > (kUnit + 1) * columns_from(close_u);
    k.columns.first_u = k.columns.close ? close_u : apart_u;
    const int64_t columns = k.columns.close ? columns_from(close_u) : apart;
    k.columns.sample_columns = static_cast<int>(columns);
    k.columns.sample_pitch = Divisor::of(static_cast<uint32_t>(columns));
    tiles = ceil_div(f.n * columns, int64_t{tile_columns});
  } else {
    const int64_t each = ceil_div(std::max<int64_t>(1, last - first + 1), int64_t{tile_columns});
    k.columns.sample_columns = static_cast<int>(each * tile_columns);
    k.columns.sample_tiles = Divisor::of(static_cast<uint32_t>(each));
    tiles = f.n * each;
  }
  k.columns.column_tiles = static_cast<int>(tiles);
  k.columns.partial_columns = tiles * tile_columns;
}

// How many stages of x there are. Slots of weights reach almost as far ahead: what comes from L2 takes as
// long as several products (n16 ci512 co256 l512 k16 s8 in bf16, two taps: 0.11 ms with 4 slots). 0: they do
// not fit.
int stages_in(const Sm90BlockedPlan& plan, int64_t rest, int64_t slot) {
  constexpr int kMinSlots = 3;
  const Sm90GatherSource& k = plan.main.params.gather;
  const int least = plan.main.config.turned ? sm90_turned_least_stages(plan) : 2;
  for (int stages = kSm90MaxStages; stages >= least; --stages) {
    const int64_t slots =
        std::max<int64_t>(kMinSlots, stages > least ? int64_t{stages - 1} * k.tap_group + 1 : 0);
    if (int64_t{stages} * (k.stage_bytes + kSm90BarrierBytes) + slots * slot <= rest) return stages;
  }
  return 0;
}

// Places in shared memory, in the order of gather_plan.cpp.
void set_places(Sm90BlockedPlan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90StageParams& k = plan.main.params;
  Sm90RawSource& raw = plan.raw;
  const Sm90Layout layout = sm90_layout(plan.main.mode, plan.main.config.scaled);
  const bool turned = plan.main.config.turned;
  const int64_t slot = int64_t{tile.row_blocks} * layout.parts * kSm90PartBytes;
  const int64_t staging = sm90_staging_bytes(k, layout.element);
  const int64_t table = round_up<int64_t>(
      kSm90RowBytes * kSm90Rows * tile.row_blocks + (k.sizes.skewed ? 4 * k.sizes.stride : 0), 16);
  const int64_t nowhere = turned ? 16 * 32 * sm90_turners(tile.n) : 0;
  if (turned) sm90_set_raw_places(plan);
  const int ring = raw.places * raw.place_bytes;
  const int64_t rest = limit - staging - table - nowhere - ring - kSm90BarrierBytes * raw.places -
                       8 * kSm90MaxStages - kSm90ScaleBytes - 256;
  plan.main.shared_bytes = 0;
  k.gather.stages = stages_in(plan, rest, slot + kSm90BarrierBytes);
  if (k.gather.stages == 0) return;
  const int64_t stages = int64_t{k.gather.stages} * (k.gather.stage_bytes + kSm90BarrierBytes);
  const int64_t slots = std::min<int64_t>((rest - stages) / (slot + kSm90BarrierBytes),
                                          k.gather.stages * k.gather.tap_group + 2);
  k.weights.slots = static_cast<int>(slots);
  raw.shared = round_up(k.gather.stages * k.gather.stage_bytes, 128);
  k.weights.shared = round_up(raw.shared + ring, 128);
  k.pass.shared = static_cast<int>(k.weights.shared + slots * slot);
  k.pass.shared_rows = static_cast<int>(k.pass.shared + staging);
  raw.nowhere = static_cast<int>(k.pass.shared_rows + table);
  k.gather.shared_marks = static_cast<int>(raw.nowhere + nowhere);
  k.gather.shared_scale = k.gather.shared_marks + 8 * kSm90MaxStages;
  k.barriers = k.gather.shared_scale + kSm90ScaleBytes;
  raw.barriers = static_cast<int>(k.barriers + kSm90BarrierBytes * (k.gather.stages + slots));
  plan.main.shared_bytes = static_cast<std::size_t>(raw.barriers + kSm90BarrierBytes * raw.places);
}

void set_shared(Sm90BlockedPlan& plan, const Sm90Tile& tile, int64_t limit) {
  sm90_set_passes(plan.main, tile, [&] { set_places(plan, tile, limit); });
}

// Whether rows of y are stored line by line, not by passes. Of samples that share tiles, only where rows of y
// begin on 16 bytes, so that vectors of columns are vectors of y.
bool stores_lines(const Sm90BlockedPlan& plan) {
  const Problem& f = plan.form.product;
  if (f.stride != 1 || plan.main.config.splits > 1) return false;
  return !plan.main.config.folded || (!plan.main.params.columns.close && rows_on_vectors(f));
}

Sm90Storing storing_of(Arithmetic mode, const Sm90Config& config) {
  return sm90_blocked_storing(sm90_tile(config).n, sm90_layout(mode, config.scaled).parts);
}

// What the plan of the gathered way sets otherwise.
void set_main(Sm90BlockedPlan& plan, const DeviceInfo& d) {
  const Problem& f = plan.form.product;
  Sm90Plan& main = plan.main;
  Sm90StageParams& k = main.params;
  const Sm90Tile& tile = sm90_tile(main.config);
  set_columns(k, f, main.phases, tile.columns(), main.config.folded);
  k.pass.lines = stores_lines(plan);
  k.pass.partial = main.config.splits > 1 || k.sizes.cout_blocks > 1;
  if (main.config.turned) sm90_set_raw(plan);
  // An SM's shared memory is what one block may have and kReserved bytes of each block.
  constexpr int64_t kReserved = 1024;
  plan.blocks_of_sm = sm90_blocks_of_sm(tile.n, sm90_layout(main.mode, main.config.scaled).parts);
  set_shared(plan, tile, (d.shared_per_block + kReserved) / plan.blocks_of_sm - kReserved);
  if (main.shared_bytes == 0 && plan.blocks_of_sm > 1) {
    plan.blocks_of_sm = 1;
    set_shared(plan, tile, d.shared_per_block);
  }
  while (main.shared_bytes == 0 && main.config.turned && sm90_shrink_raw_places(plan)) {
    set_shared(plan, tile, d.shared_per_block);
  }
  main.config.stages = k.gather.stages;
  if (main.shared_bytes > 0) sm90_set_turns(main, storing_of(main.mode, main.config));
  const int64_t rows = int64_t{k.grid.row_runs} * k.sizes.groups * k.grid.splits;
  k.grid.walkers = static_cast<int>(
      walkers_of(rows, block_places(d, plan.blocks_of_sm, 1), std::max(1, k.columns.column_tiles)));
  main.config.walkers = k.grid.walkers;
  main.blocks = k.grid.walkers * rows;
  main.partial_bytes = k.pass.partial ? 4LL * k.grid.splits * k.sizes.groups * k.sizes.row_blocks *
                                            kSm90Rows * k.columns.partial_columns
                                      : 0;
}

// Positions before column 0 that the taps of an output reach.
int64_t front_of(const Sm90Plan& plan) {
  const Phases& f = plan.phases;
  return std::max<int64_t>(0, (f.taps - 1) * f.step - (f.first - plan.params.columns.first_u));
}

void set_blocking(Sm90BlockedPlan& plan, const Problem& asked, const DeviceInfo& d) {
  const Problem& f = plan.form.product;
  Sm90StageParams& k = plan.main.params;
  Sm90BlockingParams& b = plan.blocking;
  const bool transposed = asked.operation == core::Operation::transposed;
  const auto steps = transposed ? asked.x_steps() : asked.y_steps();
  std::copy_n(steps.begin(), 3, b.from_step);
  b.l = f.l, b.first_u = k.columns.first_u;
  b.samples = static_cast<int32_t>(f.n);
  b.stride = 1, b.phases = 1, b.length = f.l;
  b.channels = f.cin_per_group();
  if (plan.form.planes) {
    const DeepTaps& deep = plan.form.deep;
    b.stride = deep.stride, b.dilation = deep.dilation, b.padding = deep.padding, b.length = deep.length;
    b.phases = deep.phases;
    b.channels = asked.cout_per_group();
  }
  b.front = static_cast<int32_t>(front_of(plan.main));
  const int64_t last = core::floor_div(f.lout() - 1 + f.padding, f.stride);
  const bool folded = k.columns.folded;
  b.sample_columns = folded ? k.columns.sample_columns : 0;
  b.row_samples = folded ? 1 : b.samples;
  b.pitch = b.front + (folded ? f.n * k.columns.sample_columns : std::max<int64_t>(1, last - b.first_u + 1));
  b.block_units = b.row_samples * b.pitch;
  b.blocks = k.grid.slabs * kSm90Blocks;
  b.rows = int64_t{k.sizes.groups} * b.blocks * b.row_samples;
  b.lanes = 8;
  b.phase_slabs = plan.main.config.phased;
  // Two warps: threads beyond the end of a row cost more than longer runs gain (H100: rows of 626 units by 64
  // lanes instead of 256 take 0.72 of the time in tf32, 0.86 in bf16; long rows the same).
  constexpr int kMost = 64;
  const int most =
      b.phase_slabs ? std::min(kMost, kSm90BlockingThreads >> std::bit_width(unsigned(b.phases - 1))) : kMost;
  while (b.lanes < most && kSm90BlockingPositions * b.lanes < b.pitch) b.lanes *= 2;
  const int64_t tiles = ceil_div(b.pitch, int64_t{kSm90BlockingPositions} * b.lanes);
  const int64_t row_blocks = ceil_div(b.rows, int64_t{kSm90BlockingThreads} / b.lanes);
  // As many turns as leave an SM 12 blocks, which are three or four for each place. With 16, n16 ci256 co256
  // l4096 k11 in tf32 takes 47 us instead of 41; with 8, n16 ci512 co256 l862 k16 s8 in ieee 72 instead of 69
  // (the passes of Conv1d, H200).
  constexpr int64_t kMostTurns = 8, kBlocksOfSm = 12;
  b.turns = static_cast<int32_t>(std::clamp<int64_t>(
      row_blocks * tiles / (kBlocksOfSm * std::max(1, d.sm_count)), 1, std::min(kMostTurns, tiles)));
  b.tiles = static_cast<int32_t>(ceil_div(tiles, b.turns));
  plan.blocking_blocks = row_blocks * b.tiles;
  k.sizes.x_step[0] = folded ? k.columns.sample_columns : b.pitch;
  k.sizes.x_step[1] = b.block_units;
  if (plan.form.planes) {
    k.sizes.deep = plan.form.deep;
    k.sizes.ragged = k.sizes.ragged || plan.form.deep.ragged;
  }
  const int64_t back = int64_t{k.sizes.step} * k.gather.tap_groups * k.gather.tap_group + k.gather.halo;
  plan.slack = back + b.front + 2 * sm90_tile(plan.main.config).columns() + 64;
  plan.part_units = b.rows * b.pitch;
  const int parts = sm90_layout(plan.main.mode, plan.main.config.scaled).parts;
  plan.bytes = 16 * (parts * plan.part_units + 2 * plan.slack);
  if (plan.main.config.scaled) {
    plan.tail_bytes = 16 * parts * plan.part_units;
    sm90_set_seen(plan, d);
  }
}

// Samples that share tiles: at no cost if rows of y go line by line, except for the zeros between them.
bool folds(const Problem& f, int splits) {
  if (f.stride > 1 || splits > 1) return may_fold(f, phases_of(f));
  constexpr int64_t kLong = 8192, kCount = 1 << 30;
  const Phases phases = phases_of(f);
  const int64_t columns = phases.positions + f.l + (phases.taps - 1) * phases.step + 16;
  return f.n > 1 && phases.positions < kLong && f.n * columns < kCount;
}

// Channels of a slab.
int slab_of(const Problem& p, bool scaled) {
  return sm90_layout(arithmetic_of(p), scaled).slab();
}

Sm90BlockedPlan plan_with(const TransposedForm& form, const Problem& asked, const DeviceInfo& d,
                          const Sm90Config& config) {
  constexpr double kMostBytes = 8e9, kMostPadding = 4e9, kMostOfElement = 256;
  Sm90BlockedPlan plan;
  plan.form = form;
  const Sm90Storing storing = storing_of(arithmetic_of(asked), config);
  Sm90Config laid_out = config;
  laid_out.walkers = 1;  // set_main() finds how many: to search for them here too would be wasted
  plan.main = sm90_laid_out(form.product, d, laid_out, &storing);
  if (plan.main.blocks == 0 || (config.turned && !sm90_turns(plan))) return plan.main.blocks = 0, plan;
  if (config.phased) {
    const DeepTaps& deep = form.deep;
    plan.main.params.gather.phases = deep.phases;
    plan.main.params.gather.whole = deep.k - deep.first;
    if (plan.main.params.gather.tap_groups > 1) return plan.main.blocks = 0, plan;
  }
  set_main(plan, d);
  if (plan.main.shared_bytes == 0) plan.main.blocks = 0;
  if (plan.main.blocks == 0) return plan;
  if (config.turned) {
    sm90_set_turned(plan, asked);
    plan.main.cost = sm90_blocked_cost(plan, d);
    return plan;
  }
  set_blocking(plan, asked, d);
  // Padding may make rows many times as long as they are, and tails double that.
  const double most = kMostPadding + kMostOfElement * static_cast<double>(sm90_blocked_input(asked));
  if (static_cast<double>(plan.bytes) > kMostBytes ||
      static_cast<double>(plan.bytes + plan.tail_bytes) > most ||
      plan.blocking_blocks > (int64_t{1} << 31) - 1) {
    plan.main.blocks = 0;
    return plan;
  }
  plan.blocking_ms = sm90_blocking_ms(plan, asked, d);
  plan.main.cost = sm90_blocked_cost(plan, d);
  return plan;
}

}  // namespace

int64_t sm90_blocked_input(const Problem& asked) {
  return asked.operation == core::Operation::transposed ? asked.x_elements() : asked.y_elements();
}

bool sm90_blocks(Arithmetic mode, const Sm90Config& config) {
  if (config.scaled)
    return sm90_scales(mode) && (mode != Arithmetic::ieee || kSm90Tiles[config.tile].n < 256);
  return mode != Arithmetic::ieee && mode != Arithmetic::f64;
}

int blocked_words(const Sm90BlockingParams& b, std::size_t element) {
  if (b.phase_slabs || b.from_step[2] != 1 || (b.dilation != 1 && b.phases > 1)) return 0;
  const uint64_t all =
      reinterpret_cast<uintptr_t>(b.from) / element |
      static_cast<uint64_t>(b.from_step[0] | b.from_step[1] | b.stride | b.padding | b.length | b.phases) |
      16 / element;
  return std::countr_zero(all);
}

Sm90BlockedPlan sm90_blocked_plan_of(const Problem& p, const DeviceInfo& d, const Sm90Config& config) {
  if (!sm90_blocks(arithmetic_of(p), config)) return {};
  if (config.turned && (config.phased || config.scaled || !no_turned_form(p).empty())) return {};
  if (config.phased) {
    if (!no_phased_form(p).empty()) return {};
    return plan_with(phased_form(p, slab_of(p, config.scaled)), p, d, config);
  }
  return plan_with(config.turned ? turned_form(p) : transposed_form(p), p, d, config);
}

namespace {

struct Way {
  TransposedForm form;
  bool turned = false, phased = false, scaled = false;
};
std::vector<Way> ways_of(const Problem& p) {
  const Arithmetic mode = arithmetic_of(p);
  std::vector<Way> ways;
  for (const bool scaled : {false, true}) {
    if (scaled ? !sm90_scales(mode) : mode == Arithmetic::ieee) continue;
    ways.push_back({.form = transposed_form(p), .scaled = scaled});
    if (!scaled && no_turned_form(p).empty()) ways.push_back({.form = turned_form(p), .turned = true});
    if (no_phased_form(p).empty())
      ways.push_back({.form = phased_form(p, slab_of(p, scaled)), .phased = true, .scaled = scaled});
  }
  return ways;
}

// Whether the blocks that begin at once have work for every SM.
bool fills(const Sm90BlockedPlan& plan, const DeviceInfo& d) {
  const int64_t rows = plan.main.blocks / plan.main.config.walkers;
  const int64_t at_once = std::max<int64_t>(1, block_places(d, plan.blocks_of_sm, 1) / rows) * rows;
  return std::min(plan.main.blocks, at_once) >= d.sm_count;
}

Sm90BlockedPlan cheapest(const Problem& p, const DeviceInfo& d) {
  const std::vector<Way> ways = ways_of(p);
  Sm90BlockedPlan best;
  best.form = ways.front().form;
  double best_ms = 0;
  const Problem& f = ways.front().form.product;
  const int64_t units = ceil_div(f.cin_per_group(), kSm90Unit);
  for (int t = 0; t < kSm90GatherTiles; ++t) {
    bool full = false;  // the device, without a split
    for (const int splits : kTensorSplits) {
      if (splits > units || full) continue;
      for (const bool folded : {false, true}) {
        if (folded && !folds(f, splits)) continue;
        for (const Way& way : ways) {
          Sm90Config config;
          config.tile = t;
          config.splits = splits;
          config.folded = folded;
          config.turned = way.turned;
          config.phased = way.phased;
          config.scaled = way.scaled;
          if (!sm90_blocks(arithmetic_of(p), config)) continue;
          const Sm90BlockedPlan plan = plan_with(way.form, p, d, config);
          if (plan.main.blocks == 0 || !sm90_partials_fit(plan.main, false)) continue;
          if (splits == 1 && fills(plan, d)) full = true;
          // A drop-in's weights come raw.
          const double ms = plan.total_ms() + sm90_blocked_pack_ms(plan, p);
          if (best.main.blocks == 0 || ms < best_ms) best = plan, best_ms = ms;
        }
      }
    }
  }
  return best;
}

}  // namespace

Sm90BlockedPlan sm90_blocked_plan(const Problem& p, const DeviceInfo& d) {
  static thread_local Memo<Sm90BlockedPlan> memo;
  return memo.get(p, d, false, [&] { return cheapest(p, d); });
}

}  // namespace tconv::cuda
