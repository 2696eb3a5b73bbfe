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
  if (steps.units.channels > 0) return 8 << steps.units.log_classes;
  return 8 / std::gcd(8, steps.phases);
}

struct Division {
  int parts, couts, ranks;  // of a row block; of a part
  bool cluster;
};

// Microseconds: as many waves of two blocks an SM as there are, each of which begins, and packs its share.
double us_of(const Sm90PackParams& k, const Division& d, int64_t row_blocks, const core::DeviceInfo& device,
             int64_t element, bool both) {
  constexpr double kWave = 1.5, kCluster = 0.7, kBlock = 0.002, kBytes = 22e3;  // of a microsecond
  constexpr double kClustered = 0.9;  // of the places for blocks: clusters of 8 have 30 of 33 on an H200
  const auto bytes_of_weight = static_cast<double>(both ? 4 * element : 2 * element);  // read and written
  const double blocks = static_cast<double>(row_blocks * d.parts * d.ranks);
  const double slots = 2 * std::max(1, device.sm_count) * (d.cluster && d.ranks > 2 ? kClustered : 1.0);
  const double waves = std::ceil(blocks / slots);
  const double share = static_cast<double>(int64_t{k.channels} * k.steps.k * d.couts) / d.ranks;
  const double line = static_cast<double>(int64_t{d.couts} * k.steps.k * element);
  const double ends = k.stage.by_channel ? 1 + 48 / line : 1;  // lines end within sectors
  const double shorter = 1 + 0.02 * (d.ranks - 1);  // lines of couts, or a pipeline that hardly fills
  return waves * (kWave + ends * shorter * share * bytes_of_weight / kBytes) + kBlock * blocks +
         (d.cluster ? kCluster : 0);
}

// Divides the work among blocks: a row block into parts, and a part along the channels. A part has whole runs
// of 8 rows, and lines of 64 bytes or more; parts are of nearly the same size.
void divide(Sm90PackParams& k, int64_t row_blocks, const core::DeviceInfo& device, int64_t element,
            bool both) {
  constexpr int64_t kLine = 64;
  const int whole = 8 / std::gcd(8, k.phases);  // couts
  double least = 0;
  for (int wanted = 1; wanted <= kSm90RowMarks; ++wanted) {
    Division d{.parts = 1, .couts = k.block_couts, .ranks = 1, .cluster = false};
    if (wanted > 1) {
      d.couts = static_cast<int>(ceil_div(k.block_couts, wanted * whole)) * whole;
      d.parts = static_cast<int>(ceil_div(k.block_couts, d.couts));
      const bool uneven = 20 * d.parts * d.couts > 23 * k.block_couts;
      if (d.parts != wanted || uneven ||
          (k.stage.by_channel && int64_t{d.couts} * k.steps.k * element < kLine))
        continue;
    }
    for (d.ranks = 1; d.ranks <= std::min(kSm90PackRanks, k.granules); ++d.ranks) {
      d.cluster = d.ranks > 1 && (both || d.parts * d.ranks > kSm90RowMarks);
      const double us = us_of(k, d, row_blocks, device, element, both);
      if (least > 0 && us >= least) continue;
      least = us;
      k.parts = d.parts;
      k.part_couts = d.couts;
      k.ranks = d.ranks;
      k.cluster = d.cluster;
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
    const int64_t channels = granules * s.granule, taps = k.steps.k;
    const int64_t pitch = pitch_of((s.by_channel ? couts : channels) * taps, element);
    return pitch * (s.by_channel ? channels : couts);
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
  const int lines = s.by_channel ? s.channels : s.couts, rows = s.couts * k.phases;
  s.log_warp_rows = s.couts == k.part_couts || rows > 4 ? 3 : rows > 2 ? 2 : rows > 1 ? 1 : 0;
  s.pitch = s.bytes / lines;
  while (s.log_line_threads < 8 &&
         (lines << s.log_line_threads < kSm90PackThreads || s.log_line_threads < 2) &&
         16 << s.log_line_threads < s.pitch)
    ++s.log_line_threads;
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
  k.stage.by_channel = k.steps.cin > k.steps.cout;
  k.granules = static_cast<int>(ceil_div(k.channel_blocks * 8, k.stage.granule * k.steps.phases));
  const int64_t row_blocks = int64_t{sizes.groups} * k.row_blocks;
  const auto element = static_cast<int64_t>(core::size_of(form.product.dtype));
  divide(k, row_blocks, device, element, both);
  set_stage(k, element);
  k.ranks_div = Divisor::of(static_cast<uint32_t>(k.ranks));
  k.parts_div = Divisor::of(static_cast<uint32_t>(k.parts));
  k.row_blocks_div = Divisor::of(static_cast<uint32_t>(k.row_blocks));
  const auto shared = static_cast<std::size_t>(k.stage.bytes) * kSm90PackBuffers +
                      static_cast<std::size_t>(k.stage.direct ? 0 : 4 * 8 * k.stage.blocks);
  return {k, row_blocks * k.parts * k.ranks, shared};
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
