#include "cuda/simt/narrow_plan.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/by_dtype.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::DType;
using core::Problem;

constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int64_t kWeightBytes = 24 * 1024;  // of shared memory; a channel may take twice that
// Warps on an SM for which the reduction is sliced. Tiles with many sums want fewer, because they have more
// to do between loads.
constexpr int64_t kWarpsPerSm = 16, kWarpsPerSmLarge = 8;
constexpr int64_t kMostSplits = 64;

int64_t padded(int64_t value, int64_t step) {
  return ceil_div(value, step) * step;
}

// Measured on an H200 by `tconv bench --device cuda --kernel cuda.simt.narrow`.
struct NarrowRates {
  double reread;   // of x by another block of output channels, from L2, relative to the first read
  double row;      // cycles of the load pipe for a warp's row of x, which is seldom aligned
  double staged;   // bytes of y that pass through shared memory: 4->4 k4 s4 in 1127 us, and 417
  double alone;    // for a block alone on its SM, which overlaps nothing
  double padding;  // of the products, if memory binds
};
constexpr NarrowRates kRates = {.reread = 0.5, .row = 1.4, .staged = 2.5, .alone = 1.1, .padding = 0.25};

// Rough time: the larger of bytes, where each block of output channels reads x again (from L2, at about half
// the cost), and products, padding included; and a part of the products, so that padding counts where memory
// binds. The load pipe takes P*C/4 cycles of FMA for a tap of P positions and C columns; C + 1.4*P where x
// comes from L1 (an SM returns 128 bytes a cycle, broadcasts too, and rows are seldom aligned), C + P
// and 1.4*(P + 1) a channel where it comes through a ring.
double cost(const Problem& p, const DeviceInfo& device, const NarrowCompiled& compiled) {
  const NarrowTileShape& shape = compiled.shape;
  const int64_t last = (p.lout() - 1 + p.padding) / p.stride;
  const double positions = static_cast<double>(padded(last + 1, 32 * shape.p));
  const double taps = static_cast<double>(ceil_div(p.k, p.stride));
  const double products = static_cast<double>(p.n * p.cin) *
                          static_cast<double>(padded(p.cout_per_group(), shape.co)) *
                          static_cast<double>(padded(p.stride, shape.r)) * taps * positions;
  const double columns = shape.co * shape.r, fma = shape.p * columns / 4;
  const double loads =
      columns + (compiled.ring ? shape.p + kRates.row * (shape.p + 1) / taps : kRates.row * shape.p);
  const double rate = (p.dtype == DType::f64 ? device.fp64_gflops : device.fp32_gflops) / 2 + 1;
  const int element = static_cast<int>(size_of(p.dtype));
  const int64_t passes = ceil_div(p.cout_per_group(), shape.co);
  const double storing = shape.r == p.stride ? 1 : kRates.staged;
  const double reading = 1 - kRates.reread + kRates.reread * static_cast<double>(passes);
  const double bytes = element * (static_cast<double>(p.n * p.cin * p.l) * reading +
                                  storing * static_cast<double>(p.y_elements()));
  const double multiplying = products / rate * std::max(1.0, loads / fma);
  // Being alone costs less in a long run (H200, us, tiles of 4 and 8 positions: 4->4 k4 s4, l55104 8.1
  // and 9.7; n64 l220000 417 and 386).
  const core::Size blocks = core::Size(p.n) * p.groups * passes * ceil_div(last + 1, 256 * shape.p);
  const bool alone = compiled.ring && ring_blocks_per_sm(shape.co * shape.r, shape.p, element) == 1 &&
                     blocks < int64_t{8} * device.sm_count;
  const double moving = bytes / (device.copy_gbps + 1) * (alone ? kRates.alone : 1);
  return std::max(moving, multiplying) + kRates.padding * multiplying;
}

int64_t sum_bytes(const Problem& p) {
  return p.dtype == DType::f64 ? 8 : 4;
}

// Rows that pass through shared memory must fit in what every GPU has.
int64_t stage_bytes(const NarrowConfig& c, const Problem& p, int64_t r_warps, int64_t q_warps) {
  if (r_warps == 1 && c.shape.r == p.stride) return 0;
  return 32 * q_warps * c.shape.p * ((r_warps * c.shape.r) | 1) * sum_bytes(p);
}

// few: only one warp of residues, if its stores still fill memory sectors, so that warps are left for slices.
void cut_residues(NarrowConfig& c, const Problem& p, bool few) {
  const int64_t blocks = ceil_div(p.stride, c.shape.r);
  int64_t most = few && c.shape.r * sum_bytes(p) >= 32 ? 1 : kNarrowMaxWarps;
  while (stage_bytes(c, p, std::min(blocks, most), 1) > kSharedBytes) most /= 2;
  c.residue_groups = ceil_div(blocks, most);
  c.r_warps = static_cast<int>(ceil_div(blocks, c.residue_groups));
  c.residues = static_cast<int>(std::min<int64_t>(p.stride, c.r_warps * c.shape.r));
}

void cut_positions(NarrowConfig& c, const Problem& p) {
  c.q_first = p.padding / p.stride;
  const int64_t count = std::max<int64_t>(1, (p.lout() - 1 + p.padding) / p.stride - c.q_first + 1);
  const int64_t warps = ceil_div(count, 32 * c.shape.p);
  int64_t most = kNarrowMaxWarps / c.r_warps;
  while (stage_bytes(c, p, c.r_warps, most) > kSharedBytes) most /= 2;
  c.q_warps = static_cast<int>(std::min<int64_t>(warps, most));
  c.q_tiles = ceil_div(warps, c.q_warps);
}

// The slices' sums pass through shared memory, with an odd pitch, so that lanes meet different banks.
int64_t slice_bytes(const NarrowConfig& c, const Problem& p) {
  const int64_t sums = (c.shape.p * c.shape.r * c.shape.co | (c.ring ? 1 : 0)) * sum_bytes(p);
  return c.slice_warps == 1 ? 0 : 32 * c.q_warps * c.r_warps * sums;
}

// Slices the reduction: over warps, at the expense of positions if a block has no warps left, then (if
// allowed) over blocks, until there are enough warps or too few channels.
void cut_reduction(NarrowConfig& c, const Problem& p, int64_t rows, int64_t wanted, bool may_split) {
  const int64_t cin = p.cin_per_group();
  const auto warps = [&] { return rows * c.q_tiles * c.co_blocks * c.residue_groups * (c.threads() / 32); };
  while (warps() < wanted && c.slice_warps * 8 <= cin) {
    if (c.threads() / 32 * 2 <= kNarrowMaxWarps) {
      c.slice_warps *= 2;
    } else if (c.q_warps % 2 == 0) {
      c.q_warps /= 2;
      c.q_tiles *= 2;
      c.slice_warps *= 2;
    } else {
      break;
    }
  }
  while (slice_bytes(c, p) > kSharedBytes && c.q_warps % 2 == 0) c.q_warps /= 2, c.q_tiles *= 2;
  if (slice_bytes(c, p) > 64 * 1024) c.slice_warps = 1;  // what every GPU has
  // No more blocks than run at once: a few late ones would double the time.
  c.splits = may_split ? std::clamp<int64_t>(wanted / std::max<int64_t>(1, warps()), 1, kMostSplits) : 1;
  c.cin_per_split = std::max<int64_t>(ceil_div(cin, c.splits), std::min<int64_t>(cin, 2 * c.slice_warps));
  c.splits = ceil_div(cin, c.cin_per_split);
}

int64_t channel_bytes(const NarrowConfig& c, const Problem& p) {
  return c.taps * c.r_warps * narrow_pitch(c.shape.r * c.shape.co) * sum_bytes(p);
}

// Shared memory for weights. A ring takes up to 25 KiB beside them, 50 in f64: together what every GPU has.
int64_t weight_bytes(const Problem& p, bool ring) {
  if (!ring) return kWeightBytes;
  return (p.dtype == DType::f64 ? 12 : 20) * 1024;
}

// The cheapest of the tiles that fit in shared memory; null if there is none.
struct BestTile {
  const NarrowCompiled* tile = nullptr;
  double cost = 0;
};

BestTile search_tiles(const Problem& p, const DeviceInfo& device) {
  BestTile best;
  for (const NarrowCompiled& each : narrow_compiled(p)) {
    NarrowConfig c;
    c.shape = each.shape;
    c.taps = ceil_div(p.k, p.stride);
    cut_residues(c, p, false);
    if (channel_bytes(c, p) > (each.ring ? weight_bytes(p, true) : 2 * kWeightBytes)) continue;
    if (each.ring && c.taps > kRingMostTaps) continue;
    const double its = cost(p, device, each);
    if (best.tile == nullptr || its <= best.cost) best = {&each, its};
  }
  return best;
}

BestTile best_tile(const Problem& p, const DeviceInfo& device) {
  static thread_local Memo<BestTile> memo;
  return memo.get(p, device, false, [&] { return search_tiles(p, device); });
}

}  // namespace

std::span<const NarrowCompiled> narrow_compiled(const Problem& p) {
  return by_dtype(p.dtype, narrow_f32, narrow_f64, narrow_f16, narrow_bf16)();
}

std::string NarrowConfig::text() const {
  std::string out = std::string(ring ? "x through a ring; " : "") + "a thread " + std::to_string(shape.p) +
                    " positions x " + std::to_string(shape.r) + " residues x " + std::to_string(shape.co) +
                    " cout; a block " + std::to_string(q_warps) + " x " + std::to_string(r_warps) +
                    " warps (positions x residues)";
  if (slice_warps > 1) out += " x " + std::to_string(slice_warps) + " slices of cin";
  out += ", " + std::to_string(chunk) + " channels of weights in " + std::to_string(shared_bytes) +
         " bytes of shared memory";
  if (splits > 1) {
    out += "; cin cut into " + std::to_string(splits) + " splits of " + std::to_string(cin_per_split) +
           ", summed in order";
  }
  return out;
}

std::string narrow_refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device); !words.empty()) return words;
  if (p.dilation != 1 && p.k > 1)
    return "dilation " + std::to_string(p.dilation) + ": this kernel is for dilation 1";
  constexpr int64_t kMost = int64_t{1} << 30;
  if (p.k >= kMost || p.stride >= kMost || p.cin >= kMost || p.cout >= kMost) return "sizes above 2^30";
  return best_tile(p, device).tile == nullptr ? "one channel's weights do not fit in shared memory" : "";
}

NarrowConfig plan_narrow(const Problem& p, const DeviceInfo& device, bool batch_invariant, bool may_split) {
  NarrowConfig c;
  Problem shape_of = p;  // one sample decides if the bits must not depend on the batch
  if (batch_invariant) shape_of.n = std::min<int64_t>(p.n, 1);
  if (const BestTile best = best_tile(shape_of, device); best.tile != nullptr) {
    c.shape = best.tile->shape, c.ring = best.tile->ring;
    c.ms = best.cost * 1e-6;
  }
  c.taps = ceil_div(p.k, p.stride);
  c.co_blocks = ceil_div(p.cout_per_group(), c.shape.co);
  cut_residues(c, p, may_split);
  cut_positions(c, p);
  const int64_t columns = c.shape.co * c.shape.r, sms = std::max(1, device.sm_count);
  const int64_t blocks =
      ring_blocks_per_sm(static_cast<int>(columns), c.shape.p, static_cast<int>(size_of(p.dtype)));
  const int64_t warps = c.ring                      ? std::min(kWarpsPerSm, 8 * blocks)
                        : columns * c.shape.p >= 64 ? kWarpsPerSmLarge
                                                    : kWarpsPerSm;
  cut_reduction(c, p, shape_of.n * p.groups, warps * sms, may_split);
  const int64_t each = channel_bytes(c, p);
  c.chunk = std::clamp<int64_t>(weight_bytes(p, c.ring) / each, 1, c.cin_per_split);
  c.direct = c.r_warps == 1 && c.shape.r == p.stride;
  c.keep = c.ring && c.direct && c.slice_warps == 1 && c.splits == 1 && c.chunk == p.cin_per_group() &&
           p.groups == 1 && c.co_blocks == 1 && c.residue_groups == 1;
  c.blocks = blocks * sms * kNarrowMaxWarps / (c.threads() / 32);
  const int64_t slices = slice_bytes(c, p);
  c.ring_offset = padded(c.chunk * each, 16);
  const int64_t row_bytes = ring_row(c.shape.p) * static_cast<int64_t>(size_of(p.dtype));
  const int64_t ring = c.ring ? c.threads() / 32 * ring_depth(c.shape.p) * row_bytes : 0;
  c.shared_bytes = std::max({c.ring_offset + ring, stage_bytes(c, p, c.r_warps, c.q_warps), slices});
  return c;
}

}  // namespace simt
}  // namespace tconv::cuda
