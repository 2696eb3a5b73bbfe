// From a problem to the choices of cpu.strided. Pure; nothing is tuned per length.
#include <algorithm>
#include <limits>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/run_cycles.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/common/task_grid.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::strided {
namespace {

using core::ceil_div;

constexpr int64_t kSumElements = 128 * 1024;  // C of a task with several depth blocks
constexpr int64_t kMinPanelColumns = 192, kMaxPanelColumns = 1536;
// With strides from 2 on, the next panel's part of dy, which tiles fetch ahead, fits in L2 beside this panel.
// On a Zen 5 with AVX-512, times with room for the panel alone over those with room for both: 64 -> 32, K5 s2
// L205969 1.25, 32 -> 16, K8 s4 L80000 1.20, 392 -> 40, K10 s5, 128 samples, 1.17, 8 -> 8, K7 s12 0.98. Of
// 192 columns, 2 -> 64, K16 s4 0.90.
constexpr int64_t kMinStridedColumns = 384;
constexpr int64_t kMaxCoBlock = 512;
constexpr int64_t kMaxDepth = 4096;  // (co, tap) of a depth block: 128 KiB of a row block's weights in float
constexpr int64_t kMinCoBlock = 8;

// Of tiled panels, measured on a Xeon with AVX-512 and 2 MiB of L2. Strips of one tile keep it in L1, but
// their rows of dy and dx are too many streams: n1 ci64 co64 l54989 takes 8.6 ms then, and 3.2 with strips of
// 768. Whole depths gain 5 to 15% on depth blocks of 512, unless few rows share a panel: its first row block
// waits for dy, and blocks leave room in L2 for the next strip: n2 ci128 co2048 l1324 takes 9.4 ms with them,
// else 9.6 to 12.5.
constexpr int64_t kMaxTiledBlock = 2048, kMaxTiledBlockOfFewRows = 512, kFewRows = 8;
constexpr int64_t kMinStrip = 96, kMaxStrip = 768;
constexpr int64_t kOneStrip = 256;  // columns: a second strip would read the weights again

// Strips of one tap with vectors of up to 32 bytes, on a Zen 3: 6 layers of 64 to 1536 channels 1.10 times as
// fast as with the strips above. Short rows of sums keep tasks at many row blocks: each task fills the panel
// for itself.
constexpr int64_t kNarrowPanelColumns = 384;

// With such vectors depth blocks are so short that a tile's part of the panel and the weights of a row block
// share L1, and all row blocks of a pass, whose weights fit in L2, meet that part before the next
// (common/short_vectors.hpp). With few columns the weights count, which whole depths read in order: 1720 ->
// 1856, K6 s3 L29 takes 31 ms, with short depths 39.
constexpr int64_t kFewColumns = 96;

bool short_depths(const Job& job, int vector_bytes) {
  return short_vectors(vector_bytes) && job.split.columns > kFewColumns;
}

// Bytes of L1 that a channel takes, for columns of so many bytes.
int64_t run_bytes(const Job& job, int64_t columns) {
  const SplitPanel& s = job.split;
  const auto element = static_cast<int64_t>(accumulator_size(job.problem.dtype));
  const int64_t line_taps = ceil_div(s.tap_block, s.lines);
  const int64_t line = columns + 32 + std::min(s.halo * element, (line_taps - 1) * 64);
  return s.lines * line + kRows * element * s.tap_block;
}

void choose_run(Job& job, int vector_bytes) {
  Config& c = job.config;
  c.run = c.panel_columns;
  if (job.split.tiled || !short_depths(job, vector_bytes)) return;
  const auto element = static_cast<int64_t>(accumulator_size(job.problem.dtype));
  const int64_t tile = 3 * vector_bytes / element;
  const int64_t room = kFirstCacheBytes / c.co_block - run_bytes(job, 0);
  c.run = std::clamp(room / (job.split.lines * element) / tile * tile, tile, std::max(tile, c.panel_columns));
  if (c.run >= c.panel_columns) return;
  const auto rows = static_cast<int64_t>(job.row_elements());
  c.pass_blocks = std::clamp<int64_t>(kPassElements / std::max<int64_t>(1, rows), 1, c.blocks_per_task);
}

void choose_strip(Job& job, int vector_bytes) {
  Config& c = job.config;
  const int64_t all = round_up(std::max<int64_t>(job.split.columns, 1), kColumnAlign);
  const bool few_rows = job.cin * kFewRows <= job.cout;
  c.co_block = ceil_div(job.cout, ceil_div(job.cout, few_rows ? kMaxTiledBlockOfFewRows : kMaxTiledBlock));
  int64_t most = std::clamp(kPanelElements / c.co_block, kMinStrip, kMaxStrip), widest = kMaxPanelColumns;
  if (short_depths(job, vector_bytes) && all > kOneStrip) {
    const int64_t room = kFirstCacheBytes / static_cast<int64_t>(accumulator_size(job.problem.dtype));
    c.co_block = ceil_div(job.cout, ceil_div(job.cout, room / (kMaxTile + kRows)));
    most = std::clamp(room / c.co_block / kMaxTile * kMaxTile, kMaxTile, kMaxStrip);
    widest = kNarrowPanelColumns;
  }
  const int64_t strips = all <= kOneStrip ? 1 : ceil_div(all, most);
  c.strip = round_up(ceil_div(all, strips), kMaxTile);
  c.panel_columns = c.strip * std::min(strips, std::max<int64_t>(1, widest / c.strip));
}

void choose_panel(Job& job, int vector_bytes) {
  if (job.split.tiled) return choose_strip(job, vector_bytes);
  Config& c = job.config;
  int64_t panel = kPanelElements;
  const int64_t all = round_up(std::max<int64_t>(job.split.columns, 1), kColumnAlign);
  int64_t most = std::clamp(kMaxDepth / job.split.tap_block, kMinCoBlock, kMaxCoBlock);
  if (short_depths(job, vector_bytes)) {
    panel = kShortPanelElements;
    most = std::clamp(kFirstCacheBytes / run_bytes(job, 3 * vector_bytes), kMinCoBlock, most);
  }
  c.co_block = ceil_div(job.cout, ceil_div(job.cout, most));
  const int64_t lines = c.co_block * job.split.lines;
  int64_t columns = std::clamp(panel / lines / kMaxTile * kMaxTile, kMinPanelColumns, kMaxPanelColumns);
  if (!short_depths(job, vector_bytes) && job.problem.stride > 1) {
    const int64_t both = panel / (lines + c.co_block * job.problem.stride) / kMaxTile * kMaxTile;
    columns = std::min(columns, std::max(kMinStridedColumns, both));
  }
  const int64_t panels = ceil_div(all, columns);
  c.panel_columns = std::min(columns, round_up(ceil_div(all, panels), kMaxTile));
  job.split.set_columns(c.panel_columns);
  c.co_block = std::clamp<int64_t>(kPanelElements / job.split.channel(), 1, c.co_block);
}

// Cycles of a task on 16 lanes of float32: the panel, raw weights of its row blocks, products and stores.
double task_cycles(const Job& job, int64_t blocks, int64_t panel_columns) {
  const auto columns = static_cast<double>(panel_columns), rows = static_cast<double>(blocks * kRows);
  const auto channels = static_cast<double>(job.cout);
  const double depth = channels * static_cast<double>(job.problem.k);
  const double split = job.problem.stride == 1 ? 0.15 : 0.6;
  const double lines = channels * static_cast<double>(job.split.lines);
  // The weights of a single tile are read in place, which makes its products take a fifth longer.
  const bool single = panel_columns <= kMaxTile;
  return 5000 + lines * (20 + split * (columns + static_cast<double>(job.split.halo))) +
         rows * (depth * (single ? 0.1 : 0.4) + columns * (depth * (single ? 0.044 : 0.036) + 0.3));
}

// With several threads, a task gets fewer row blocks or a shorter panel: then several tasks load the same
// panel or pack the same row block, but no thread is idle.
void spread(Job& job, int threads) {
  Config& c = job.config;
  c.blocks = ceil_div(job.cin, kRows);
  c.blocks_per_task = c.blocks;
  if (!job.one_depth_block()) {
    c.blocks_per_task = std::clamp<int64_t>(kSumElements / (kRows * c.panel_columns), 1, c.blocks);
  }
  if (threads == 1) return;
  const int64_t all = std::max<int64_t>(1, job.split.columns), panels = ceil_div(all, c.panel_columns);
  const int64_t most_blocks = c.blocks_per_task;
  struct {
    int64_t blocks, columns;
  } chosen = {most_blocks, c.panel_columns};
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t across : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int64_t columns = std::min(c.panel_columns, round_up(ceil_div(all, panels * across), kMaxTile));
    for (const int64_t down : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
      const int64_t blocks = ceil_div(c.blocks, ceil_div(c.blocks, most_blocks) * down);
      const int64_t tasks = job.problem.groups * ceil_div(c.blocks, blocks) * ceil_div(all, columns);
      const double cycles = run_cycles(task_cycles(job, blocks, columns), tasks, threads);
      if (cycles < best) best = cycles, chosen = {blocks, columns};
      if (blocks == 1) break;
    }
    if (columns == kMaxTile) break;
  }
  c.blocks_per_task = chosen.blocks, c.panel_columns = chosen.columns;
  c.strip = std::min(c.strip, c.panel_columns);
  job.split.set_columns(c.panel_columns);
}

}  // namespace

std::size_t Job::panel_elements() const {
  if (split.tiled) return static_cast<std::size_t>(config.co_block * config.strip);
  return static_cast<std::size_t>(round_up<int64_t>(config.co_block * split.channel(), 64));
}

int64_t Job::sums_line() const {
  return one_depth_block() ? kMaxTile : round_up(config.panel_columns, kMaxTile);
}

std::size_t Job::sum_elements() const {
  return static_cast<std::size_t>(kRows * (one_depth_block() ? 1 : config.blocks_per_task) * sums_line());
}

std::size_t Job::row_elements() const {
  return static_cast<std::size_t>(kRows * config.co_block * split.tap_block);
}

Job make_job(const core::Problem& p, int threads, int vector_bytes) {
  const int64_t rows = p.cin_per_group();
  Job job{p, p.lout(), rows, p.cout_per_group(), split_panel(p, rows, !short_vectors(vector_bytes)), {}};
  choose_panel(job, vector_bytes);
  spread(job, threads);
  choose_run(job, vector_bytes);
  return job;
}

namespace {

TaskGrid grid_of(const Job& job) {
  const Config& c = job.config;
  return {c.blocks, c.blocks_per_task, job.split.columns, c.panel_columns};
}

}  // namespace

int64_t task_count(const Job& job) {
  return grid_of(job).count(job.problem.groups);
}

Task task_at(const Job& job, int64_t index) {
  return grid_of(job).at<Task>(index);
}

int64_t packed_elements(const Job& job) {
  return job.problem.groups * job.config.blocks * kRows * job.cout * job.problem.k;
}

std::string text(const Job& job) {
  const Config& c = job.config;
  const auto number = [](int64_t v) { return std::to_string(v); };
  return "rows " + number(job.cin) + ", columns " + number(job.split.columns) + " in panels of " +
         number(c.panel_columns) + " (" + number(job.split.lines) +
         (job.split.expanded ? " taps" : " phases") + " a channel" +
         (job.split.tiled ? ", strips of " + number(c.strip) : "") + "), depth blocks of " +
         number(c.co_block) + " co x " + number(job.split.tap_block) + " taps, " + number(c.blocks_per_task) +
         " of " + number(c.blocks) + " row blocks a task, " + number(task_count(job)) + " tasks";
}

}  // namespace tconv::cpu::strided
