// How strided_staged.cuh cuts a problem.
#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/simt/strided_staged.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

namespace {

constexpr int64_t kMostSharedBytes = 96 * 1024;
constexpr int64_t kBlockReserve = 1024;  // shared memory that a block takes beside its own

// How many lanes copy a channel, so that threads wait least: a warp, or a multiple of one that divides the
// block's threads.
int64_t copy_lanes(const StridedStagedConfig& c) {
  int64_t best = 32, least = INT64_MAX;
  for (int64_t lanes = 32; lanes <= c.threads(); lanes += 32) {
    if (c.threads() % lanes != 0) continue;
    const int64_t turns =
        ceil_div(c.slots * c.slot_row, lanes) * (2 + ceil_div(c.channels, c.threads() / lanes));
    if (turns < least) best = lanes, least = turns;
  }
  return best;
}

// Rows of slots lie so far apart that neighbouring lanes write to different banks.
int64_t slot_pitch(int64_t row, int64_t slots) {
  const int64_t apart = std::max<int64_t>(1, 32 / slots) % 32;
  return slots == 1 ? row : row + ((apart - row) % 32 + 32) % 32;
}

}  // namespace

std::string strided_staged_refusal(const Problem& p, const DeviceInfo& device) {
  // 16-bit types are widened in registers, so that each copy would be waited for: one of 13 random layers was
  // faster.
  if (p.dtype != core::DType::f32) return "not float32";
  constexpr int64_t kCount = 1 << 12;
  if (p.k >= kCount || p.dilation >= kCount) return "taps reach far";
  const StridedStagedConfig least = strided_staged_config(p, device, {1, 4}, 1, 1, 1);
  if (least.shared_bytes == 0) return "a channel of a stage does not fit shared memory";
  if (core::Size(p.n) * p.groups * p.cin_per_group() * least.parts > kMaxBlocks) {
    return "more than 2^31 tiles";
  }
  return "";
}

namespace {

// A channel's window as slots of phases, or in one piece as in memory.
void set_window(StridedStagedConfig& c, const Problem& p, bool contiguous) {
  c.contiguous = contiguous;
  if (contiguous) {
    c.step = p.stride, c.slots = 1, c.tap_step = p.dilation;
    c.slot_row = p.stride * (c.positions() - 1) + p.dilation * (p.k - 1) + 1;
    c.slot_pitch = ceil_div(c.slot_row + 3, 4) * 4;
    return;
  }
  const int64_t g = std::gcd(p.stride, p.dilation), phases = p.stride / g;
  c.step = 1, c.slots = std::min(p.k, phases), c.tap_step = p.dilation / g;
  c.slot_row = c.positions() + (ceil_div(p.k, phases) - 1) * c.tap_step;
  c.slot_pitch = slot_pitch(c.slot_row, c.slots);
}

// Channels of a stage, and stages: false if none fit.
bool set_stages(StridedStagedConfig& c, const Problem& p, const DeviceInfo& device) {
  // All blocks for which an SM has registers share its memory.
  const int64_t sms = std::max(1, device.sm_count), co = p.cout_per_group();
  const int64_t fit = strided_least_blocks(c.tile.sums()) * strided_most_threads(c.tile.sums()) / c.threads();
  const int64_t sharing = std::clamp<int64_t>(ceil_div(c.blocks(p), sms), 1, std::max<int64_t>(1, fit));
  const int64_t limit = std::min(kMostSharedBytes, device.shared_per_block);
  const int64_t words = std::min(limit, device.shared_per_sm / sharing - kBlockReserve) / 4;
  const int64_t channel = c.slots * c.slot_pitch + p.k * c.weight_pitch + p.k;
  // Enough terms in a stage, for each part of a sum, that a barrier costs little.
  constexpr int64_t kLeastTerms = 40, kMostTerms = 64, kProducts = 1024;
  const int64_t terms = std::clamp<int64_t>(kProducts / c.tile.sums(), kLeastTerms, kMostTerms);
  const int64_t most = std::min(co, std::max<int64_t>(1, ceil_div(terms * c.warps_s, p.k)));
  constexpr int64_t kRound = 8;  // words to whole vectors
  const auto fitting = [&](int64_t stages, int64_t of) {
    return (of - kRound * stages) / (stages * channel);
  };
  c.stages = fitting(3, words) < most ? 2 : 3;
  c.channels = std::min(most, fitting(c.stages, words));
  // A channel's shift in vectors is that of the same channel in the stage before.
  if (c.contiguous && p.y_steps()[1] % 4 != 0 && c.channels < co) c.channels = c.channels / 4 * 4;
  if (c.channels < 1 && !c.contiguous) {
    c.channels = std::min(co, fitting(2, limit / 4));
    if (c.channels < 1 && co == 1) c.channels = std::min<int64_t>(1, fitting(1, limit / 4));
  }
  if (c.channels < 1) return false;
  c.stages = std::min(c.stages, ceil_div(co, c.channels));
  return true;
}

}  // namespace

StridedStagedConfig strided_staged_config(const Problem& p, const DeviceInfo& device, const StridedTile& tile,
                                          int64_t warps_p, int64_t warps_r, int64_t warps_s) {
  StridedStagedConfig c;
  c.tile = tile, c.warps_p = warps_p, c.warps_r = warps_r, c.warps_s = warps_s;
  if (c.threads() > strided_most_threads(tile.sums())) return {};
  c.row_blocks = ceil_div(p.cin_per_group(), c.rows());
  c.parts = ceil_div(p.l, c.positions());
  c.weight_pitch = 4 * (ceil_div(c.rows(), 4) | 1);
  const bool side_by_side = p.lout() <= 1 || p.y_steps()[2] == 1;
  const bool steps = p.stride == 1 || (p.stride <= kStridedMostStep && tile.rows >= 4 && p.k >= p.stride);
  set_window(c, p, side_by_side && steps);
  bool there = set_stages(c, p, device);
  if (!there && c.contiguous) {
    set_window(c, p, false);
    there = set_stages(c, p, device);
  }
  if (!there) return c;
  c.copy_lanes = copy_lanes(c);
  const int64_t ring = c.ring_at(p.k) + c.stages * c.stage_words(p.k);
  const int64_t sums = warps_s > 1 ? c.threads() / 2 * tile.sums() : 0;
  const int64_t bytes = 4 * std::max(ring, sums);
  if (bytes > std::min(kMostSharedBytes, device.shared_per_block)) return c;
  c.shared_bytes = bytes;
  c.ms = strided_staged_ms(p, c, device);
  return c;
}

namespace {

StridedStagedConfig search(const Problem& p, const DeviceInfo& device, bool one_part) {
  StridedStagedConfig best = strided_staged_config(p, device, {1, 4}, 1, 1, 1);
  const int64_t ci = p.cin_per_group();
  for (const StridedTile& tile : kStridedTiles) {
    if (tile.rows > 1 && tile.rows >= 2 * ci) continue;
    for (int64_t warps = 4; 32 * warps <= strided_most_threads(tile.sums()); warps *= 2) {
      for (int64_t s = 1; s <= (one_part ? 1 : warps); s *= 2) {
        for (int64_t r = 1; r <= warps / s; r *= 2) {
          const int64_t along = warps / s / r;
          if (r > 1 && tile.rows * r >= 2 * ci) continue;
          if (along > 1 && 32 * tile.positions * along >= 2 * p.l) continue;
          const StridedStagedConfig c = strided_staged_config(p, device, tile, along, r, s);
          if (c.shared_bytes > 0 && c.ms < best.ms) best = c;
        }
      }
    }
  }
  return best;
}

}  // namespace

StridedStagedConfig plan_strided_staged(const Problem& p, const DeviceInfo& device, bool one_part) {
  static thread_local Memo<StridedStagedConfig> memo;
  return memo.get(p, device, one_part, [&] { return search(p, device, one_part); });
}

}  // namespace tconv::cuda::simt
