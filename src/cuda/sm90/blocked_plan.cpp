#include "cuda/sm90/blocked_plan.hpp"

#include <algorithm>
#include <bit>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/candidates.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/sm90/bound.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

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
  const Sm90Storing storing = sm90_storing_of(arithmetic_of(asked), config);
  Sm90Config laid_out = config;
  laid_out.walkers =
      1;  // sm90_set_blocked_main() finds how many: to search for them here too would be wasted
  plan.main = sm90_laid_out(form.product, d, laid_out, &storing);
  if (plan.main.blocks == 0 || (config.turned && !sm90_turns(plan))) return plan.main.blocks = 0, plan;
  if (config.phased) {
    const DeepTaps& deep = form.deep;
    plan.main.params.gather.phases = deep.phases;
    plan.main.params.gather.phases_div = Divisor::of(static_cast<uint32_t>(deep.phases));
    plan.main.params.gather.whole = deep.k - deep.first;
    if (plan.main.params.gather.tap_groups > 1) return plan.main.blocks = 0, plan;
  }
  sm90_set_blocked_main(plan, d);
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

struct Candidate {
  std::size_t way;
  Sm90Config config;
  double least_ms;  // with packed weights
};

// In rising order of their bounds, raw weights included.
struct Search {
  std::vector<Way> ways;
  std::vector<Candidate> candidates;
};

void add_candidates(Search& search, std::size_t number, const Problem& p, const DeviceInfo& d) {
  const Way& way = search.ways[number];
  const Problem& f = search.ways.front().form.product;
  const int64_t units = ceil_div(f.cin_per_group(), int64_t{kSm90Unit});
  const bool folding[2] = {folds(f, 1), folds(f, 2)};  // without a split, and with one
  Sm90Config config;
  config.turned = way.turned, config.phased = way.phased, config.scaled = way.scaled;
  const Sm90BlockedBound bound(way.form, p, d, config);
  for (config.tile = 0; config.tile < kSm90GatherTiles; ++config.tile) {
    if (!sm90_blocks(arithmetic_of(p), config)) continue;
    for (const int splits : kTensorSplits) {
      if (splits > units) break;
      config.splits = splits;
      for (const bool folded : {false, true}) {
        if (folded && !folding[splits > 1]) continue;
        config.folded = folded;
        search.candidates.push_back({number, config, bound.ms(config)});
      }
    }
  }
}

const Search& search_of(const Problem& p, const DeviceInfo& d) {
  static thread_local Memo<Search> memo;
  return memo.get(p, d, false, [&] {
    Search search = {ways_of(p), {}};
    for (std::size_t way = 0; way < search.ways.size(); ++way) add_candidates(search, way, p, d);
    const double pack_ms[2] = {sm90_blocked_pack_ms(p, false), sm90_blocked_pack_ms(p, true)};
    const auto raw_ms = [&](const Candidate& c) { return c.least_ms + pack_ms[c.config.scaled]; };
    std::stable_sort(search.candidates.begin(), search.candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return raw_ms(a) < raw_ms(b); });
    return search;
  });
}

Sm90BlockedPlan cheapest(const Problem& p, const DeviceInfo& d) {
  const Search& search = search_of(p, d);
  Sm90BlockedPlan best;
  best.form = search.ways.front().form;
  double best_ms = 0;
  for (const Candidate& candidate : search.candidates) {
    // A drop-in's weights come raw.
    const double pack_ms = sm90_blocked_pack_ms(p, candidate.config.scaled);
    if (best.main.blocks > 0 && candidate.least_ms + pack_ms >= best_ms) break;
    const Sm90BlockedPlan plan = plan_with(search.ways[candidate.way].form, p, d, candidate.config);
    if (plan.main.blocks == 0 || !sm90_partials_fit(plan.main, false)) continue;
    const double ms = plan.total_ms() + pack_ms;
    if (best.main.blocks == 0 || ms < best_ms) best = plan, best_ms = ms;
  }
  return best;
}

}  // namespace

Sm90BlockedPlan sm90_blocked_plan(const Problem& p, const DeviceInfo& d) {
  static thread_local Memo<Sm90BlockedPlan> memo;
  return memo.get(p, d, false, [&] { return cheapest(p, d); });
}

Sm90BlockedLeast sm90_blocked_least(const Problem& p, const DeviceInfo& d) {
  Sm90BlockedLeast least;
  for (const Candidate& candidate : search_of(p, d).candidates) {
    double& ms = candidate.config.turned ? least.turned_ms : least.passed_ms;
    if (ms == 0 || candidate.least_ms < ms) ms = candidate.least_ms;
  }
  return least;
}

}  // namespace tconv::cuda
