#include "cuda/sm80/thin_weight_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

constexpr int64_t kCount = int64_t{1} << 30;
constexpr int64_t kMostPartBytes = int64_t{1} << 28;

bool splits(const Problem& p) {
  return arithmetic_of(p) == Arithmetic::ieee;
}
int positions_of_word(const Problem& p) {
  return size_of(p.dtype) == 2 ? 2 : 1;
}

// What does not depend on the configuration.
ThinWeightSide x_side(const Problem& p) {
  ThinWeightSide s{};
  s.step[0] = p.x_steps()[0], s.step[1] = p.x_steps()[1];
  s.length = p.l;
  s.channels = static_cast<int>(p.cin_per_group());
  s.taps = s.stride = s.dilation = 1;
  return s;
}
ThinWeightSide y_side(const Problem& p) {
  ThinWeightSide s{};
  s.step[0] = p.y_steps()[0], s.step[1] = p.y_steps()[1];
  s.length = p.lout();
  s.channels = static_cast<int>(p.cout_per_group());
  s.taps = static_cast<int>(p.k);
  s.stride = static_cast<int>(p.stride), s.dilation = static_cast<int>(p.dilation);
  s.lead = static_cast<int>(p.padding);
  return s;
}

// Tiles of `size` rows, `most` of them in a block.
void set_tiles(ThinWeightSide& s, int size, int most) {
  s.tiles = static_cast<int>(ceil_div(int64_t{s.channels} * s.taps, int64_t{size}));
  s.block_tiles = most;
  s.by_taps = Divisor::of(static_cast<uint32_t>(s.taps));
  s.blocks = Divisor::of(static_cast<uint32_t>(ceil_div(s.tiles, most)));
}

// Channels that a block of a side needs at most.
int64_t block_channels(const ThinWeightSide& s, int size) {
  const int64_t rows = int64_t{std::min(s.block_tiles, s.tiles)} * size;
  return std::min<int64_t>(s.channels, (rows + s.taps - 2) / s.taps + 1);
}

// The window of a tile of so many words.
void set_window(ThinWeightSide& s, int words, int element) {
  const int64_t vector = 16 / element;
  // A channel may begin at the last element of its first vector.
  const int64_t window =
      int64_t{s.stride} * (words - 1) + int64_t{s.dilation} * (s.taps - 1) + 1 + vector - 1;
  s.places = static_cast<int>((s.step[1] % vector + vector) % vector);
  s.second = element == 2 ? s.stride * words : 0;
  const int64_t quads = ceil_div(window, int64_t{4});
  s.vectors = static_cast<int>(ceil_div(window + s.second, vector));
  s.quads = static_cast<int>(quads);
  // Eight lanes read words of neighbouring channels, and four lanes neighbouring words: in different banks.
  const int64_t pitch = 4 * quads;
  s.pitch = static_cast<int>(pitch % 8 == 4 ? pitch : pitch + 4);
  // Two times eight lanes read 64 bytes each of neighbouring channels. Those of float32 are words.
  const int64_t odd = (s.vectors + 3) / 8 * 8 + 4;
  s.channel_bytes = static_cast<int>(element == 2 ? 16 * odd : 4 * s.pitch);
}

// Places in shared memory: words, and channels of 16-bit types.
bool set_shared(ThinWeightPlan& plan, const Problem& p, const DeviceInfo& d) {
  ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const int64_t rows = block_channels(k.rows, kThinWeightRows),
                columns = block_channels(k.columns, kThinWeightColumns);
  const int64_t row_words = rows * k.rows.pitch * 4, words = row_words + columns * k.columns.pitch * 4;
  const int64_t sums =
      int64_t{plan.config.row_warps} * plan.config.column_warps * tile.rows * tile.columns * 4 * 32 * 4;
  const int64_t buffer = round_up<int64_t>(std::max(words, sums), 128);
  k.sums_at = k.rows.words_at = 0;
  k.columns.words_at = static_cast<int>(row_words);
  if (positions_of_word(p) == 1) {
    k.rows.channels_at = k.rows.words_at, k.columns.channels_at = k.columns.words_at;
    k.buffer_bytes = static_cast<int>(buffer);
    plan.shared_bytes = 2 * buffer;
  } else {
    k.buffer_bytes = 0;
    k.rows.channels_at = static_cast<int>(buffer);
    k.columns.channels_at = static_cast<int>(buffer + rows * k.rows.channel_bytes);
    // Words are made by fours, the last of them perhaps from what lies behind a channel.
    plan.shared_bytes = k.columns.channels_at + columns * k.columns.channel_bytes + 16;
  }
  plan.shared_bytes = round_up<int64_t>(plan.shared_bytes, 128);
  return plan.shared_bytes <= d.shared_per_block;
}

void set_walkers(ThinWeightPlan& plan, const Problem& p, const DeviceInfo& d) {
  ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const int64_t sample_tiles = ceil_div(k.positions, int64_t{k.tile_positions});
  if (core::Size(sample_tiles) * p.n >= kCount) return;
  k.tiles = static_cast<int>(sample_tiles * p.n);
  const int64_t each = int64_t{k.rows.blocks.value} * k.columns.blocks.value * k.groups;
  plan.resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + kSharedOfSystem), 1,
                                      thin_weight_blocks(tile.rows, tile.columns, splits(p)));
  const int64_t walkers = walkers_of(each, block_places(d, plan.resident, 1), k.tiles);
  k.part_size = p.weight_elements();
  if (core::Size(each) * walkers >= kCount || core::Size(walkers) * k.part_size * 4 > kMostPartBytes) return;
  plan.part_bytes = walkers * k.part_size * 4;
  k.chain = std::max(1, (kWeightChain << k.depth_warp_bits) / k.tile_positions);
  k.sample_tiles = Divisor::of(static_cast<uint32_t>(sample_tiles));
  k.walkers = Divisor::of(static_cast<uint32_t>(walkers));
  plan.blocks = each * walkers;
}

// Shared by all plans of a problem.
struct Sides {
  ThinWeightSide x, y;
};

ThinWeightPlan plan_from(const Sides& sides, const Problem& p, const DeviceInfo& d,
                         const ThinWeightConfig& config) {
  ThinWeightPlan plan;
  plan.config = config;
  ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[config.tile];
  if (splits(p) && !tile.split) return plan;
  k.rows_move = config.rows_move;
  k.rows = config.rows_move ? sides.y : sides.x, k.columns = config.rows_move ? sides.x : sides.y;
  set_tiles(k.rows, kThinWeightRows, tile.rows * config.row_warps);
  set_tiles(k.columns, kThinWeightColumns, tile.columns * config.column_warps);
  const auto element = static_cast<int>(size_of(p.dtype));
  set_window(k.rows, config.words, element);
  set_window(k.columns, config.words, element);
  k.positions = p.l;
  k.cin_group = static_cast<int>(p.cin_per_group()), k.cout_group = static_cast<int>(p.cout_per_group());
  k.k = static_cast<int>(p.k), k.groups = static_cast<int>(p.groups);
  k.tile_positions = config.words * positions_of_word(p);
  k.steps = config.words / kThinWeightStep;
  k.row_warp_bits = std::countr_zero(static_cast<uint32_t>(config.row_warps));
  k.column_warp_bits = std::countr_zero(static_cast<uint32_t>(config.column_warps));
  k.depth_warp_bits =
      std::countr_zero(static_cast<uint32_t>(kThinWeightWarps)) - k.row_warp_bits - k.column_warp_bits;
  // All warps of the depth have as many steps.
  if (k.steps >> k.depth_warp_bits << k.depth_warp_bits != k.steps || !set_shared(plan, p, d)) return plan;
  set_walkers(plan, p, d);
  if (plan.blocks > 0) plan.ms = thin_weight_ms(plan, p, d);
  return plan;
}

// Configurations without their words, of which those that load and copy least for a step are worth a look.
struct Candidate {
  ThinWeightConfig config;
  double work;
};
constexpr std::size_t kCandidates = 4;

std::array<Candidate, kCandidates> candidates(const Sides& sides, const Problem& p) {
  std::array<Candidate, kCandidates> best;
  best.fill({{}, -1});
  const auto consider = [&](const Candidate& c) {
    for (std::size_t i = 0; i < best.size(); ++i) {
      if (best[i].work >= 0 && best[i].work <= c.work) continue;
      std::move_backward(best.begin() + static_cast<std::ptrdiff_t>(i), best.end() - 1, best.end());
      best[i] = c;
      return;
    }
  };
  for (const bool rows_move : {false, true}) {
    const ThinWeightSide &r = rows_move ? sides.y : sides.x, &c = rows_move ? sides.x : sides.y;
    const int64_t row_tiles = ceil_div(int64_t{r.channels} * r.taps, int64_t{kThinWeightRows}),
                  column_tiles = ceil_div(int64_t{c.channels} * c.taps, int64_t{kThinWeightColumns});
    for (int tile = 0; tile < kThinWeightTiles; ++tile) {
      const ThinWeightTile& t = kThinWeightTileTable[tile];
      if (splits(p) && !t.split) continue;
      for (int row_warps = 1; row_warps <= kThinWeightWarps; row_warps *= 2) {
        if (row_warps > 1 && t.rows * row_warps / 2 >= row_tiles) break;
        for (int column_warps = 1; row_warps * column_warps <= kThinWeightWarps; column_warps *= 2) {
          if (column_warps > 1 && t.columns * column_warps / 2 >= column_tiles) break;
          const int64_t row_blocks = ceil_div(row_tiles, int64_t{t.rows} * row_warps),
                        column_blocks = ceil_div(column_tiles, int64_t{t.columns} * column_warps);
          const auto blocks = static_cast<double>(row_blocks * column_blocks);
          // Loads of a step, and what a channel's positions cost as much as.
          const double loads = blocks * row_warps * column_warps * (4 * t.rows + 2 * t.columns);
          const double copies = static_cast<double>(column_blocks * r.channels) * r.stride +
                                static_cast<double>(row_blocks * c.channels) * c.stride;
          consider({{rows_move, tile, row_warps, column_warps, 0}, loads + copies});
        }
      }
    }
  }
  return best;
}

}  // namespace

ThinWeightPlan thin_weight_plan_of(const Problem& p, const DeviceInfo& d, const ThinWeightConfig& config) {
  return plan_from({x_side(p), y_side(p)}, p, d, config);
}

ThinWeightPlan thin_weight_plan(const Problem& p, const DeviceInfo& d) {
  static thread_local Memo<ThinWeightPlan> memo;
  return memo.get(p, d, false, [&] {
    const Sides sides = {x_side(p), y_side(p)};
    ThinWeightPlan best;
    for (const Candidate& candidate : candidates(sides, p)) {
      if (candidate.work < 0) break;
      ThinWeightConfig config = candidate.config;
      for (config.words = kThinWeightLeastWords; config.words <= kThinWeightMostWords; config.words *= 2) {
        const ThinWeightPlan plan = plan_from(sides, p, d, config);
        if (plan.blocks > 0 && (best.blocks == 0 || plan.ms < best.ms)) best = plan;
        // Larger tiles would be mostly empty, or do not fit either.
        if (plan.blocks > 0 ? plan.params.sample_tiles.value == 1 : plan.shared_bytes > d.shared_per_block)
          break;
      }
    }
    return best;
  });
}

std::string thin_weight_refusal(const Problem& p, const DeviceInfo& d) {
  if (plan::Support runs = weight_runs(p, no_mma(d)); !runs.ok) return runs.reason;
  if (p.dtype == core::DType::f64) return "dtype f64: this kernel is for tensor cores of 16 and 32 bits";
  if (plan::Support takes = weight_supports(p); !takes.ok) return takes.reason;
  if (p.l > 1 && p.x_steps()[2] != 1) return "positions of x are not contiguous";
  if (p.n * p.l < 1 || p.lout() < 1) return "no positions";
  constexpr int64_t kNear = 1 << 20;
  if (p.stride >= kNear || p.k >= kNear || core::Size(p.dilation) * p.k >= kNear || p.padding >= kNear ||
      p.cin >= kNear || p.cout >= kNear || core::Size(p.stride) * p.l >= kCount) {
    return "positions reach 2^30, or channels or taps 2^20";
  }
  if (core::Size(ceil_div(p.l, int64_t{kThinWeightLeastWords})) * p.n >= kCount)
    return "2^30 tiles of positions";
  if (thin_weight_plan(p, d).blocks == 0)
    return "its windows do not fit in shared memory, or its parts in 256 MB";
  return "";
}

std::string where(const ThinWeightPlan& plan, const Problem& p, int64_t element) {
  const ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const int64_t tap = element % k.k, co = element / k.k % k.cout_group,
                channel = element / k.k / k.cout_group;
  const int64_t group = channel / k.cin_group, ci = channel % k.cin_group, moving = co * k.k + tap;
  const int64_t row_tile = (k.rows_move ? moving : ci) / kThinWeightRows,
                column_tile = (k.rows_move ? ci : moving) / kThinWeightColumns;
  const int64_t row_block = row_tile / k.rows.block_tiles, column_block = column_tile / k.columns.block_tiles;
  const int64_t row_warp = row_tile % k.rows.block_tiles / tile.rows,
                column_warp = column_tile % k.columns.block_tiles / tile.columns;
  const int64_t blocks = (group * k.rows.blocks.value + row_block) * k.columns.blocks.value + column_block;
  const int64_t walkers = k.walkers.value, depths = int64_t{1} << k.depth_warp_bits;
  const int64_t warp = (column_warp * plan.config.row_warps + row_warp) * depths;
  return element_text(p, element) + "; parts of blocks " + std::to_string(blocks * walkers) + " to " +
         std::to_string((blocks + 1) * walkers - 1) + ", warps " + std::to_string(warp) + " to " +
         std::to_string(warp + depths - 1);
}

}  // namespace tconv::cuda
