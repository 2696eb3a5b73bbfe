// Of the plan of cuda.sm90.dense: what direct.cuh takes, and its places in shared memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/sm80/tiling.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

constexpr int kFewProducts = 16;  // slabs of channels times taps
constexpr int kMaxWidth = 256;    // of a tensor copy's box
constexpr int kMinStages = 3, kMaxStages = 10, kGoodStages = 5;
constexpr int kMinBuffers = 2, kMaxBuffers = 4;  // of slabs, where weights are streamed

// Rows of x lie so many elements apart that those r with the same r modulo this begin equally far behind a
// 16-byte boundary.
int row_classes_of(const Sm90Params& k, int vector) {
  return static_cast<int>(vector / std::gcd(k.x_step[1], int64_t{vector}));
}

// Taps that share a lane's registers: neighbours, of rows that begin on 16 bytes; 0: by operands in shared
// memory.
int tap_group_of(const Sm90Params& k, int classes, bool split) {
  const int most = split ? kSm90MaxSplitGroup : kSm90MaxTapGroup;
  return k.step == 1 && k.taps <= most && classes == 1 ? k.taps : 0;
}

// Positions of a stage before a half tile's first.
int64_t halo_of(const Sm90Params& k) {
  return round_up<int64_t>((k.taps - 1) * int64_t{k.step}, 8);
}

// Positions of a stage: as many more as rows begin behind a boundary.
int width_of(int positions, int element, int classes) {
  return round_up(positions + (classes > 1 ? 16 / element : 0), 16 / element);
}

// The output of the first half tile's first position.
int64_t rows_at(const Sm90Params& k) {
  return k.first_u * k.stride - k.padding;
}

// Whether a warp's rows of y begin on so few bytes that windows are better: of float32 4, of 16-bit types 2.
bool wants_windows(const Sm90Params& k) {
  return (rows_at(k) | k.lout) % 2 != 0;
}

// The stride, where lanes have outputs that lie together and rows of y begin on whole units of them; else 0.
int straight_of(const Sm90Params& k, int row_blocks, int parts, int element) {
  const bool takes = k.stride == 1 || k.stride == 2 || k.stride == 4 || k.stride == 8;
  if (!takes || k.phases != k.stride || k.tap_group == 0 || parts == 2) return 0;
  if (k.block_couts * k.phases != kSm90Rows) return 0;
  const int64_t vector = 16 / element, first = rows_at(k);
  if (k.stride == 1) return (first | k.lout) % (element == 4 ? 4 : 2) == 0 ? 1 : 0;
  if (k.lout % vector != 0) return 0;
  if (first % vector == 0) return k.stride;
  // Windows write whole sectors (n16 ci64 co32 l110208 k4 s2 p1 in tf32: 0.27 ms against 0.29).
  if (element == 4 && k.stride == 2 && row_blocks == 1) return 0;
  return (first + k.stride / 2) % vector == 0 ? k.stride : 0;
}

// Whether windows are staged as they lie in y: float32 where the stride is 1. From lanes with 4 neighbouring
// outputs only where rows begin on two of them; then there need not be windows, and where sums are long the
// products that windows have twice, one in 16, take more time than they save.
bool shifts(const Sm90Params& k, int parts, int element) {
  if (element != 4 || parts == 2 || k.stride != 1 || k.block_couts != kSm90Rows) return false;
  if (k.tap_group == 0) return wants_windows(k);
  return !wants_windows(k) && k.slabs * k.taps <= kFewProducts;
}

// Half tiles with windows overlap by what a window may begin late: it begins on a multiple of 8 elements of
// y, of float32 a whole sector. Their first positions are those of whole 16 bytes of x.
void set_half_tiles(Sm90Params& k, const Sm90DirectTile& tile, int element) {
  constexpr int kUnit = 8;
  const int vector = 16 / element, all = tile.half_tile() * k.stride;
  int step = tile.half_tile();
  if (k.windows) {
    step = (all - (kUnit - 1)) / k.stride / vector * vector;
    while (step * k.stride % kUnit != 0) step -= vector;
  }
  k.half_step = step;
  k.window_bytes = kUnit * element;
  k.row_vectors = step * k.stride / vector;
  const int64_t behind = k.lout - rows_at(k) - all;  // the first half tile
  const int64_t each = 1 + std::max<int64_t>(0, core::ceil_div(behind, int64_t{step} * k.stride));
  k.half_tiles = Divisor::of(static_cast<uint32_t>(each));
  k.half_rounds = static_cast<int>(core::ceil_div(k.samples * each, int64_t{tile.warpgroups}));
}

}  // namespace

bool sm90_direct_takes(const Sm90Plan& plan, const Problem& p) {
  const Sm90Params& k = plan.params;
  if (k.skewed || k.partial || k.x_step[1] <= 0) return false;
  // Its second row block would be the first again, for nothing.
  if (k.row_blocks < sm90_tile(plan.config).row_blocks) return false;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  const int vector = 16 / layout.element;
  const int classes = row_classes_of(k, vector);
  if (p.n > 1) {
    // Samples begin on 16 bytes, or where a row would.
    const int64_t unit = classes == 1 ? vector : k.x_step[1];
    if (k.x_step[0] <= 0 || k.x_step[0] % unit != 0) return false;
    if (core::Size(k.x_step[0] / k.x_step[1]) * p.n > std::numeric_limits<int>::max() / 2) return false;
  }
  // Tensor copies take steps of fewer than 2^40 bytes.
  constexpr int64_t kStep = int64_t{1} << 40;
  const core::Size row = core::Size(k.x_step[1]) * layout.element;
  if (row * std::max<int64_t>(classes, k.cin_group) >= kStep) return false;
  if (p.n > 1 && core::Size(k.x_step[0]) * layout.element >= kStep) return false;
  if (p.cin < classes) return false;  // a map without rows
  const int group = tap_group_of(k, classes, layout.parts == 2);
  const int64_t positions = sm90_direct_tile(1, group, layout.parts, layout.element).half_tile() + halo_of(k);
  return positions <= kMaxWidth &&
         width_of(static_cast<int>(positions), layout.element, classes) <= kMaxWidth;
}

Sm90DirectTile sm90_direct_tile(const Sm90Plan& plan, const Sm90Tile& tile) {
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  return sm90_direct_tile(tile.row_blocks, plan.params.tap_group, layout.parts, layout.element);
}

void sm90_set_direct(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90Params& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  const int element = layout.element, vector = 16 / element;
  k.row_classes = row_classes_of(k, vector);
  k.class_turn = static_cast<int>(k.x_step[1] % vector);
  k.sample_rows = static_cast<int>(k.x_step[0] / k.x_step[1]);
  k.tap_group = tap_group_of(k, k.row_classes, layout.parts == 2);
  const Sm90DirectTile direct = sm90_direct_tile(plan, tile);
  k.halo = static_cast<int>(halo_of(k));
  k.width = width_of(direct.half_tile() + k.halo, element, k.row_classes);
  k.raw_pitch = k.width * element;
  k.region_bytes = round_up(k.raw_pitch * (direct.channels / k.row_classes), 128);
  k.raw_bytes = k.region_bytes * k.row_classes;
  k.straight = straight_of(k, tile.row_blocks, layout.parts, element);
  k.shifted = k.straight == 0 && shifts(k, layout.parts, element);
  k.windows = k.straight == 0 && (k.shifted || wants_windows(k));
  k.row_outputs = (k.windows ? direct.half_tile() : direct.warp_positions()) * k.stride;
  k.row_pitch = k.row_outputs + vector;
  set_half_tiles(k, direct, element);
  k.pass_rows = 32 % k.phases == 0 ? 32 : kSm90Rows;
  k.pass_couts = k.pass_rows / k.phases;
  // One row more, for rows that do not exist.
  int64_t staged = round_up<int64_t>((k.pass_couts + 1LL) * k.row_pitch * element, 16);
  if (k.tap_group == 0) {  // two buffers of operands in the same place
    const int64_t operands = 2LL * layout.parts * kSm90Blocks * (direct.half_tile() + k.halo) * 16;
    staged = std::max(staged, operands / (k.windows ? 1 : 4));
  }
  const int64_t slab = int64_t{tile.row_blocks} * k.taps * layout.parts * kSm90BlockBytes;
  const int64_t table = 16 * kSm90Rows * tile.row_blocks, small = 3 * 4 * (kSm90MaxStages + 4);
  const int64_t groups = direct.warpgroups, all_staged = staged * groups * (k.windows ? 1 : 4);
  const int64_t rest = limit - all_staged - table - small - 128;
  auto stages_with = [&](int64_t slots) {
    return (rest - slots * (slab + 16)) / (groups * (k.raw_bytes + 16));
  };
  k.resident = plan.config.resident;
  int64_t slots = k.slabs;
  if (!k.resident) {
    slots = kMaxBuffers;
    while (slots > kMinBuffers && stages_with(slots) < kGoodStages) --slots;
  }
  int64_t stages = std::min<int64_t>(stages_with(slots), kMaxStages);
  if (plan.config.stages > 0) stages = std::min<int64_t>(stages, plan.config.stages);
  plan.shared_bytes = 0;
  if (rest < 0 || stages < (plan.config.stages > 0 ? 2 : kMinStages)) return;
  k.stages = static_cast<int>(stages);
  k.slots = static_cast<int>(slots);
  k.shared_weights = static_cast<int>(groups * stages * k.raw_bytes);
  k.shared_stage = static_cast<int>(k.shared_weights + slots * slab);
  k.staged_bytes = static_cast<int>(staged);
  k.shared_table = static_cast<int>(k.shared_stage + all_staged);
  k.shared_small = static_cast<int>(k.shared_table + table);
  k.shared_barriers = static_cast<int>(k.shared_small + small);
  plan.shared_bytes = static_cast<std::size_t>(k.shared_barriers + 8 * (2 * groups * stages + 2 * slots));
}

}  // namespace tconv::cuda
