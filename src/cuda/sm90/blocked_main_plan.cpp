// Part of the plan of cuda.sm90.blocked: where its main kernel differs from the gathered way of
// cuda.sm90.dense, which is in its columns, its stages, and their places in shared memory.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/sm90/blocked_plan.hpp"
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

struct Rings {
  int stages = 0;         // of x; 0: they do not fit
  int64_t slots = 0;      // of weights
  bool resident = false;  // weights come once, and stay
};

// Bytes that rings may take, and those of a slot.
struct Room {
  int64_t rest, slot;
};

// Slots of weights reach almost as far ahead as stages of x: what comes from L2 takes as long as several
// products (n16 ci512 co256 l512 k16 s8 in bf16, two taps: 0.11 ms with 4 slots).
Rings streamed(const Sm90GatherSource& k, int least, const Room& room) {
  constexpr int kMinSlots = 3;
  for (int stages = kSm90MaxStages; stages >= least; --stages) {
    const int64_t slots =
        std::max<int64_t>(kMinSlots, stages > least ? int64_t{stages - 1} * k.tap_group + 1 : 0);
    const int64_t left = room.rest - int64_t{stages} * (k.stage_bytes + kSm90BarrierBytes);
    if (slots * room.slot > left) continue;
    return {stages, std::min<int64_t>(left / room.slot, stages * k.tap_group + 2)};
  }
  return {};
}

// Slots of all taps of all slabs, which the tiles of a block then share. None where slabs differ among
// blocks, nor for float32 in float16, whose kernels have no register left for it (kMayStay).
int64_t slots_of_all(const Sm90Plan& plan) {
  const Sm90StageParams& k = plan.params;
  const bool may = k.grid.splits == 1 && !plan.config.scaled;
  const int64_t rounds = k.grid.slabs / k.gather.phases, last = k.grid.slabs % k.gather.phases;
  const int64_t lacking = rounds * (k.gather.phases - k.gather.whole) +
                          std::max<int64_t>(0, last - k.gather.whole);  // slabs without the first tap
  return may ? int64_t{k.grid.slabs} * k.sizes.taps - lacking : 0;
}

Rings resident(const Sm90Plan& plan, int least, const Room& room) {
  const Sm90GatherSource& k = plan.params.gather;
  const int64_t slots = slots_of_all(plan), left = room.rest - slots * room.slot;
  if (slots == 0 || left <= 0) return {};
  const auto stages =
      static_cast<int>(std::min<int64_t>(kSm90MaxStages, left / (k.stage_bytes + kSm90BarrierBytes)));
  return stages < least ? Rings{} : Rings{stages, slots, true};
}

// Weights stay if that leaves as many stages, or enough for turns.
Rings rings_in(const Sm90BlockedPlan& plan, const Room& room) {
  const Sm90StageParams& k = plan.main.params;
  const int least = plan.main.config.turned ? sm90_turned_least_stages(plan) : 2;
  const Rings come = streamed(k.gather, least, room), stay = resident(plan.main, least, room);
  const bool for_turns = sm90_storing_of(plan.main.mode, plan.main.config).turns;
  const int64_t two_tiles = 2 * int64_t{k.grid.slabs} * k.gather.tap_groups;
  const bool enough = stay.stages >= come.stages || (for_turns && stay.stages >= two_tiles);
  return stay.stages > 0 && enough ? stay : come;
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
  const Rings rings = rings_in(plan, {rest, slot + kSm90BarrierBytes});
  k.gather.stages = rings.stages;
  if (k.gather.stages == 0) return;
  const int64_t slots = rings.slots;
  k.weights.slots = static_cast<int>(slots);
  k.weights.resident = rings.resident;
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

}  // namespace

Sm90Storing sm90_storing_of(Arithmetic mode, const Sm90Config& config) {
  return sm90_blocked_storing(sm90_tile(config).n, sm90_layout(mode, config.scaled).parts);
}

void sm90_set_blocked_main(Sm90BlockedPlan& plan, const DeviceInfo& d) {
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
  if (main.shared_bytes > 0) sm90_set_turns(main, sm90_storing_of(main.mode, main.config));
  const int64_t rows = int64_t{k.grid.row_runs} * k.sizes.groups * k.grid.splits;
  k.grid.walkers = static_cast<int>(
      walkers_of(rows, block_places(d, plan.blocks_of_sm, 1), std::max(1, k.columns.column_tiles)));
  main.config.walkers = k.grid.walkers;
  main.blocks = k.grid.walkers * rows;
  main.partial_bytes = k.pass.partial ? 4LL * k.grid.splits * k.sizes.groups * k.sizes.row_blocks *
                                            kSm90Rows * k.columns.partial_columns
                                      : 0;
}

}  // namespace tconv::cuda
