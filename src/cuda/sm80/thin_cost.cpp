#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/thin_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Microseconds. Of 16-bit types fitted to 2252 plans of 207 problems (H200): off by 14%; the plan that is
// chosen takes 1.02 times as long as the best one, on average. Of tf32 and ieee to 486 plans of 55 problems
// and 280 of 58: off by 15 and 13%, 1.03 and 1.01 times. `chosen`: where this kernel is expected to be the
// fastest, it takes longer than the rest says (16 bits: 145 layers of other seeds, 1.1 times; with it, 24 of
// 116 chosen layers take more than 1.03 times as long as by the next kernel, without it, 39 of 145. tf32: 7
// of 33, 10 of 38).
struct ThinRates {
  double chosen;
  double launch;
  double memory;    // relative to the time of the bytes at the rate of a copy
  double fragment;  // of weights
  // How long a block waits for a tile, a warp's share:
  double tile;
  double pair, unit;    // words of two channels, 32 at a time; of float32 copies of a channel
  double step;          // of products
  double rows, phases;  // 64 positions of a row tile are put into shared memory
  // What each block of an SM adds to that of the others:
  double also_copy;  // of 32 vectors
  double also_pair;
  double also_product;  // of a step and row tile
  double
      also_odd;  // rows that do not all begin on words or, in float32, on vectors; 64 positions of a row tile
  double also_row;  // a row is stored
};
constexpr ThinRates kHalfRates = {.chosen = 1.1,
                                  .launch = 5.44,
                                  .memory = 2.06,
                                  .fragment = 0.06,
                                  .tile = 0.96,
                                  .pair = 0.184,
                                  .unit = 0.0176,
                                  .step = 0.069,
                                  .rows = 0.50,
                                  .phases = 0.87,
                                  .also_copy = 0.0215,
                                  .also_pair = 0.082,
                                  .also_product = 0.0019,
                                  .also_odd = 0.082,
                                  .also_row = 0.0327};
constexpr ThinRates kTf32Rates = {.chosen = 1.05,
                                  .launch = 7.46,
                                  .memory = 1.62,
                                  .fragment = 0.175,
                                  .tile = 0.28,
                                  .pair = 0.0042,
                                  .unit = 0.0301,
                                  .step = 0.0582,
                                  .rows = 0.558,
                                  .phases = 1.03,
                                  .also_copy = 0,
                                  .also_pair = 0,
                                  .also_product = 0.0493,
                                  .also_odd = 0.0538,
                                  .also_row = 0.0202};
constexpr ThinRates kIeeeRates = {.chosen = 1,
                                  .launch = 8,
                                  .memory = 1.56,
                                  .fragment = 0.116,
                                  .tile = 0.214,
                                  .pair = 0.0151,
                                  .unit = 0.0248,
                                  .step = 0.14,
                                  .rows = 0.583,
                                  .phases = 1.31,
                                  .also_copy = 0,
                                  .also_pair = 0,
                                  .also_product = 0.101,
                                  .also_odd = 0.0126,
                                  .also_row = 0.0293};

const ThinRates& rates_of(Arithmetic mode) {
  if (mode == Arithmetic::tf32) return kTf32Rates;
  return mode == Arithmetic::ieee ? kIeeeRates : kHalfRates;
}

// Microseconds from a block's tile to its next one, with `resident` blocks on the SM. word: elements of the
// units that rows are stored in.
double tile_us(const ThinPlan& plan, const ThinRates& rates, double resident, int word) {
  const ThinParams& k = plan.params;
  const double turns = plan.config.turns;
  const double copies = 2. * k.pairs / kThinWarps * static_cast<double>(1 + ceil_div(k.channel_vectors, 32));
  const auto pairs = static_cast<double>(ceil_div(k.pairs, k.pair_step));
  const double units = pairs * static_cast<double>(ceil_div(k.chunks, 1 << k.pair_warp_bits));
  const auto row_tiles =
      static_cast<double>(std::min<int64_t>(plan.config.row_tiles, ceil_div(k.rows, kThinRowTile)));
  const double outputs = turns * row_tiles;
  const double odd_phases = k.out_stride % 2 == 1 ? 1.5 : 1;  // half words
  const double stored = static_cast<double>(k.out_stride) / (1 << k.phase_bits);
  const double rows = row_tiles * std::min(kThinRowTile >> k.phase_bits, k.output_channels);
  const double alone = rates.tile + rates.pair * pairs + rates.unit * units + rates.step * turns * k.steps +
                       (k.out_stride == 1 ? rates.rows : rates.phases * odd_phases) * outputs;
  const double also =
      rates.also_copy * copies + rates.also_pair * pairs + rates.also_product * turns * k.steps * row_tiles +
      (k.output_length % word != 0 ? rates.also_odd * outputs * stored : 0) + rates.also_row * rows;
  return alone + resident * also;
}

}  // namespace

double thin_ms(const ThinPlan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const ThinParams& k = plan.params;
  const ThinRates& rates = rates_of(arithmetic_of(p));
  const int64_t sms = std::max(1, d.sm_count), places = sms * plan.resident;
  const auto waves = static_cast<double>(ceil_div(plan.blocks, places));
  const auto resident = static_cast<double>(std::min<int64_t>(plan.resident, ceil_div(plan.blocks, sms)));
  const double tiles = waves * static_cast<double>(ceil_div(k.tiles, int64_t{k.walkers.value}));
  const double dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 : 0;
  const double work = tiles * tile_us(plan, rates, resident, size_of(p.dtype) == 2 ? 2 : 4) +
                      rates.fragment * k.block_row_tiles * k.steps;
  return rates.chosen * (rates.launch + mostly_the_longest({work, rates.memory * dram})) * 1e-3;
}

}  // namespace tconv::cuda
