// How cuda.simt.weight_staged cuts a problem.
#include <algorithm>
#include <bit>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/simt/split_weight.hpp"
#include "cuda/simt/weight_staged.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

namespace {

constexpr int64_t kMostRuns = 16;      // of a chunk
constexpr int64_t kColumnsApart = 64;  // taps from which on a tile is of one channel co

// A divisor whose multiplier finish() makes: a search compares many plans.
Divisor divisor(int64_t value) {
  Divisor d;
  d.value = static_cast<uint32_t>(std::max<int64_t>(1, value));
  return d;
}

void finish(StagedParams& k) {
  for (Divisor* d : {&k.by_tiles, &k.by_column_tiles, &k.by_row_tiles, &k.by_sample_segments, &k.by_stride,
                     &k.by_window, &k.by_k_columns}) {
    *d = Divisor::of(d->value);
  }
}

// Columns, and what of dy a tile of them needs.
void set_columns(StagedParams& k, const Problem& p) {
  const bool apart = p.k > kColumnsApart;
  const int64_t per_channel = apart ? round_up<int64_t>(p.k, k.columns) : p.k;
  k.by_k_columns = divisor(per_channel);
  k.taps = static_cast<int>(apart ? std::min<int64_t>(p.k, k.columns) : p.k);
  int64_t couts = apart ? 1 : std::min(p.cout_per_group(), (k.columns + p.k - 2) / p.k + 1);
  if (couts > 2) couts = round_up<int64_t>(couts, 4);
  k.couts = static_cast<int>(couts);
  k.by_column_tiles = divisor(ceil_div(p.cout_per_group() * per_channel, int64_t{k.columns}));
  k.phases = static_cast<int>(std::min(p.stride, p.dilation * (k.taps - 1) + 1));
}

// How far a position's taps reach in dy: places, and elements of a phase.
struct Reach {
  int64_t places, elements;
};

// A chunk of `runs` runs in segments of 2^log2 positions.
void set_chunk(StagedParams& k, const Problem& p, const Reach& reach, int runs, int log2) {
  const int64_t segment = int64_t{1} << log2;
  k.runs = runs, k.segment_log2 = log2;
  k.chunk_segments = runs * kStagedRun >> log2;
  k.window = static_cast<int>(p.stride * (segment - 1) + reach.places + 1);
  k.segment_pitch = static_cast<int>(segment + reach.elements);
  // Neighbouring places lie in `stride` phases, and are stored to different banks.
  const int apart = (31 + k.stride) / std::min(k.stride, 32);
  const int words =
      static_cast<int>(std::min<int64_t>(kStagedReach, int64_t{k.chunk_segments} * k.segment_pitch));
  k.phase_pitch = k.phases == 1 ? words : words + ((apart - words) % 32 + 32) % 32;
  const int64_t all = int64_t{runs} * kStagedRun * k.rows + int64_t{k.couts} * k.phases * k.phase_pitch;
  k.buffer_words = static_cast<int>(std::min<int64_t>(kStagedReach, all));
}

// Places of segments and windows that a chunk of all positions moves: what a segment's length costs.
double padding_of(const StagedParams& k, const Problem& p) {
  const double segments = static_cast<double>(ceil_div(p.l, int64_t{1} << k.segment_log2));
  return segments * (static_cast<double>(k.rows + k.row_warps * k.columns) *
                         static_cast<double>(int64_t{1} << k.segment_log2) +
                     static_cast<double>(k.couts) * k.window);
}

// The longest chunk within `wanted` words of shared memory, or the shortest if it is within `most`; and
// segments of the length that moves and multiplies the least.
bool cut_chunks(StagedParams& k, const Problem& p, int64_t wanted, int64_t most) {
  const int64_t places = p.dilation * (k.taps - 1);
  const Reach reach{places, places / p.stride};
  int runs = k.slices;
  const int64_t needed = ceil_div(std::max<int64_t>(1, p.n * p.l), int64_t{kStagedRun});
  auto longest = [&] { return std::countr_zero(static_cast<unsigned>(runs * kStagedRun)); };
  auto fits = [&](int64_t words) {
    set_chunk(k, p, reach, runs, longest());
    return k.buffer_words <= words;
  };
  if (!fits(most)) return false;
  while (2 * runs <= kMostRuns && 2 * runs <= needed) {
    runs *= 2;
    if (!fits(wanted)) {
      runs /= 2;
      break;
    }
  }
  int best = -1;
  double least = 0;
  for (int log2 = longest(); log2 >= 0; --log2) {
    if (best >= 0 && int64_t{8} << log2 < p.l) break;  // shorter ones leave no less at a sample's end
    set_chunk(k, p, reach, runs, log2);
    if (k.buffer_words > most) continue;
    const double padding = padding_of(k, p);
    if (best < 0 || padding < 0.97 * least) best = log2, least = padding;
  }
  if (best < 0) return false;
  set_chunk(k, p, reach, runs, best);
  const int64_t of_sample = ceil_div(p.l, int64_t{1} << best);
  k.cout_pitch = k.phases * k.phase_pitch;
  k.by_sample_segments = divisor(of_sample);
  k.by_window = divisor(k.window);
  k.segments = static_cast<int>(p.lout() == 0 ? 0 : p.n * of_sample);
  return true;
}

// Which threads copy which parts of a chunk (weight_staged_chunk.cuh).
void set_crews(StagedParams& k, int threads, int tile_rows) {
  const int warps = threads / 32, steps = 2 * k.runs;
  k.x_warps = std::min(warps, steps);
  k.x_crews = std::clamp(warps / steps, 1, k.rows / tile_rows);
  const int places = k.chunk_segments * k.window;
  k.dy_threads = std::min(threads, round_up(places, 32));
  k.dy_crews = std::clamp(threads / k.dy_threads, 1, k.couts % 4 == 0 ? k.couts / 4 : k.couts);
}

// Blocks for every SM, as far as a split has some chunks; sums of at most kStagedLongest products.
void split(StagedPlan& plan, const Problem& p, const DeviceInfo& device) {
  StagedParams& k = plan.params;
  const int64_t chunk = k.chunk_segments, chunks = ceil_div(std::max<int64_t>(1, k.segments), chunk);
  const int64_t lane_products = 2 * ceil_div(int64_t{k.runs}, int64_t{k.slices});
  const int64_t most_chunks = std::max<int64_t>(1, kStagedLongest / lane_products);
  const int64_t slots = staged_resident(plan, device) * std::max(1, device.sm_count);
  auto set = [&](int64_t of_split) {
    k.split_segments = static_cast<int>(of_split * chunk);
    k.splits = ceil_div(std::max<int64_t>(1, k.segments), int64_t{k.split_segments});
    plan.blocks = k.tiles * k.splits;
    plan.part_bytes = k.splits > 1 ? static_cast<std::size_t>(k.splits * k.elements) * sizeof(float) : 0;
    plan.seconds = staged_seconds(plan, p, device);
  };
  StagedPlan best;
  // Of one wave of blocks, two, and so on.
  for (const int64_t waves : {1, 2, 4}) {
    const int64_t splits = std::clamp<int64_t>(slots * waves / k.tiles, 1, chunks);
    set(std::min(most_chunks, ceil_div(chunks, splits)));
    if (best.blocks == 0 || plan.seconds < best.seconds) best = plan;
  }
  plan = best;
}

StagedPlan draft(const Problem& p, const DeviceInfo& device, const StagedConfig& config) {
  const StagedTile& tile = kStagedTileTable[config.tile];
  StagedPlan plan;
  plan.tile = config.tile;
  StagedParams& k = plan.params;
  set_steps(k, p);
  k.l = static_cast<int>(p.l), k.lout = static_cast<int>(p.lout()), k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride), k.padding = static_cast<int>(p.padding);
  k.dilation = static_cast<int>(p.dilation);
  k.cin_group = static_cast<int>(p.cin_per_group()), k.cout_group = static_cast<int>(p.cout_per_group());
  k.elements = p.weight_elements();
  k.by_stride = divisor(p.stride);
  const int shared_tiles = config.row_warps * config.column_warps;
  k.row_warps = config.row_warps, k.column_warps = config.column_warps;
  k.slices = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1, 8 / shared_tiles))));
  k.rows = k.row_warps * tile.rows, k.columns = k.column_warps * tile.columns;
  plan.threads = 32 * shared_tiles * k.slices;
  set_columns(k, p);
  // Two blocks of many sums, or three, whose threads have fewer registers, share an SM.
  const int64_t most =
      std::min<int64_t>(kStagedWords, device.shared_per_block / (2 * int64_t{sizeof(float)}));
  const int64_t wanted = tile.rows * tile.columns >= 32 ? most : most * 2 / 3;
  if (!cut_chunks(k, p, wanted, most)) return plan;
  set_crews(k, plan.threads, tile.rows);
  k.row_tiles = ceil_div(p.cin_per_group(), int64_t{k.rows});
  k.by_row_tiles = divisor(k.row_tiles);
  k.tiles = p.groups * k.row_tiles * k.by_column_tiles.value;
  if (k.tiles >= kStagedReach) return plan;
  k.by_tiles = divisor(k.tiles);
  const std::size_t sums = static_cast<std::size_t>(plan.threads / 32 * tile.rows * tile.columns);
  plan.shared_bytes =
      sizeof(float) * std::max<std::size_t>(2 * static_cast<std::size_t>(k.buffer_words), sums);
  split(plan, p, device);
  return plan;
}

// Column warps that leave few columns of the last tile idle: as many as give one tile, two or three if they
// can.
StagedPlan search_columns(const Problem& p, const DeviceInfo& device, int tile, int row_warps,
                          StagedPlan best) {
  const StagedTile& t = kStagedTileTable[tile];
  const int most = staged_warps(t.rows * t.columns) / row_warps;
  const int64_t needed = ceil_div(p.cout_per_group() * p.k, int64_t{t.columns});
  const int64_t fewest = ceil_div(needed, int64_t{most});
  int before = 0;
  for (int64_t tiles = fewest; tiles < fewest + 3; ++tiles) {
    const int column_warps = static_cast<int>(ceil_div(needed, tiles));
    if (column_warps == before) continue;
    before = column_warps;
    const int64_t rows = round_up<int64_t>(p.cin_per_group(), int64_t{row_warps} * t.rows);
    const int64_t columns = round_up<int64_t>(p.cout_per_group() * p.k, int64_t{column_warps} * t.columns);
    if (best.blocks > 0 && staged_least_seconds(p, device, rows, columns) >= best.seconds) continue;
    const StagedPlan plan = draft(p, device, {tile, row_warps, column_warps});
    if (plan.blocks > 0 && (best.blocks == 0 || plan.seconds < best.seconds)) best = plan;
  }
  return best;
}

StagedPlan search(const Problem& p, const DeviceInfo& device) {
  StagedPlan best;
  const int64_t columns = p.cout_per_group() * p.k;
  for (int tile = 0; tile < kStagedTiles; ++tile) {
    const StagedTile& t = kStagedTileTable[tile];
    // A tile of half as many rows or columns does as well.
    if ((t.rows > 1 && t.rows / 2 >= p.cin_per_group()) || (t.columns > 2 && t.columns / 2 >= columns))
      continue;
    for (int row_warps = 1; row_warps <= staged_warps(t.rows * t.columns); row_warps *= 2) {
      if (row_warps > 1 && t.rows * (row_warps / 2) >= p.cin_per_group()) break;
      best = search_columns(p, device, tile, row_warps, best);
    }
  }
  if (best.blocks > 0) finish(best.params);
  return best;
}

}  // namespace

StagedPlan staged_plan_of(const Problem& p, const DeviceInfo& device, const StagedConfig& config) {
  StagedPlan plan = draft(p, device, config);
  if (plan.blocks > 0) finish(plan.params);
  return plan;
}

StagedPlan staged_plan(const Problem& p, const DeviceInfo& device) {
  static thread_local Memo<StagedPlan> memo;
  return memo.get(p, device, false, [&] { return search(p, device); });
}

StagedSum staged_sum(const StagedPlan& plan, int64_t element) {
  const StagedParams& k = plan.params;
  const StagedTile& tile = kStagedTileTable[plan.tile];
  const int64_t tap = element % k.k, co = element / k.k % k.cout_group, ci = element / k.k / k.cout_group;
  const int64_t group = ci / k.cin_group, row = ci % k.cin_group;
  const int64_t column = co * k.by_k_columns.value + tap, column_tiles = k.by_column_tiles.value;
  const int64_t in_rows = row % k.rows, in_columns = column % k.columns;
  StagedSum at{};
  at.tile = (group * k.row_tiles + row / k.rows) * column_tiles + column / k.columns;
  at.warp = static_cast<int>(in_rows / tile.rows * k.column_warps + in_columns / tile.columns);
  at.sum = static_cast<int>(in_rows % tile.rows * tile.columns + in_columns % tile.columns);
  return at;
}

}  // namespace tconv::cuda::simt
