// Part of the plan of cuda.sm90.dense: what tma_stages.cuh can take, and its places in shared memory.
#include <algorithm>
#include <limits>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

constexpr int kFewProducts = 16;  // slabs of channels times taps
constexpr int kMaxWidth = 256;    // of the box of a tensor copy
constexpr int kMinStages = 3, kMaxStages = 10, kGoodStages = 5;
constexpr int kMinBuffers = 2, kMaxBuffers = 4;  // of slabs, if weights are streamed

// Taps that share a lane's registers: neighbours, in rows that begin on 16 bytes; 0: operands are in shared
// memory.
int tap_group_of(const Sm90StageParams& k, int classes, bool split) {
  const int most = split ? kSm90MaxSplitGroup : kSm90MaxTapGroup;
  return k.sizes.step == 1 && k.sizes.taps <= most && classes == 1 ? k.sizes.taps : 0;
}

// Positions of a stage before the first of a tile.
int64_t halo_of(const Sm90StageParams& k) {
  return round_up<int64_t>((k.sizes.taps - 1) * int64_t{k.sizes.step}, 8);
}

// Positions of a stage: as many more as rows begin after a boundary.
int width_of(int positions, int element, int classes) {
  return round_up(positions + (classes > 1 ? 16 / element : 0), 16 / element);
}

// The output of the first tile's first position.
int64_t rows_at(const Sm90StageParams& k) {
  return k.columns.first_u * k.sizes.stride - k.sizes.padding;
}

// Whether a warp's rows of y are aligned so little that windows are better: 4 bytes, or 2 in 16-bit types.
bool wants_windows(const Sm90StageParams& k) {
  return (rows_at(k) | k.sizes.lout) % 2 != 0;
}

// The stride, if lanes have outputs that are contiguous and rows of y begin on whole units of them; else 0.
int straight_of(const Sm90StageParams& k, int row_blocks, int parts, int element) {
  const bool takes = k.sizes.stride == 1 || k.sizes.stride == 2 || k.sizes.stride == 4 || k.sizes.stride == 8;
  if (!takes || k.sizes.phases != k.sizes.stride || k.tma.tap_group == 0 || parts == 2) return 0;
  if (k.sizes.block_couts * k.sizes.phases != kSm90Rows) return 0;
  const int64_t vector = 16 / element, first = rows_at(k);
  if (k.sizes.stride == 1) return (first | k.sizes.lout) % (element == 4 ? 4 : 2) == 0 ? 1 : 0;
  if (k.sizes.lout % vector != 0) return 0;
  if (first % vector == 0) return k.sizes.stride;
  // Windows write whole sectors (n16 ci64 co32 l110208 k4 s2 p1 in tf32: 0.27 ms against 0.29).
  if (element == 4 && k.sizes.stride == 2 && row_blocks == 1) return 0;
  return (first + k.sizes.stride / 2) % vector == 0 ? k.sizes.stride : 0;
}

// Whether windows are staged as they lie in y: float32 with stride 1. If lanes have 4 neighbouring outputs,
// only when rows begin on two of them; windows are not needed then, and if sums are long, the products that
// windows compute twice, one in 16, take more time than they save.
bool shifts(const Sm90StageParams& k, int parts, int element) {
  if (element != 4 || parts == 2 || k.sizes.stride != 1 || k.sizes.block_couts != kSm90Rows) return false;
  if (k.tma.tap_group == 0) return wants_windows(k);
  return !wants_windows(k) && k.grid.slabs * k.sizes.taps <= kFewProducts;
}

// Half tiles with windows overlap by as much as a window may begin late: it begins on a multiple of 8
// elements of y, in float32 a whole sector. Their first positions are those of whole 16 bytes of x.
void set_tiles(Sm90StageParams& k, const Sm90WarpgroupTile& tile, int element) {
  constexpr int kUnit = 8;
  const int vector = 16 / element, all = tile.positions() * k.sizes.stride;
  int step = tile.positions();
  if (k.writer.windows) {
    step = (all - (kUnit - 1)) / k.sizes.stride / vector * vector;
    while (step * k.sizes.stride % kUnit != 0) step -= vector;
  }
  k.tiles.step = step;
  k.writer.window_bytes = kUnit * element;
  k.writer.row_vectors = step * k.sizes.stride / vector;
  const int64_t behind = k.sizes.lout - rows_at(k) - all;  // the first tile
  const int64_t each = 1 + std::max<int64_t>(0, core::ceil_div(behind, int64_t{step} * k.sizes.stride));
  k.tiles.per_sample = Divisor::of(static_cast<uint32_t>(each));
  k.tiles.rounds = static_cast<int>(core::ceil_div(k.sizes.samples * each, int64_t{tile.warpgroups}));
}

}  // namespace

bool sm90_copies_rows(const Sm90Plan& plan, const Problem& p) {
  const Sm90StageParams& k = plan.params;
  if (k.sizes.x_step[1] <= 0) return false;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const int vector = 16 / layout.element;
  const int classes = row_classes(k.sizes.x_step[1], vector);
  if (p.n > 1) {
    // Samples begin on 16 bytes, or where a row would.
    const int64_t unit = classes == 1 ? vector : k.sizes.x_step[1];
    if (k.sizes.x_step[0] <= 0 || k.sizes.x_step[0] % unit != 0) return false;
    if (core::Size(k.sizes.x_step[0] / k.sizes.x_step[1]) * p.n > std::numeric_limits<int>::max() / 2)
      return false;
  }
  const int64_t rows = std::max<int64_t>(classes, k.sizes.cin_group);
  if (!copies_reach(p, k.sizes.x_step[1], rows, k.sizes.x_step[0])) return false;
  return p.cin >= classes;  // otherwise a map has no rows
}

bool sm90_tma_takes(const Sm90Plan& plan, const Problem& p) {
  const Sm90StageParams& k = plan.params;
  if (k.sizes.skewed || k.pass.partial || !sm90_copies_rows(plan, p)) return false;
  // Its second row block would repeat the first, for nothing.
  if (k.sizes.row_blocks < sm90_tile(plan.config).row_blocks) return false;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const int classes = row_classes(k.sizes.x_step[1], 16 / layout.element);
  const int group = tap_group_of(k, classes, layout.parts == 2);
  const int64_t positions =
      sm90_warpgroup_tile(1, group, layout.parts, layout.element).positions() + halo_of(k);
  return positions <= kMaxWidth &&
         width_of(static_cast<int>(positions), layout.element, classes) <= kMaxWidth;
}

Sm90WarpgroupTile sm90_warpgroup_tile(const Sm90Plan& plan, const Sm90Tile& tile) {
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  return sm90_warpgroup_tile(tile.row_blocks, plan.params.tma.tap_group, layout.parts, layout.element);
}

void sm90_set_tma(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90StageParams& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const int element = layout.element, vector = 16 / element;
  k.tma.row_classes = row_classes(k.sizes.x_step[1], vector);
  k.tma.class_turn = static_cast<int>(k.sizes.x_step[1] % vector);
  k.tma.sample_rows = static_cast<int>(k.sizes.x_step[0] / k.sizes.x_step[1]);
  k.tma.tap_group = tap_group_of(k, k.tma.row_classes, layout.parts == 2);
  const Sm90WarpgroupTile warpgroup_tile = sm90_warpgroup_tile(plan, tile);
  k.tma.halo = static_cast<int>(halo_of(k));
  k.tma.width = width_of(warpgroup_tile.positions() + k.tma.halo, element, k.tma.row_classes);
  k.tma.pitch = k.tma.width * element;
  k.tma.region_bytes = round_up(k.tma.pitch * (warpgroup_tile.channels / k.tma.row_classes), 128);
  k.tma.stage_bytes = k.tma.region_bytes * k.tma.row_classes;
  k.writer.straight = straight_of(k, tile.row_blocks, layout.parts, element);
  k.writer.shifted = k.writer.straight == 0 && shifts(k, layout.parts, element);
  k.writer.windows = k.writer.straight == 0 && (k.writer.shifted || wants_windows(k));
  k.writer.row_outputs =
      (k.writer.windows ? warpgroup_tile.positions() : warpgroup_tile.warp_positions()) * k.sizes.stride;
  k.writer.row_pitch = k.writer.row_outputs + vector;
  set_tiles(k, warpgroup_tile, element);
  k.writer.pass_rows = 32 % k.sizes.phases == 0 ? 32 : kSm90Rows;
  k.writer.pass_couts = k.writer.pass_rows / k.sizes.phases;
  // One row more, for rows that do not exist.
  int64_t staged = round_up<int64_t>((k.writer.pass_couts + 1LL) * k.writer.row_pitch * element, 16);
  if (k.tma.tap_group == 0) {  // two buffers of operands in the same place
    const int64_t operands =
        2LL * layout.parts * kSm90Blocks * (warpgroup_tile.positions() + k.tma.halo) * 16;
    staged = std::max(staged, operands / (k.writer.windows ? 1 : 4));
  }
  const int64_t slab = int64_t{tile.row_blocks} * k.sizes.taps * layout.parts * kSm90PartBytes;
  const int64_t table = kSm90RowBytes * kSm90Rows * tile.row_blocks,
                small = 3 * (4 * kSm90MaxStages + kSm90AgreedBytes);
  const int64_t groups = warpgroup_tile.warpgroups, all_staged = staged * groups * (k.writer.windows ? 1 : 4);
  const int64_t rest = limit - all_staged - table - small - 128;
  auto stages_with = [&](int64_t slots) {
    return (rest - slots * (slab + 16)) / (groups * (k.tma.stage_bytes + 16));
  };
  k.weights.resident = plan.config.resident;
  int64_t slots = k.grid.slabs;
  if (!k.weights.resident) {
    slots = kMaxBuffers;
    while (slots > kMinBuffers && stages_with(slots) < kGoodStages) --slots;
  }
  int64_t stages = std::min<int64_t>(stages_with(slots), kMaxStages);
  if (plan.config.stages > 0) stages = std::min<int64_t>(stages, plan.config.stages);
  plan.shared_bytes = 0;
  if (rest < 0 || stages < (plan.config.stages > 0 ? 2 : kMinStages)) return;
  k.tma.stages = static_cast<int>(stages);
  k.weights.slots = static_cast<int>(slots);
  k.weights.shared = static_cast<int>(groups * stages * k.tma.stage_bytes);
  k.writer.shared = static_cast<int>(k.weights.shared + slots * slab);
  k.writer.staged_bytes = static_cast<int>(staged);
  k.writer.shared_rows = static_cast<int>(k.writer.shared + all_staged);
  k.tma.shared_tiles = static_cast<int>(k.writer.shared_rows + table);
  k.barriers = static_cast<int>(k.tma.shared_tiles + small);
  plan.shared_bytes = static_cast<std::size_t>(k.barriers + 8 * (2 * groups * stages + 2 * slots));
}

}  // namespace tconv::cuda
