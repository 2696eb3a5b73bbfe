#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/thin_weight_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Microseconds. Fitted to 1,387 plans of 160 drawn problems (H200, in a graph): half of the times are within
// 6 to 8%, 90% within 16 to 22%, and the plan that is chosen takes 1.02 to 1.03 times as long as the fastest
// of those measured. `chosen`: with it the choice among kernels is off by least (0.3 to 0.7% on average).
struct Rates {
  double chosen;
  double launch;  // of both kernels
  double memory;  // relative to the time of the bytes at the rate of a copy
  // How long a block waits for a tile, a warp's share:
  double tile;
  double step;  // of products
  double copy;  // a thread's channels are copied, up to five vectors of each at once
  double make;  // likewise words of them
  double edge;  // in place of copy, where a channel begins or ends
  // What each block of an SM adds to that of the others:
  double also_load;      // 128 bytes from shared memory, for products
  double also_multiply;  // an mma
  double also_vector;    // 32 vectors are copied
  double also_quad;      // 128 words are made
  double sums;           // a warp's sums of a tile of an mma to its part, shared by eight depths
  double parts;          // relative to the time of their bytes at the rate of a copy
};
constexpr Rates kHalfRates = {.chosen = 1,
                              .launch = 7.16,
                              .memory = 1,
                              .tile = 0.864,
                              .step = 0.033,
                              .copy = 0.014,
                              .make = 0.111,
                              .edge = 0.24,
                              .also_load = 0,
                              .also_multiply = 0.0018,
                              .also_vector = 0,
                              .also_quad = 0.0062,
                              .sums = 0.29,
                              .parts = 13.4};
constexpr Rates kTf32Rates = {.chosen = 1.05,
                              .launch = 6.86,
                              .memory = 1.18,
                              .tile = 0.744,
                              .step = 0.068,
                              .copy = 0.036,
                              .make = 0,
                              .edge = 0.276,
                              .also_load = 0,
                              .also_multiply = 0.00165,
                              .also_vector = 0.0021,
                              .also_quad = 0,
                              .sums = 0.276,
                              .parts = 13};
constexpr Rates kIeeeRates = {.chosen = 1.05,
                              .launch = 6.07,
                              .memory = 1.02,
                              .tile = 0.62,
                              .step = 0.055,
                              .copy = 0.032,
                              .make = 0,
                              .edge = 0.42,
                              .also_load = 0.00088,
                              .also_multiply = 0.00287,
                              .also_vector = 0.00126,
                              .also_quad = 0,
                              .sums = 0.36,
                              .parts = 15.6};

const Rates& rates_of(Arithmetic mode) {
  if (mode == Arithmetic::tf32) return kTf32Rates;
  return mode == Arithmetic::ieee ? kIeeeRates : kHalfRates;
}

// Of a block's channels of a side.
struct SideWork {
  double channels, vectors, quads;
  double copies, makes;  // turns of a thread

  SideWork(const ThinWeightSide& s, int size) {
    channels = std::min<double>(s.channels, double(s.block_tiles) * size / s.taps);
    vectors = channels * s.vectors, quads = channels * s.quads;
    copies = turns(s.vectors), makes = turns(s.quads);
  }

 private:
  double turns(int units) const {
    const int lanes = thin_weight_lanes(units);
    return std::ceil(channels * lanes / kThinWeightThreads) *
           static_cast<double>(ceil_div(units, kThinWeightTogether * lanes));
  }
};

// Microseconds from a block's tile to its next one, with `resident` blocks on the SM.
double tile_us(const ThinWeightPlan& plan, const Rates& rates, double resident) {
  const ThinWeightParams& k = plan.params;
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const double warps = plan.config.row_warps * plan.config.column_warps;
  const double loads = k.steps * warps * (4 * tile.rows + 2 * tile.columns);
  const double products = k.steps * warps * tile.rows * tile.columns;
  const SideWork rows(k.rows, kThinWeightRows), columns(k.columns, kThinWeightColumns);
  const double edges = std::min(1.0, 2.0 / k.sample_tiles.value);
  const double alone = rates.tile + rates.step * (k.steps >> k.depth_warp_bits) +
                       (rates.copy + edges * (rates.edge - rates.copy)) * (rows.copies + columns.copies) +
                       rates.make * (rows.makes + columns.makes);
  const double also = rates.also_load * loads + rates.also_multiply * products +
                      rates.also_vector * (rows.vectors + columns.vectors) / 32 +
                      rates.also_quad * (rows.quads + columns.quads) / 32;
  return alone + resident * also;
}

}  // namespace

double thin_weight_ms(const ThinWeightPlan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const ThinWeightParams& k = plan.params;
  const Rates& rates = rates_of(arithmetic_of(p));
  const ThinWeightTile& tile = kThinWeightTileTable[plan.config.tile];
  const int64_t sms = std::max(1, d.sm_count), places = sms * plan.resident;
  const auto waves = static_cast<double>(ceil_div(plan.blocks, places));
  const auto resident = static_cast<double>(std::min<int64_t>(plan.resident, ceil_div(plan.blocks, sms)));
  const auto turns = static_cast<double>(ceil_div(k.tiles, int64_t{k.walkers.value}));
  const double copy = d.copy_gbps > 0 ? 1e-3 / d.copy_gbps : 0;
  const double sums = std::ceil(turns / k.chain) * rates.sums * plan.config.row_warps *
                      plan.config.column_warps * tile.rows * tile.columns * (1 << k.depth_warp_bits) /
                      kThinWeightWarps;
  const double work = waves * (turns * tile_us(plan, rates, resident) + sums);
  const double dram = rates.memory * problem_work(p).bytes * copy;
  const double parts = rates.parts * static_cast<double>(plan.part_bytes) * copy;
  return 1e-3 * rates.chosen * (rates.launch + mostly_the_longest({work, dram}) + parts);
}

}  // namespace tconv::cuda
