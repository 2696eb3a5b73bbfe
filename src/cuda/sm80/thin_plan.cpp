#include "cuda/sm80/thin_plan.hpp"

#include <algorithm>
#include <bit>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/memo.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

constexpr int64_t kCount = int64_t{1} << 30;
constexpr int64_t kMostPhases = kThinRowTile;
constexpr int kChunkLanes = 32;            // of a warp that makes words: as many planes at most
constexpr int64_t kVector = 8;             // elements of 16 bytes
constexpr int64_t kReservedShared = 1024;  // of each block, by the driver
// Of two blocks of an SM: one that is alone waits for its own windows.
int64_t most_shared(const DeviceInfo& d) {
  return std::min<int64_t>(d.shared_per_block, d.shared_per_sm / 2 - kReservedShared);
}

bool is_strided(const Problem& p) {
  return p.operation == core::Operation::strided;
}

bool in_pairs(const Problem& p) {
  return size_of(p.dtype) == 2;
}
int parts_of(const Problem& p) {
  return arithmetic_of(p) == Arithmetic::ieee ? 2 : 1;
}

// At least n, and `remainder` above a multiple of `modulus`.
int64_t pitch_of(int64_t n, int64_t remainder, int64_t modulus) {
  return round_up(n - remainder, modulus) + remainder;
}

// Of a strided product, whose rows are its channels.
void set_strided(ThinParams& k, const Problem& p) {
  k.source_step[0] = p.y_steps()[0], k.source_step[1] = p.y_steps()[1];
  k.source_length = p.lout(), k.output_length = p.l;
  k.weight_group = p.cin_per_group() * p.cout_per_group() * p.k;
  k.weight_row = p.cout_per_group() * p.k, k.weight_channel = p.k;
  k.channels = static_cast<int>(p.cout_per_group());
  k.output_channels = static_cast<int>(p.cin_per_group());
  k.taps = k.k_count = static_cast<int>(p.k);
  k.tap_first = 0, k.tap_step = 1;
  k.in_stride = static_cast<int>(p.stride);
  k.lead = static_cast<int>(p.padding);
  k.out_stride = 1, k.out_lead = 0;
  k.positions = p.l;
}

// Of a transposed product. With u = o + padding = stride*m + r, output o adds x[m - dilation*i] * w[r +
// stride*i] over i: taps j = taps-1-i in the order in which they read x. (With a dilation the stride is 1, r
// 0.)
void set_transposed(ThinParams& k, const Problem& p) {
  k.source_step[0] = p.x_steps()[0], k.source_step[1] = p.x_steps()[1];
  k.source_length = p.l, k.output_length = p.lout();
  k.weight_group = p.cin_per_group() * p.cout_per_group() * p.k;
  k.weight_row = p.k, k.weight_channel = p.cout_per_group() * p.k;
  k.channels = static_cast<int>(p.cin_per_group());
  k.output_channels = static_cast<int>(p.cout_per_group());
  k.k_count = static_cast<int>(p.k);
  k.taps = static_cast<int>(ceil_div(p.k, p.stride));
  k.tap_first = static_cast<int>(p.stride) * (k.taps - 1), k.tap_step = -static_cast<int>(p.stride);
  k.in_stride = 1;
  k.out_stride = static_cast<int>(p.stride);
  k.out_lead = static_cast<int>(p.padding % p.stride);  // m counts from padding / stride
  k.lead = static_cast<int>(p.dilation * (k.taps - 1) - p.padding / p.stride);
  k.positions = (p.lout() - 1 + k.out_lead) / p.stride + 1;
}

int64_t tile_columns(const ThinConfig& config) {
  return int64_t{kThinWarps / config.row_warps} * kThinColumns * config.turns;
}

// The window of a tile of `columns` positions.
void set_window(ThinParams& k, int64_t columns) {
  const int64_t window = k.in_stride * (columns - 1) + int64_t{k.dilation} * (k.taps - 1) + 1;
  k.window = static_cast<int>(window);
  // It may begin at the last element of its first vector.
  k.channel_vectors = static_cast<int>(ceil_div(kVector - 1 + window, kVector));
  k.channel_places = static_cast<int>(k.source_step[1] % kVector);
  k.chunk = kChunkLanes / k.in_stride * k.in_stride;
  k.chunks = static_cast<int>(ceil_div(window, int64_t{k.chunk}));
  k.pair_warp_bits = k.pairs == 1 ? 2 : k.pairs == 2 ? 1 : 0;
  k.pair_step = kThinWarps >> k.pair_warp_bits;
  k.chunk_step = (k.chunk / k.in_stride * 4) << k.pair_warp_bits;
  const int64_t plane = int64_t{k.chunks} * k.chunk / k.in_stride;
  k.plane_pitch = static_cast<int>(pitch_of(plane, 4, 8));
  // Four lanes read neighbouring pairs, and eight lanes neighbouring words of each, or four times two
  // (phases, column_of()): in different banks.
  const int64_t words = int64_t{k.in_stride} * k.plane_pitch;
  k.pair_pitch = static_cast<int>(k.out_stride > 1 ? pitch_of(words, 8, 32) : pitch_of(words, 2, 8));
}

// Places in shared memory.
void set_shared(ThinPlan& plan, const Problem& p) {
  ThinParams& k = plan.params;
  const bool pairs = in_pairs(p);
  const int element = pairs ? 2 : 4;
  // One fragment is read beyond the last.
  int64_t at = (int64_t{k.block_row_tiles} * k.steps + 1) * parts_of(p) * kThinFragmentBytes;
  const auto next = [&](int64_t bytes) {
    const int64_t here = at;
    at += round_up<int64_t>(bytes, 128);
    return static_cast<int>(here);
  };
  k.table_at = next(int64_t{k.steps + kThinStepsAhead} * kThinStepWords * 4);
  k.bias_at = next(int64_t{k.block_row_tiles} * kThinRowTile * 4);
  // Lanes of different rows store to different banks, or two of them to one at strides of 2 to 4.
  const int spare = k.out_stride <= 2 ? 32 : k.out_stride <= 4 ? 64 : 16;  // bytes
  k.staged_pitch = k.warp_columns * k.out_stride + spare / element;
  k.staged_tile =
      static_cast<int>(round_up<int64_t>((kThinRowTile >> k.phase_bits) * k.staged_pitch * element, 16));
  k.staged_warp = plan.config.row_tiles * k.staged_tile;
  k.staged_at = next(int64_t{kThinWarps} * k.staged_warp);
  k.window_at = next(int64_t{k.pairs} * k.pair_pitch * 4);
  if (!pairs) {
    k.window_bytes = next(int64_t{k.pairs} * k.pair_pitch * 4) - k.window_at;
    plan.shared_bytes = at;
    return;
  }
  // Where a chunk ends behind a channel, the next one is read, and behind the last one up to a chunk.
  k.channels_at = next((int64_t{2} * k.pairs * k.channel_vectors + 8) * 16);
  plan.shared_bytes = at;
}

}  // namespace

ThinPlan thin_plan_of(const Problem& p, const DeviceInfo& d, const ThinConfig& config) {
  ThinPlan plan;
  plan.config = config;
  if (config.row_tiles > 1 && parts_of(p) > 1) return plan;
  ThinParams& k = plan.params;
  is_strided(p) ? set_strided(k, p) : set_transposed(k, p);
  k.groups = static_cast<int>(p.groups);
  k.dilation = static_cast<int>(p.dilation);
  k.phase_bits = std::bit_width(static_cast<uint32_t>(k.out_stride - 1));
  if (int64_t{k.output_channels} << k.phase_bits >= kCount) return plan;
  k.rows = k.output_channels << k.phase_bits;
  k.row_warps = config.row_warps;
  k.block_row_tiles = config.row_tiles * config.row_warps;
  k.pairs = in_pairs(p) ? static_cast<int>(ceil_div(k.channels, 2)) : k.channels;
  const int64_t words = int64_t{k.pairs} * k.taps;
  k.steps = static_cast<int>(ceil_div(words, int64_t{kThinStepWords}));
  k.warp_columns = kThinColumns * config.turns;
  const int64_t columns = tile_columns(config);
  set_window(k, columns);
  if (words >= kCount / 64 || core::Size(k.pairs) * k.pair_pitch >= kCount / 4) return plan;
  set_shared(plan, p);
  if (plan.shared_bytes > most_shared(d)) return plan;
  const int64_t sample_tiles = ceil_div(k.positions, columns);
  if (core::Size(sample_tiles) * p.n >= kCount) return plan;
  k.tiles = static_cast<int>(sample_tiles * p.n);
  const int64_t row_blocks = ceil_div(k.rows, int64_t{kThinRowTile} * k.block_row_tiles),
                rows = row_blocks * p.groups;
  plan.resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + kReservedShared), 1,
                                      thin_blocks(config.row_tiles, parts_of(p)));
  const int64_t walkers = walkers_of(rows, block_places(d, plan.resident, 1), k.tiles);
  if (core::Size(rows) * walkers >= kCount) return plan;
  k.in_stride_div = Divisor::of(static_cast<uint32_t>(k.in_stride));
  k.pairs_div = Divisor::of(static_cast<uint32_t>(k.pairs));
  k.sample_tiles = Divisor::of(static_cast<uint32_t>(sample_tiles));
  k.walkers = Divisor::of(static_cast<uint32_t>(walkers));
  k.row_blocks = Divisor::of(static_cast<uint32_t>(row_blocks));
  k.splits = 1;
  plan.blocks = rows * walkers;
  plan.ms = thin_ms(plan, p, d);
  return plan;
}

ThinPlan thin_plan(const Problem& p, const DeviceInfo& d) {
  static thread_local Memo<ThinPlan> memo;
  return memo.get(p, d, false, [&] {
    ThinPlan best;
    for (const int row_warps : {1, 2, 4}) {
      for (int row_tiles = 1; row_tiles <= kThinMostRowTiles; ++row_tiles) {
        for (int turns = 1; turns <= kThinMostTurns; turns *= 2) {
          const ThinPlan plan = thin_plan_of(p, d, {row_tiles, row_warps, turns});
          if (plan.blocks > 0 && (best.blocks == 0 || plan.ms < best.ms)) best = plan;
          // Larger tiles would be mostly empty, or do not fit either.
          if (plan.blocks > 0 ? plan.params.sample_tiles.value == 1 : plan.shared_bytes > most_shared(d))
            break;
        }
      }
    }
    return best;
  });
}

std::string thin_refusal(const Problem& p, const DeviceInfo& d) {
  const bool strided = is_strided(p);
  if (!strided) {
    if (std::string other = plan::other_operation(p, core::Operation::transposed); !other.empty())
      return other;
  }
  if (std::string none = no_mma(d); !none.empty()) return none;
  if (p.dtype == core::DType::f64) return "dtype f64: this kernel is for tensor cores of 16 and 32 bits";
  if (std::string few = too_few_terms(p); !few.empty()) return few;
  const int64_t length = strided ? p.lout() : p.l;
  if (length > 1 && (strided ? p.y_steps() : p.x_steps())[2] != 1) {
    return std::string("positions of ") + (strided ? "dy" : "x") + " are not contiguous";
  }
  if (p.n * p.l < 1 || p.lout() < 1) return "no positions";
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  if (strided && p.stride > kChunkLanes)
    return "stride " + std::to_string(p.stride) + ": too many planes of positions";
  if (!strided && p.dilation > 1 && p.stride > 1) return "dilation skews the phases";
  if (!strided && p.stride > kMostPhases)
    return "stride above " + std::to_string(kMostPhases) + ": too many phases";
  if (needs_bias_alone(p, BiasStored::none)) return "some outputs have no product, but a bias";
  constexpr int64_t kNear = 1 << 20;
  if (p.stride >= kNear || p.k >= kNear || core::Size(p.dilation) * p.k >= kNear || p.padding >= kNear ||
      p.lout() >= kCount || p.l >= kCount || p.cin >= kNear || p.cout >= kNear ||
      core::Size(p.cin) * p.cout * p.k >= kCount || core::Size(p.stride) * p.l >= kCount) {
    return "positions or weights reach 2^30, or channels or taps 2^20";
  }
  if (core::Size(ceil_div(p.l, int64_t{kThinColumns})) * p.n >= kCount) return "2^30 tiles of positions";
  if (thin_plan(p, d).blocks == 0) return "its weights and windows do not fit in shared memory";
  return "";
}

std::string where(const ThinPlan& plan, const Problem& p, int64_t element) {
  const ThinParams& k = plan.params;
  const int64_t length = k.output_length, channels = int64_t{k.output_channels} * k.groups;
  const int64_t o = element % length, channel = element / length % channels, n = element / length / channels;
  const int64_t m = (o + k.out_lead) / k.out_stride, phase = (o + k.out_lead) % k.out_stride;
  const int64_t group = channel / k.output_channels, inner = channel % k.output_channels;
  const int64_t row_tile = ((inner << k.phase_bits) + phase) / kThinRowTile;
  const int64_t column_warps = kThinWarps / k.row_warps, columns = tile_columns(plan.config);
  const int64_t tile = n * k.sample_tiles.value + m / columns, walkers = k.walkers.value;
  const int64_t walker = (walkers * (tile + 1) - 1) / k.tiles;  // the last that begins there or before
  const int64_t warp =
      row_tile % k.block_row_tiles / plan.config.row_tiles * column_warps + m % columns / k.warp_columns;
  const int64_t block = (group * k.row_blocks.value + row_tile / k.block_row_tiles) * walkers + walker;
  return element_text(p, element) + "; block " + std::to_string(block) + ", tile " + std::to_string(tile) +
         ", warp " + std::to_string(warp);
}

}  // namespace tconv::cuda
