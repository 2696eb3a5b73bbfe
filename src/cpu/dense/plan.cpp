#include "cpu/dense/plan.hpp"

#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/supports_tiles.hpp"
#include "cpu/common/task_grid.hpp"

namespace tconv::cpu::dense {
namespace {

using core::ceil_div;
using core::floor_div;

constexpr int64_t kMaxWholeStride = 1024;  // keeps the rows of a unit and its run of outputs in L2
constexpr int64_t kMaxUnitRows = 512;
constexpr int64_t kMaxTapBlock = 256;
constexpr int64_t kMaxCinBlock = 512;
constexpr int64_t kPanelElements = 96 * 1024;  // 384 KiB of float: half of a 1 MiB L2 with room for A and C
constexpr int64_t kSumElements = 128 * 1024;   // C of a task with several depth blocks
constexpr int64_t kMinPanelColumns = 192, kMaxPanelColumns = 1536;
constexpr int64_t kTasksPerThread = 8;

// For raw weights that are packed where they are read. There is one panel, since each would pack them again,
// and so few channels at a time that panel, sums and two chunks fit in a second-level cache of 1 MiB.
constexpr int64_t kMaxRawColumns = 512;
constexpr int64_t kRawPanelElements = 64 * 1024, kRawSumElements = 64 * 1024, kChunkElements = 32 * 1024;
constexpr int64_t kMinRawCinBlock = 16, kMaxRawUnit = 8192;  // weights of a unit in a channel
constexpr int64_t kRawTasksPerThread = 2;
// Weights that a chunk takes from a channel, at least, where there are many weights: shorter pieces touch
// more pages than the TLB holds. On a Xeon with AVX-512, 2048 -> 1024, K7 L83 takes 37 ms with 256 and 42
// with 56; 1024 -> 512, K16 s8 L100 27 and 29; 160 -> 160, K4 s2 L79 0.30 and 0.29.
constexpr int64_t kRawPiece = 256, kManyWeights = int64_t{1} << 20;

// A column computes every residue, even those whose outputs the padding cuts off. If residues are far apart,
// nearly all products would be wasted: more than this many columns per output are refused.
constexpr int64_t kMostWaste = 32, kLittleWork = 4096;

// The largest distance between outputs of one column.
int64_t farthest_of(const Geometry& g) {
  return (g.residues - 1) * g.dilation;
}

bool whole_units(const Geometry& g) {
  return farthest_of(g) < g.stride && g.stride <= kMaxWholeStride;
}

void place_columns(Geometry& g, bool whole) {
  g.q_first = whole ? floor_div(g.padding, g.stride) : ceil_div(g.padding - farthest_of(g), g.stride);
  g.q_count = std::max<int64_t>(0, ceil_div(g.lout + g.padding, g.stride) - g.q_first);
}

void place_classes(Geometry& g, const Config& c) {
  int64_t offset = 0;
  for (RowClass& rows : g.classes) {
    rows.blocks = ceil_div(c.cout_block * rows.residues, kRows);
    rows.weight_offset = offset;
    offset += cout_blocks(g, c) * rows.blocks * block_elements(g, rows);
  }
}

// The smallest power of two that fills row blocks of both classes, while the unit stays small.
int64_t choose_cout_block(const Geometry& g) {
  int64_t block = 1;
  for (const RowClass& rows : g.classes) {
    if (rows.residues > 0) block = std::max(block, kRows / std::gcd(kRows, rows.residues));
  }
  while (block > 1 && block * g.residues > kMaxUnitRows) block /= 2;
  return block;
}

// Columns: how samples lie side by side, and which panel layout holds their taps.
void choose_columns(const Geometry& g, Config& c) {
  const int64_t halo = (c.tap_block - 1) * g.delta;
  const int64_t zeros_before = std::max<int64_t>(0, halo - g.q_first);
  const int64_t zeros_after = std::max<int64_t>(0, g.q_first + g.q_count - g.l);
  const int64_t shared_zeros = c.tap_block < g.taps ? 0 : std::min({zeros_before, zeros_after, halo});
  const int64_t gap = g.n > 1 ? halo - shared_zeros : 0;  // columns without an output between samples
  const bool far = g.delta > kMinPanelColumns;
  c.expanded = far || gap * g.cout * g.residues > 8 * g.q_count;
  c.halo = c.expanded ? 0 : halo;
  c.period = c.expanded ? g.q_count : g.q_count + halo - shared_zeros;
  c.columns = g.n == 0 || g.q_count <= 0 ? 0 : (g.n - 1) * c.period + g.q_count;
}

// An odd number of cache lines, so that channels spread over the sets of L1.
int64_t odd_lines(int64_t elements) {
  const int64_t lines = ceil_div(elements, kColumnAlign);
  return (lines | 1) * kColumnAlign;
}

int64_t line_of(const Config& c, int64_t columns) {
  const int64_t aligned = round_up(columns, kColumnAlign);
  return odd_lines(c.expanded ? c.tap_block * aligned : aligned + c.halo);
}

// Bytes that a channel of a strip brings into L1 besides its columns: the halo, what lines overhang, and the
// weights of a row block.
int64_t strip_overhead(const Geometry& g, const Config& c) {
  const auto element = static_cast<int64_t>(accumulator_size(g.dtype));
  const int64_t weights = kRows * element * c.tap_block;
  return weights + (c.expanded ? 32 * c.tap_block : std::min(c.halo * element, (c.tap_block - 1) * 64) + 32);
}

// Channels whose part of a tile fits in L1.
int64_t most_strip_channels(const Geometry& g, const Config& c, int vector_bytes) {
  if (!short_vectors(vector_bytes)) return kMaxCinBlock;
  const int64_t tile = 3 * vector_bytes * (c.expanded ? c.tap_block : 1);
  return std::clamp<int64_t>(kFirstCacheBytes / (tile + strip_overhead(g, c)), 16, kMaxCinBlock);
}

void choose_strip(const Geometry& g, Config& c, int vector_bytes) {
  c.strip = c.panel_columns;
  c.pass_units = c.units_per_task;
  if (!short_vectors(vector_bytes)) return;
  const auto element = static_cast<int64_t>(accumulator_size(g.dtype));
  const int64_t lines = c.expanded ? c.tap_block : 1, tile = 3 * vector_bytes / element;
  const int64_t columns = (kFirstCacheBytes / c.cin_block - strip_overhead(g, c)) / (element * lines);
  c.strip = std::clamp(columns / tile * tile, tile, std::max(tile, c.panel_columns));
  const int64_t unit = std::max<int64_t>(1, chunk_unit_elements(g, c));
  c.pass_units = std::clamp<int64_t>(kPassElements / unit, 1, c.units_per_task);
}

void choose_panel(const Geometry& g, Config& c, int vector_bytes) {
  const int64_t all = round_up(std::max<int64_t>(c.columns, 1), kColumnAlign);
  const int64_t blocks = ceil_div(g.cin, most_strip_channels(g, c, vector_bytes));
  c.cin_block = ceil_div(g.cin, blocks);
  const int64_t panel = short_vectors(vector_bytes) ? kShortPanelElements : kPanelElements;
  int64_t columns = panel / (c.cin_block * (c.expanded ? c.tap_block : 1));
  columns = std::clamp(columns / kMaxTile * kMaxTile, kMinPanelColumns, kMaxPanelColumns);
  const int64_t panels = ceil_div(all, columns);
  c.panel_columns = std::min(columns, round_up(ceil_div(all, panels), kMaxTile));
  c.line = line_of(c, c.panel_columns);
  // With a long halo or many expanded taps, fewer channels at a time.
  c.cin_block = std::clamp<int64_t>(2 * kPanelElements / c.line, 1, c.cin_block);
  c.one_depth_block = c.cin_block == g.cin && c.tap_block >= g.taps;
}

void choose_raw_panel(const Geometry& g, Config& c, int vector_bytes) {
  const int64_t all = round_up(std::max<int64_t>(c.columns, 1), kColumnAlign);
  c.panel_columns = all;
  const int64_t lines = c.expanded ? c.tap_block : 1;
  const int64_t unit = unit_weights(g, c), channel = g.cout * g.k;
  const int64_t piece = g.cin * channel < kManyWeights ? unit : round_up(std::min(kRawPiece, channel), unit);
  const int64_t fit = std::min(kRawPanelElements / (c.panel_columns * lines), kChunkElements / piece);
  const int64_t most = std::clamp(fit, kMinRawCinBlock, most_strip_channels(g, c, vector_bytes));
  c.cin_block = ceil_div(g.cin, ceil_div(g.cin, most));
  c.line = line_of(c, c.panel_columns);
  c.cin_block = std::clamp<int64_t>(2 * kPanelElements / c.line, 1, c.cin_block);
  c.one_depth_block = c.cin_block == g.cin;
}

void choose_units(const Geometry& g, Config& c, bool raw) {
  int64_t per_cout_block = 1;
  if (!c.whole) per_cout_block = g.classes[0].blocks + g.classes[1].blocks;
  c.units = cout_blocks(g, c) * per_cout_block;
  c.units_per_task = std::max<int64_t>(1, c.units);
  if (c.one_depth_block) return;
  const int64_t most =
      (raw ? kRawSumElements : kSumElements) / unit_rows(g, c);  // columns of one unit's sums
  c.panel_columns = std::min(c.panel_columns, std::max(kMaxTile, most / kMaxTile * kMaxTile));
  c.line = line_of(c, c.panel_columns);
  c.units_per_task = std::clamp<int64_t>(most / c.panel_columns, 1, c.units);
}

// Splits rows first (down to 64: with fewer, loading the panel costs more than the split gains), then
// columns, until there are panel_tasks per thread.
void spread(const Geometry& g, Config& c, int threads, int64_t panel_tasks) {
  if (threads <= 1 || c.columns == 0) return;
  const int64_t wanted = kTasksPerThread * threads;
  const int64_t least = std::clamp<int64_t>(64 / unit_rows(g, c), 1, c.units_per_task);
  while (task_count(g, c) < wanted && c.units_per_task > least) {
    c.units_per_task = std::max(least, c.units_per_task / 2);
  }
  while (task_count(g, c) < panel_tasks * threads && c.panel_columns > kMaxTile) {
    c.panel_columns = round_up(c.panel_columns / 2, kMaxTile);
  }
  c.line = line_of(c, c.panel_columns);
}

}  // namespace

plan::Support supports(const core::Problem& problem) {
  if (plan::Support takes = supports_tiles(problem, core::Operation::transposed); !takes.ok) return takes;
  Geometry g = make_geometry(problem);
  place_columns(g, whole_units(g));
  if (core::Size(g.q_count) * g.residues > core::Size(kMostWaste) * g.lout + kLittleWork) {
    return plan::Support::no("padding cuts nearly all outputs of " + std::to_string(g.residues) +
                             " residues");
  }
  return plan::Support::yes();
}

Geometry make_geometry(const core::Problem& p) {
  Geometry g;
  g.dtype = p.dtype;
  g.has_bias = p.has_bias;
  g.n = p.n, g.groups = p.groups, g.cin = p.cin_per_group(), g.cout = p.cout_per_group();
  g.l = p.l, g.lout = p.lout(), g.k = p.k;
  g.stride = p.stride, g.padding = p.padding, g.dilation = p.dilation;
  const core::Polyphase form(p);
  g.tap_step = form.tap_stride;
  g.delta = form.step;
  g.residues = form.count;
  g.taps = form.taps;
  const auto steps = p.x_steps();
  std::copy(steps.begin(), steps.end(), g.x_steps);
  const int64_t longer = form.longer();
  g.classes[0] = {0, longer, g.taps, 0, 0};
  g.classes[1] = {longer, g.residues - longer, g.taps - 1, 0, 0};
  return g;
}

Config make_config(Geometry& g, int threads, int vector_bytes) {
  Config c;
  c.whole = whole_units(g);
  c.cout_block = choose_cout_block(g);
  c.tap_block = std::min(g.taps, kMaxTapBlock);
  place_columns(g, c.whole);
  place_classes(g, c);
  choose_columns(g, c);
  choose_panel(g, c, vector_bytes);
  choose_units(g, c, false);
  spread(g, c, threads, kTasksPerThread);
  choose_strip(g, c, vector_bytes);
  return c;
}

Config make_raw_config(const Geometry& g, const Config& packed, int threads, int vector_bytes) {
  Config c = packed;
  if (c.tap_block < g.taps || c.columns > kMaxRawColumns || unit_weights(g, c) > kMaxRawUnit) return c;
  choose_raw_panel(g, c, vector_bytes);
  choose_units(g, c, true);
  spread(g, c, threads, kRawTasksPerThread);
  if (c.panel_columns < c.columns) return packed;  // each panel would pack all weights again
  c.chunk_units = std::clamp<int64_t>(kChunkElements / chunk_unit_elements(g, c), 1, c.units_per_task);
  choose_strip(g, c, vector_bytes);
  return c;
}

Scratch scratch_of(const Geometry& g, const Config& c) {
  Scratch s;
  s.panel = round_up(c.cin_block * c.line, int64_t{64});
  const int64_t sum_columns = c.one_depth_block ? kMaxTile : round_up(c.panel_columns, kMaxTile);
  const int64_t sum_units = c.one_depth_block ? 1 : c.units_per_task;
  s.sums = round_up(sum_units * unit_rows(g, c) * sum_columns, int64_t{64});
  if (c.chunk_units > 0) s.chunk = round_up(c.chunk_units * chunk_unit_elements(g, c), int64_t{64});
  s.run = c.whole ? round_up(g.stride * kMaxTile + 64, int64_t{64}) : 0;
  return s;
}

namespace {

TaskGrid grid_of(const Config& c) {
  return {c.units, c.units_per_task, c.columns, c.panel_columns};
}

}  // namespace

int64_t task_count(const Geometry& g, const Config& c) {
  return grid_of(c).count(g.groups);
}

Task task_at(const Config& c, int64_t index) {
  return grid_of(c).at<Task>(index);
}

std::string text(const Geometry& g, const Config& c) {
  const auto number = [](int64_t v) { return std::to_string(v); };
  std::string out = "rows " + number(g.cout * g.residues) + " (" + number(g.classes[0].residues) +
                    " residues x " + number(g.classes[0].taps) + " taps";
  if (g.classes[1].residues > 0) {
    out += ", " + number(g.classes[1].residues) + " x " + number(g.classes[1].taps);
  }
  out += "), columns " + number(c.columns) + " in panels of " + number(c.panel_columns) +
         (c.expanded ? " (a line a tap)" : "") + ", depth blocks of " + number(c.cin_block) + " ci x " +
         number(c.tap_block) + " taps, units of " + (c.whole ? number(c.cout_block) + " cout" : "8 rows") +
         ", " + number(c.units_per_task) + " of " + number(c.units) + " a task, " + number(task_count(g, c)) +
         " tasks";
  return out;
}

}  // namespace tconv::cpu::dense
