#include "cuda/sm90/pack_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/polyphase.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Channels of the caller's weights that make whole blocks of 8 channels of the product.
int granule_of(const WeightSteps& steps) {
  if (steps.units.channels > 0) return 8 << (steps.units.log_classes + steps.units.log_run);
  return 8 / std::gcd(8, steps.phases);
}

// Microseconds: as many waves of two blocks an SM as there are, each of which begins, and packs its share.
double us_of(const Sm90PackParams& k, int64_t blocks, int couts, int ranks, const core::DeviceInfo& device,
             int64_t bytes_of_weight) {
  constexpr double kWave = 1.5, kBlock = 0.002, kBytes = 22e3;  // of a microsecond
  const double waves = std::ceil(static_cast<double>(blocks) / (2 * std::max(1, device.sm_count)));
  const double share = static_cast<double>(int64_t{k.channels} * k.steps.k * couts) / ranks;
  const double shorter = 1 + 0.02 * (ranks - 1);  // lines of couts, or a pipeline that hardly fills
  return waves * (kWave + shorter * share * static_cast<double>(bytes_of_weight) / kBytes) +
         kBlock * static_cast<double>(blocks);
}

// Divides the work among blocks: a row block into parts, and a part along the channels. A part has whole runs
// of 8 rows; parts are of nearly the same size.
void divide(Sm90PackParams& k, int64_t row_blocks, const core::DeviceInfo& device, int64_t bytes_of_weight) {
  constexpr int kParts = 8, kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64};
  const int whole = 8 / std::gcd(8, k.phases);  // couts
  double least = 0;
  for (int wanted = 1; wanted <= kParts; ++wanted) {
    int couts = k.block_couts, parts = 1;
    if (wanted > 1) {
      couts = static_cast<int>(ceil_div(k.block_couts, wanted * whole)) * whole;
      parts = static_cast<int>(ceil_div(k.block_couts, couts));
      const bool uneven = 20 * parts * couts > 23 * k.block_couts;
      if (parts != wanted || uneven) continue;
    }
    for (const int ranks : kRanks) {
      if (ranks > k.granules || parts * ranks > kSm90RowMarks) break;
      const double us = us_of(k, row_blocks * parts * ranks, couts, ranks, device, bytes_of_weight);
      if (least > 0 && us >= least) continue;
      least = us;
      k.parts = parts;
      k.part_couts = couts;
      k.ranks = ranks;
    }
  }
}

// Lines apart by an odd number of 16 bytes, with room for what lies before the first element.
int64_t pitch_of(int64_t elements, int64_t element) {
  return (ceil_div(elements * element + 16 - element, int64_t{16}) | 1) * 16;
}

// As many couts as a stage has room for, then as many channels.
void set_stage(Sm90PackParams& k, int64_t element) {
  Sm90PackStage& s = k.stage;
  constexpr int64_t kRoom = 36 * 1024;      // two blocks an SM; more room helps more than a third block
  constexpr int64_t kMostRoom = 70 * 1024;  // three, a table and what the blocks tell each other fit an SM
  const int64_t share = ceil_div(k.granules, k.ranks);  // granules
  auto bytes = [&](int64_t couts, int64_t granules) {
    return pitch_of(granules * s.granule * k.steps.k, element) * couts;
  };
  constexpr int64_t kEntries = 2048;
  auto entries = [&](int64_t granules) { return granules * s.granule * k.steps.phases; };
  s.couts = k.part_couts;
  int64_t granules = 1;
  while (s.couts > 1 && bytes(s.couts, 1) > kRoom) s.couts = static_cast<int>(ceil_div(s.couts, 2));
  s.direct = bytes(s.couts, 1) > kMostRoom || entries(1) > kEntries;
  if (s.direct) {
    s.couts = k.part_couts;
    granules = share;
  } else if (s.couts == k.part_couts) {
    while (granules < share && bytes(s.couts, granules + 1) <= kRoom && entries(granules + 1) <= kEntries)
      ++granules;
    granules = ceil_div(share, ceil_div(share, granules));
  }
  s.channels = static_cast<int>(granules * s.granule);
  s.blocks = s.channels * k.steps.phases / 8;
  if (s.direct) return;
  s.bytes = static_cast<int>(bytes(s.couts, granules));
  const int rows = s.couts * k.phases;
  s.log_warp_rows = s.couts == k.part_couts || rows > 4 ? 3 : rows > 2 ? 2 : rows > 1 ? 1 : 0;
  s.pitch = s.bytes / s.couts;
  while (s.log_line_threads < 8 &&
         (s.couts << s.log_line_threads < kSm90PackThreads || s.log_line_threads < 2) &&
         16 << s.log_line_threads < s.pitch)
    ++s.log_line_threads;
}

// Of a transposed product's weights: threads for up to 4 taps of 64 rows, and as many blocks as give a thread
// up to 16 units of 8 channels while all SMs have threads (2048 -> 2048 channels, K8 s4 in ieee: 133 us with
// 2, 95 with 4, 85 with 8, 79 with 16; H200. Smaller weights take as long with any of them).
void set_stream(Sm90PackParams& k, int64_t row_blocks, const core::DeviceInfo& device) {
  constexpr int kTaps = kSm90PackThreads / kSm90Rows, kMostUnits = 16, kThreads = 2048;  // of an SM
  const int most = std::max(kTaps, static_cast<int>(ceil_div(k.taps, kSm90RowMarks)));
  const int taps = static_cast<int>(ceil_div(k.taps, ceil_div(k.taps, most)));
  k.parts = static_cast<int>(ceil_div(k.taps, taps));
  k.part_couts = k.block_couts;
  k.stream.tile = taps * kSm90Rows;
  k.stream.items = std::min(taps, kTaps) * kSm90Rows;
  const int subs = kSm90PackThreads / k.stream.items;
  const int64_t units = row_blocks * kSm90Rows * k.taps * k.channel_blocks;
  const int64_t each =
      std::clamp<int64_t>(units / (int64_t{kThreads} * std::max(1, device.sm_count)), 1, kMostUnits);
  k.ranks = static_cast<int>(
      std::clamp<int64_t>(ceil_div(k.channel_blocks, subs * each), 1, kSm90RowMarks / k.parts));
}

// Of float32 weights: as many shares of the channels as leave a thread 16 weights, while the blocks that pack
// do not have to read much of what was found. (32 weights: 14.2 us instead of 15.3 for 27 MB, but 4.2 instead
// of 3.4 for 3 MB; H200.)
void set_look(Sm90PackLaunch& launch, int groups) {
  constexpr int64_t kWeights = 16 * kSm90PackThreads;  // of a block that looks
  constexpr int64_t kRead = 1024;                      // by one that packs
  Sm90PackParams& k = launch.params;
  Sm90LookParams& look = launch.look;
  look.steps = k.steps;
  look.channels = k.channels;
  look.cout_group = k.cout_group;
  look.by_channel = launch.stream;
  look.tile_couts = launch.stream ? std::max(1, kSm90PackThreads / k.steps.k) : kSm90PackThreads / 32;
  look.tiles = static_cast<int>(ceil_div(k.cout_group, look.tile_couts));
  const int64_t most = std::clamp<int64_t>(kRead / k.block_couts, 1, std::min(kSm90Shares, k.channels));
  const int64_t weights = int64_t{look.tile_couts} * k.channels * k.steps.k;
  look.share_channels =
      static_cast<int>(ceil_div(k.channels, std::clamp<int64_t>(weights / kWeights, 1, most)));
  look.shares = k.shares = static_cast<int>(ceil_div(k.channels, look.share_channels));
  k.shares_div = Divisor::of(static_cast<uint32_t>(k.shares));
  launch.look_blocks = int64_t{groups} * look.tiles * look.shares;
}

}  // namespace

Sm90PackLaunch sm90_pack_launch(const Sm90Plan& plan, const TransposedForm& form,
                                const core::DeviceInfo& device, bool both) {
  const Sm90Sizes& sizes = plan.params.sizes;
  auto slabs = [&](bool of_scaled) {
    return static_cast<int>(ceil_div(sizes.cin_group, sm90_layout(plan.mode, of_scaled).slab()));
  };
  Sm90PackParams k{};
  k.steps = form.weights;
  k.weights = int64_t{sizes.groups} * form.weights.group;
  k.slabs = slabs(false);
  k.channel_blocks = k.slabs * sm90_layout(plan.mode, false).slab() / 8;
  if (both) {
    k.scaled_slabs = slabs(true);
    k.channel_blocks = k.scaled_slabs * kSm90Blocks;
  }
  const int units = k.steps.units.channels;
  k.channels = units > 0 ? units : sizes.cin_group / k.steps.phases;
  k.cin_group = sizes.cin_group;
  k.cout_group = sizes.cout_group;
  k.k = sizes.k;
  k.phases = sizes.phases;
  k.taps = sizes.taps;
  k.tap_stride = sizes.tap_stride;
  k.row_blocks = sizes.row_blocks;
  k.block_couts = sizes.block_couts;
  k.cout_blocks = sizes.cout_blocks;
  k.phases_div = Divisor::of(static_cast<uint32_t>(k.phases));
  k.taps_div = Divisor::of(static_cast<uint32_t>(k.taps));
  k.stage.granule = granule_of(k.steps);
  k.granules = static_cast<int>(ceil_div(k.channel_blocks * 8, k.stage.granule * k.steps.phases));
  const int64_t row_blocks = int64_t{sizes.groups} * k.row_blocks;
  const auto element = static_cast<int64_t>(core::size_of(form.product.dtype));
  const bool stream = form.weights.step == 1;
  if (stream) {
    set_stream(k, row_blocks, device);
  } else {
    divide(k, row_blocks, device, 2 * element);
    set_stage(k, element);
  }
  k.ranks_div = Divisor::of(static_cast<uint32_t>(k.ranks));
  k.parts_div = Divisor::of(static_cast<uint32_t>(k.parts));
  k.row_blocks_div = Divisor::of(static_cast<uint32_t>(k.row_blocks));
  const int threads = stream ? k.stream.items * (kSm90PackThreads / k.stream.items) : kSm90PackThreads;
  const auto shared = stream ? 0
                             : static_cast<std::size_t>(k.stage.bytes) * kSm90PackBuffers +
                                   static_cast<std::size_t>(k.stage.direct ? 0 : 4 * 8 * k.stage.blocks);
  Sm90PackLaunch launch{k, stream, row_blocks * k.parts * k.ranks, threads, shared, {}, 0};
  if (both) set_look(launch, sizes.groups);
  return launch;
}

std::vector<plan::StageLine> sm90_with_packing(std::vector<plan::StageLine> lines, const Sm90Plan& plan,
                                               const TransposedForm& form, const core::DeviceInfo& device) {
  if (!sm90_pack_launch(plan, form, device, false).params.stage.direct) return lines;
  for (plan::StageLine& line : lines) {
    if (line.stage != "weights") continue;
    line.words += ", packed one by one: 8 channels of a cout have too many taps for shared memory";
  }
  return lines;
}

}  // namespace tconv::cuda
