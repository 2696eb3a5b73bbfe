#include "cuda/simt/depthwise_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/simt/depthwise_flat.hpp"
#include "cuda/simt/depthwise_wide.hpp"

namespace tconv::cuda::simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int64_t kBlocksPerSm = 128;  // about eight at once, in 16 turns, so that few SMs idle at the end

// A row runs flat if its outputs come to this many products or fewer, each output with four more for finding
// its place in the row. In windows a row takes a block's time however short it is; flat it takes what its
// products take, each with two loads from L1. On 85 problems with both ways forced (H100, in a graph), flat
// took 0.44 to 1.06 times as long where this number was from 1500 to 2100, 0.77 to 1.33 times from 2500 to
// 3200, and 1.0 to 2.2 times above.
constexpr int64_t kFlatRow = 2304;

bool is_short(const Problem& p) {
  return p.lout() <= kFlatRow && p.lout() * (depthwise_products(p) + 4) <= kFlatRow;
}

// Windows of a row, and parts of a row; the rest follows from the problem alone.
void set_parts(DepthwiseConfig& c, const Problem& p, const DeviceInfo& device) {
  // A block takes as many windows of a row as still leave several blocks for every SM, one after another.
  const int64_t windows = ceil_div(p.lout() + c.sector - 1, c.threads * c.run * c.runs);
  const int64_t wanted = kBlocksPerSm * std::max(1, device.sm_count);
  c.parts = std::clamp<int64_t>(ceil_div(wanted, std::max<int64_t>(1, p.n * p.cout)), 1, windows);
  c.windows = ceil_div(windows, c.parts);
  c.parts = ceil_div(windows, c.windows);
  c.blocks = p.n * p.cout * c.parts;
}

// Runs of a thread, as DepthwiseShape has them.
void set_runs(DepthwiseConfig& c, const Problem& p) {
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  c.run = std::max<int64_t>(16 / element, p.stride);
  c.run_inputs = c.run / p.stride;
  c.runs = c.run_inputs >= 4 ? 2 : 64 / element / c.run;
  if (element == 2 && p.stride == 2) c.runs *= 2;  // kTurns
  c.sector = 32 / element;
}

bool reads_words(const Problem& p) {
  DepthwiseConfig c;
  set_runs(c, p);
  return p.cin_per_group() == 1 && p.x_steps()[2] == 1 &&
         p.lout() + c.sector - 1 > kDepthwiseThreads / 2 * c.run * c.runs;
}

}  // namespace

int64_t depthwise_products(const Problem& p) {
  return p.cin_per_group() * std::min(ceil_div(p.k, p.stride), p.l);
}

std::string depthwise_flat_refusal(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (p.y_elements() >= kMost) return "y has 2^31 elements or more";
  if (p.x_span() >= kMost) return "x spans 2^31 elements or more";
  if (p.weight_elements() >= kMost) return "there are 2^31 weights or more";
  if (std::max({p.l, p.lout() + p.padding, p.k, p.stride}) >= kMost) return "positions reach 2^31";
  return "";
}

std::string depthwise_rows_refusal(const Problem& p, const DeviceInfo& device) {
  if (p.stride != 1 && p.stride != 2 && p.stride != 4 && p.stride != 8) {
    return "stride " + std::to_string(p.stride) + ": this kernel is for 1, 2, 4 and 8";
  }
  if (p.k > kSharedBytes || depthwise_rows(p, device, reads_words(p)).shared_bytes > kSharedBytes) {
    return "k " + std::to_string(p.k) + ": a window does not fit in shared memory";
  }
  return "";
}

DepthwiseConfig depthwise_flat(const Problem& p) {
  DepthwiseConfig c;
  c.way = DepthwiseWay::flat;
  c.run = 16 / static_cast<int64_t>(size_of(p.dtype));
  c.threads = kDepthwiseFlatThreads;
  c.blocks = ceil_div(p.y_elements(), c.run * c.threads);
  return c;
}

DepthwiseConfig depthwise_rows(const Problem& p, const DeviceInfo& device, bool words) {
  DepthwiseConfig c;
  set_runs(c, p);
  c.way = words ? DepthwiseWay::words : DepthwiseWay::elements;
  c.threads = words ? kDepthwiseThreads : kDepthwiseSmallThreads;
  set_parts(c, p, device);
  c.blocks_of_taps = ceil_div(ceil_div(p.k, p.stride), c.run_inputs);
  c.values = c.run_inputs * (c.blocks_of_taps + c.threads * c.runs + 1);
  const int64_t pack = 4 / static_cast<int64_t>(size_of(p.dtype));
  c.words = ceil_div(c.values + pack - 1, pack);  // the first word may begin pack - 1 elements earlier
  c.pitch = kDepthwiseLead + ceil_div(c.words * pack, 4) * 4;
  c.weights_pitch = c.blocks_of_taps * c.run;
  c.shared_bytes = p.cin_per_group() * (c.pitch + c.weights_pitch) * 4;
  return c;
}

std::string depthwise_wide_refusal(const Problem& p) {
  if (std::string flat = depthwise_flat_refusal(p); !flat.empty()) return flat;
  // A row's positions are no more than its outputs; a tile is at least one.
  if (p.y_elements() + p.n * p.cout >= int64_t{1} << 31) return "blocks reach 2^31";
  if (p.stride > kDepthwiseWideThreads)
    return "stride " + std::to_string(p.stride) + ": beyond a block's threads";
  if (p.cout_per_group() < kDepthwiseWideCouts) {
    return "cout " + std::to_string(p.cout_per_group()) + " a group: fewer than a thread takes at once";
  }
  return "";
}

DepthwiseConfig depthwise_wide(const Problem& p, int64_t run) {
  DepthwiseConfig c;
  c.way = DepthwiseWay::wide;
  c.run = run, c.runs = kDepthwiseWideCouts;
  c.threads = kDepthwiseWideThreads;
  c.live = kDepthwiseWideThreads / p.stride * p.stride;
  const int64_t positions = (p.lout() - 1 + p.padding) / p.stride - p.padding / p.stride + 1;
  c.tiles = ceil_div(std::max<int64_t>(1, positions), c.live / p.stride * run);
  c.cout_blocks = ceil_div(p.cout_per_group(), int64_t{kDepthwiseWideCouts});
  c.blocks = p.n * p.groups * c.tiles * c.cout_blocks;
  return c;
}

namespace {

DepthwiseConfig row_by_row(const Problem& p, const DeviceInfo& device) {
  const bool flat = depthwise_flat_refusal(p).empty();
  if (flat && is_short(p)) return depthwise_flat(p);
  if (flat && !depthwise_rows_refusal(p, device).empty()) return depthwise_flat(p);
  return depthwise_rows(p, device, reads_words(p));
}

}  // namespace

DepthwiseConfig plan_depthwise(const Problem& p, const DeviceInfo& device) {
  DepthwiseConfig best = row_by_row(p, device);
  if (!depthwise_wide_refusal(p).empty()) return best;
  double best_ms = depthwise_ms(best, p, device);
  for (const int64_t run : {kDepthwiseWideLong, kDepthwiseWideShort}) {
    const DepthwiseConfig wide = depthwise_wide(p, run);
    const double ms = depthwise_ms(wide, p, device);
    if (ms < best_ms) best = wide, best_ms = ms;
  }
  return best;
}

}  // namespace tconv::cuda::simt
