// Part of the plan of cuda.sm90.dense: the stages if x is gathered, and their places in shared memory.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

constexpr int kMaxHalo = 128;  // positions of a stage before its columns
constexpr int kMinStages = 3, kMinSlots = 4, kMaxSlots = 12;

// Whether rows of y are stored line by line, not by passes. With operands in two parts, the loop over lines
// reads spilled values, and a tile takes up to 1.2 times as long. But lines take much less code, which a
// block with only one tile waits for (ieee, k3, by passes and by lines: n1 ci256 co256 l4000 25.4 and 22.6
// us, n16 ci128 co128 l8000 130 and 147).
bool stores_lines(const Sm90Plan& plan, const core::DeviceInfo& d) {
  constexpr int64_t kLongest = int64_t{1} << 30;  // outputs that LineWriter counts
  const Sm90StageParams& k = plan.params;
  if (k.sizes.stride != 1 || k.pass.partial || k.columns.folded || k.sizes.lout >= kLongest) return false;
  const int64_t rows = int64_t{k.grid.row_runs} * k.sizes.groups;
  return sm90_layout(plan.mode, plan.config.scaled).parts == 1 ||
         rows * k.columns.column_tiles <= block_places(d, 1, 1);
}

// How the writer stages a warpgroup's outputs.
void set_writer(Sm90Plan& plan) {
  Sm90StageParams& k = plan.params;
  const int element = sm90_layout(plan.mode, plan.config.scaled).element, vector = 16 / element;
  const int pass = k.pass.columns;
  const int reach = (k.sizes.phases - 1) * k.sizes.dilation;
  k.pass.span = pass * k.sizes.stride + (k.sizes.skewed ? reach : 0);
  k.pass.row_vectors = pass * k.sizes.stride / vector;
  k.pass.row_turn = 128 / k.pass.row_vectors;
  k.pass.row_rest = 128 % k.pass.row_vectors;
  k.pass.vectors_div = Divisor::of(static_cast<uint32_t>(k.pass.row_vectors));
  k.pass.span_div = Divisor::of(static_cast<uint32_t>(k.pass.span));
  k.pass.window = static_cast<int>(std::min<int64_t>(k.sizes.lout, k.pass.span));
  while (k.pass.log_lanes < 7 && 1 << k.pass.log_lanes < k.pass.window) ++k.pass.log_lanes;
  k.pass.by_elements = k.columns.folded || (k.sizes.skewed && reach + 2 * vector > pass * k.sizes.stride / 2);
  k.pass.carried = k.sizes.skewed && !k.pass.by_elements ? reach : 0;
  // Rows of 512 bytes take 1.03 times as long by bulk copies as by vectors of threads, of 768 0.94 times
  // (H200, strides 2 and 3, seven and three layers; 0.86 to 0.9 with rows of 2 KiB and more).
  constexpr int kLongRow = 768;  // bytes
  k.pass.bulk = !k.pass.by_elements && 16 * k.pass.row_vectors >= kLongRow;
  // 8 words modulo 32 from row to row, if there is one phase for each cout: 4 lanes in a row, two columns
  // each.
  k.pass.row_pitch = round_up(k.pass.span + vector, 2 * vector);
  if (k.sizes.phases == 1 && k.pass.row_pitch % 64 == 0) k.pass.row_pitch += 2 * vector;
}

// Places in shared memory, in order: x, weights, staged outputs, tables, barriers; as many stages as fit.
void set_places(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90StageParams& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  k.gather.tap_group = static_cast<int>(std::min<int64_t>(k.sizes.taps, kMaxHalo / k.sizes.step + 1));
  k.gather.tap_groups = static_cast<int>(ceil_div(k.sizes.taps, k.gather.tap_group));
  k.gather.halo =
      round_up(k.sizes.step * (k.gather.tap_group - 1), 2);  // even, because 16-bit types load pairs
  k.gather.width = tile.columns() + k.gather.halo;
  k.gather.pitch = round_up(k.gather.width, 8);
  k.gather.step_pitch = 2 * k.gather.pitch;
  const int64_t stage = int64_t{layout.parts} * kSm90Blocks * k.gather.pitch * 16;
  k.gather.stage_bytes = static_cast<int>(stage);
  const int64_t slot = int64_t{tile.row_blocks} * layout.parts * kSm90PartBytes;
  const int64_t staging = sm90_staging_bytes(k, layout.element);
  const int64_t table = round_up<int64_t>(
      kSm90RowBytes * kSm90Rows * tile.row_blocks + (k.sizes.skewed ? 4 * k.sizes.stride : 0), 16);
  const int64_t rest = limit - staging - table - 8 * kSm90MaxStages - kSm90ScaleBytes - 128;
  auto stages_with = [&](int64_t slots) { return (rest - slots * (slot + 16)) / (stage + 16); };

  int64_t slots = std::clamp<int64_t>(2 * k.gather.tap_group, kMinSlots, kMaxSlots);
  while (slots > kMinSlots && stages_with(slots) < kMinStages) --slots;
  int64_t stages = std::min<int64_t>(stages_with(slots), kSm90MaxStages);
  if (plan.config.stages > 0) stages = std::min<int64_t>(stages, plan.config.stages);
  plan.shared_bytes = 0;
  if (stages < 2) return;  // a stage is released only while the next one is being multiplied
  k.gather.stages = static_cast<int>(stages);
  k.weights.slots = static_cast<int>(slots);
  k.weights.shared = round_up(static_cast<int>(stages * stage), 128);
  k.pass.shared = static_cast<int>(k.weights.shared + slots * slot);
  k.pass.shared_rows = static_cast<int>(k.pass.shared + staging);
  k.gather.shared_marks = static_cast<int>(k.pass.shared_rows + table);
  k.gather.shared_scale = k.gather.shared_marks + 8 * kSm90MaxStages;
  k.barriers = k.gather.shared_scale + kSm90ScaleBytes;
  plan.shared_bytes = static_cast<std::size_t>(k.barriers + 16 * (stages + slots));
}

}  // namespace

int sm90_second_place(const Sm90Plan& plan, const Sm90Tile& tile) {
  const Sm90StageParams& k = plan.params;
  if (k.pass.lines || k.pass.partial || !k.pass.bulk) return 0;
  return tile.n > k.pass.columns ? k.sizes.block_couts * k.pass.row_pitch : 0;
}

int64_t sm90_staging_bytes(const Sm90StageParams& k, int element) {
  if (k.pass.lines) return kSm90LineRows * sm90_line_pitch(k.pass.line_bytes);
  if (k.pass.partial) return 0;
  const int64_t places = k.pass.second > 0 ? 2 : 1;
  return round_up<int64_t>(2 * places * k.sizes.block_couts * k.pass.row_pitch * element, 128);
}

int64_t sm90_block_slabs(const Sm90Grid& grid) {
  return std::min<int64_t>(grid.slabs, ceil_div(grid.units, grid.splits) * grid.unit_slabs);
}

void sm90_set_turns(Sm90Plan& plan, const Sm90Storing& storing) {
  Sm90StageParams& k = plan.params;
  const int64_t slabs = sm90_block_slabs(k.grid);
  k.grid.turns = storing.turns && 2 * slabs * k.gather.tap_groups <= k.gather.stages &&
                 (k.weights.resident || 2 * slabs * k.sizes.taps <= k.weights.slots);
}

void sm90_set_gather(Sm90Plan& plan, const Sm90Tile& tile, const core::DeviceInfo& d,
                     const Sm90Storing& storing) {
  plan.params.pass.lines = stores_lines(plan, d);
  const int element = sm90_layout(plan.mode, plan.config.scaled).element;
  plan.params.pass.columns = std::min(tile.n, storing.pass_bytes / element);
  plan.params.pass.line_bytes = storing.line_bytes;
  set_writer(plan);
  sm90_set_passes(plan, tile, [&] { set_places(plan, tile, d.shared_per_block); });
  if (plan.shared_bytes > 0) sm90_set_turns(plan, storing);
}

}  // namespace tconv::cuda
