// Of the plan of cuda.sm90.dense: what direct.cuh takes, and its places in shared memory.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/sm80/tiling.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

constexpr int kMaxTaps = 4;  // from one lane's registers
constexpr int kMinStages = 3, kMaxStages = 10, kGoodStages = 5;
constexpr int kMinBuffers = 2, kMaxBuffers = 4;  // of slabs, where weights are streamed

// Positions from a channel's row to the next: an odd number of 16-byte units apart, so that the 4 channels of
// a warp's read lie in banks of their own.
int pitch_of(int positions, int element) {
  const int units = round_up(positions * element, 16) / 16;
  return (units + (units % 2 == 0 ? 1 : 0)) * 16 / element;
}

// Whether a warp's rows of y begin on so few bytes that windows are better: of float32 4, of 16-bit types 2.
bool wants_windows(const Sm90Params& k) {
  const int64_t odd = (k.first_u * k.stride - k.padding) | k.lout;
  return odd % 2 != 0;
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
  const int64_t behind = k.lout - (k.first_u * k.stride - k.padding) - all;  // the first half tile
  const int64_t each = 1 + std::max<int64_t>(0, core::ceil_div(behind, int64_t{step} * k.stride));
  k.half_tiles = Divisor::of(static_cast<uint32_t>(each));
  k.half_rounds = static_cast<int>(core::ceil_div(k.samples * each, int64_t{tile.warpgroups}));
}

}  // namespace

bool sm90_direct_takes(const Sm90Plan& plan, const Problem& p) {
  const Sm90Params& k = plan.params;
  if (k.step != 1 || k.taps > kMaxTaps || k.skewed || k.partial) return false;
  // A tensor copy's rows begin on 16 bytes.
  const int64_t element = sm90_layout(plan.mode, plan.config.held).element, vector = 16 / element;
  if (k.x_step[1] <= 0 || k.x_step[1] % vector != 0) return false;
  return p.n == 1 || (k.x_step[0] > 0 && k.x_step[0] % vector == 0);
}

Sm90DirectTile sm90_direct_tile(const Sm90Plan& plan, const Sm90Tile& tile) {
  return sm90_direct_tile(tile.row_blocks, plan.params.taps,
                          sm90_layout(plan.mode, plan.config.held).parts == 2);
}

void sm90_set_direct(Sm90Plan& plan, const Sm90Tile& tile, int64_t limit) {
  Sm90Params& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  const Sm90DirectTile direct = sm90_direct_tile(plan, tile);
  const int element = layout.element, vector = 16 / element;
  k.halo = k.taps == 1 ? 0 : 8;
  k.width = pitch_of(direct.half_tile() + k.halo, element);
  k.raw_pitch = k.width * element;
  k.raw_bytes = k.raw_pitch * direct.channels;
  k.windows = wants_windows(k);
  k.row_outputs = (k.windows ? direct.half_tile() : direct.warp_positions()) * k.stride;
  k.row_pitch = k.row_outputs + vector;
  set_half_tiles(k, direct, element);
  k.pass_rows = 32 % k.phases == 0 ? 32 : kSm90Rows;
  k.pass_couts = k.pass_rows / k.phases;
  // One row more, for rows that do not exist.
  const int64_t staged = round_up<int64_t>((k.pass_couts + 1LL) * k.row_pitch * element, 16);
  const int64_t slab = int64_t{tile.row_blocks} * k.taps * layout.parts * kSm90BlockBytes;
  const int64_t table = 16 * kSm90Rows * tile.row_blocks, small = 3 * 4 * kSm90MaxStages;
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
