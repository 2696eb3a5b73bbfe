#include "cuda/sm80/window_plan.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/raw_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

constexpr int64_t kSlabBytes = 256, kMostSlabBytes = 512;  // of a row of weights
constexpr int64_t kReservedShared = 1024;                  // of each block, by the driver
constexpr int64_t kCount = int64_t{1} << 30;

// Of the problem without n and l: sums keep their order in a batch of any size.
void set_depth(WindowParams& k, const Problem& p, int64_t element) {
  const int64_t couts = p.cout_per_group(), depth = kWindowStepBytes / element, row = p.k * element;
  k.chunks = 1;
  k.taps = static_cast<int>(p.k);
  int64_t channels = 1;
  if (row > kMostSlabBytes) {
    const int64_t chunks = ceil_div(row, kSlabBytes);
    k.taps = static_cast<int>(round_up(ceil_div(p.k, chunks), depth));
    k.chunks = static_cast<int>(ceil_div(p.k, int64_t{k.taps}));
  } else {
    channels = std::clamp<int64_t>(kSlabBytes / row, 1, couts);
    channels = ceil_div(couts, ceil_div(couts, channels));
    // Slabs that begin on a vector.
    const int64_t even = 16 / std::gcd<int64_t>(16, row);
    const int64_t rounded = round_up(channels, even);
    if (channels < couts && rounded * row <= kMostSlabBytes) channels = std::min(rounded, couts);
  }
  k.channels = static_cast<int>(channels);
  k.steps = static_cast<int>(ceil_div(channels * k.taps, depth));
  k.slabs = static_cast<int>(ceil_div(couts, channels) * k.chunks);
}

int64_t weight_boundary(const WindowParams& k, const Problem& p, int64_t element) {
  const int64_t row = p.cout_per_group() * p.k * element;
  if (k.slabs == 1) return boundary_of({row});
  return boundary_of({row, p.k * k.channels * element, k.chunks > 1 ? k.taps * element : 0});
}

int64_t dy_boundary(const Problem& p, int64_t element) {
  const auto steps = p.y_steps();
  return boundary_of(
      {p.lout() * element, p.n > 1 ? steps[0] * element : 0, p.cout > 1 ? steps[1] * element : 0});
}

// Columns and the window that a tile of them needs.
bool set_columns(WindowPlan& plan, const Problem& p, const WindowTile& tile, int64_t element) {
  WindowParams& k = plan.params;
  const int64_t vector = 16 / element, reach = p.dilation * (k.taps - 1) + 1;
  const int64_t sample = round_up(vector + p.stride * (p.l - 1) + reach + vector - 1, vector);
  if (p.n * sample >= kCount) return false;
  const int64_t columns = p.n * p.l, most = std::min<int64_t>(columns, tile.columns);
  const int64_t crossed = std::min(p.n - 1, ceil_div(most - 1, p.l));
  const int64_t window =
      p.stride * (most - 1) + crossed * std::max<int64_t>(0, sample - p.stride * p.l) + reach;
  plan.window = round_up(window + vector - 1, vector);
  // Neighbouring channels in other banks.
  int64_t words = plan.window * element / 4;
  if (k.channels > 1) words = element == 4 ? (words + 23) / 16 * 16 + 8 : (words + 3) / 8 * 8 + 4;
  k.window_pitch = static_cast<int>(std::min(words * 4 / element, kCount));
  k.columns = static_cast<int>(columns);
  k.length = Divisor::of(static_cast<uint32_t>(p.l));
  k.sample_window = Divisor::of(static_cast<uint32_t>(sample));
  k.column_tiles = static_cast<int>(ceil_div(columns, tile.columns));
  return true;
}

// Places in shared memory: stages, which the sums take over, then the table.
bool set_shared(WindowPlan& plan, const DeviceInfo& d, const WindowTile& tile, int64_t element) {
  constexpr int64_t kGood = 72 * 1024;  // three blocks an SM
  WindowParams& k = plan.params;
  k.weight_pitch = k.steps * kWindowStepBytes + 16;
  k.window_at = tile.rows * k.weight_pitch;
  const int64_t stage = round_up<int64_t>(k.window_at + int64_t{k.channels} * k.window_pitch * element, 128);
  const int64_t table = int64_t{k.steps + kWindowStepsAhead} * 4 * (element == 2 ? 4 : 2) * 4;
  const int64_t sums = int64_t{tile.rows} * (tile.columns + kWindowSumPad) * 4;
  const int64_t slabs = ceil_div(k.slabs, k.splits);
  const int64_t limit = d.shared_per_block - table;
  k.stages = static_cast<int>(std::clamp<int64_t>(std::min(kGood, limit) / stage, 2, kWindowMaxStages));
  const int64_t at = round_up<int64_t>(std::max(std::min<int64_t>(k.stages, slabs) * stage, sums), 128);
  plan.shared_bytes = at + table;
  if (at > limit) return false;
  k.stage_bytes = static_cast<int>(stage);
  k.table_at = static_cast<int>(at);
  return true;
}

void set_sizes_of(WindowParams& k, const Problem& p, const WindowTile& tile) {
  k.dy_step[0] = p.y_steps()[0], k.dy_step[1] = p.y_steps()[1];
  k.weight_row = p.cout_per_group() * p.k;
  k.cin = p.cin, k.l = p.l, k.lout = p.lout();
  k.samples = static_cast<int>(p.n);
  k.groups = static_cast<int>(p.groups);
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride);
  k.dilation = static_cast<int>(p.dilation);
  k.padding = static_cast<int>(p.padding);
  k.row_tiles = Divisor::of(static_cast<uint32_t>(ceil_div(p.cin_per_group(), int64_t{tile.rows})));
  k.rows_first = p.y_elements() > p.weight_elements();
  k.unreached = needs_bias_alone(p, BiasStored::none);
  k.vectors = p.l % 4 == 0 && !k.unreached;
}

}  // namespace

WindowPieces window_pieces(int64_t row_bytes, int64_t bytes, int element) {
  const int64_t piece = bytes % 16 == 0 ? 16 : bytes % 4 == 0 ? 4 : element;
  const auto pieces = static_cast<int>(row_bytes / piece);
  const auto lanes = std::min<uint32_t>(kWindowThreads, std::bit_ceil(static_cast<uint32_t>(pieces)));
  const WindowCopy copy = piece == 16  ? WindowCopy::vector
                          : piece == 4 ? WindowCopy::word
                                       : WindowCopy::element;
  return {copy, pieces, static_cast<int>(lanes)};
}

WindowPlan window_plan_of(const Problem& p, const DeviceInfo& d, const WindowConfig& config) {
  WindowPlan plan;
  plan.config = config;
  WindowParams& k = plan.params;
  const WindowTile& tile = kWindowTiles[config.tile];
  const int element = shape_of(arithmetic_of(p)).element;
  set_depth(k, p, element);
  k.splits = config.splits;
  if (k.splits > 1 && (d.sm < 90 || k.splits > k.slabs)) return plan;
  set_sizes_of(k, p, tile);
  if (!set_columns(plan, p, tile, element) || !set_shared(plan, d, tile, element)) return plan;
  k.weight_pieces =
      window_pieces(int64_t{k.steps} * kWindowStepBytes, weight_boundary(k, p, element), element);
  k.dy_pieces = window_pieces(plan.window * element, dy_boundary(p, element), element);
  const int64_t rows = int64_t{k.row_tiles.value} * p.groups;
  if (core::Size(rows) * k.column_tiles * k.splits > kCount) return plan;
  k.taps_div = Divisor::of(static_cast<uint32_t>(k.taps));
  k.splits_div = Divisor::of(static_cast<uint32_t>(k.splits));
  k.low_tiles = Divisor::of(static_cast<uint32_t>(k.rows_first ? rows : k.column_tiles));
  plan.blocks = rows * k.column_tiles * k.splits;
  plan.ms = window_ms(plan, p, d);
  return plan;
}

WindowPlan window_plan(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  return cheapest_plan(p, d, batch_invariant, kWindowTileCount, [&](const Problem& of, int tile, int splits) {
    return window_plan_of(of, d, {tile, splits});
  });
}

std::string window_refusal(const Problem& p, const DeviceInfo& d) {
  if (std::string other = plan::other_operation(p, core::Operation::strided); !other.empty()) return other;
  if (std::string none = no_mma(p, d); !none.empty()) return none;
  if (p.lout() > 1 && p.y_steps()[2] != 1) return "positions of dy are not contiguous";
  if (p.n * p.l < 1 || p.lout() < 1) return "no positions";
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  constexpr int64_t kNear = 1 << 20;
  if (p.stride >= kNear || p.k >= kNear || p.dilation >= kNear || core::Size(p.dilation) * p.k >= kCount ||
      p.padding >= kCount || p.lout() >= kCount || core::Size(p.n) * p.l >= kCount || p.cin >= kCount ||
      core::Size(p.cout) * p.k >= kCount || core::Size(p.stride) * p.l >= kCount) {
    return "positions or channels reach 2^30";
  }
  const int64_t terms = p.cout_per_group() * ceil_div(p.k, int64_t{2});
  if (std::string few = too_few_terms(p, terms); !few.empty()) return few;
  for (int tile = 0; tile < kWindowTileCount; ++tile) {
    if (window_plan_of(p, d, {tile, 1}).blocks > 0) return "";
  }
  return "its windows do not fit in shared memory";
}

std::string where(const WindowPlan& plan, const Problem& p, int64_t element) {
  const WindowParams& k = plan.params;
  const WindowTile& tile = kWindowTiles[plan.config.tile];
  const int64_t i = element % p.l, ci = element / p.l % p.cin, n = element / p.l / p.cin;
  const int64_t group = ci / p.cin_per_group(), inner = ci % p.cin_per_group(), column = n * p.l + i;
  return where_text(p, element, k,
                    {group * k.row_tiles.value + inner / tile.rows, inner % tile.rows, column / tile.columns,
                     column % tile.columns},
                    int64_t{k.row_tiles.value} * k.groups, k.column_tiles);
}

}  // namespace tconv::cuda
