#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/sm90/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Microseconds, fitted on an H100 to 4,531 times of tiles and splits of 356 random pointwise layers: the
// median error is 10%; the tile and splits that it chooses take 1.02 times as long as the best. Latencies are
// those of a block that is alone; work is what a block adds to an SM that has enough blocks.
struct Sm90PointwiseRates {
  double launch;
  double copied, copied_work;  // for each KiB of a stage, zeros included: wgmma takes less
  double turn, turn_work;      // for a slab of 128 rows of weights that are turned
  double staged, stage_work;   // for each sum of a thread, through shared memory
  double store;                // for each store of a thread
  double row;                  // for a row that a warp does not store by vectors
  double gather;               // for the sums of a cluster, for each block and once more
  double block_work;
  double wave;    // another round of blocks, relative to the first one
  double odd;     // clusters of 3, 5, 6 or 7 blocks, which begin late, relative to others
  double empty;   // a tile without columns, relative to one that has all
  double memory;  // relative to the time of the bytes at the rate of a copy
  double both;    // the power in which latency and work add up
};
constexpr Sm90PointwiseRates kRates = {.launch = 2.57,
                                       .copied = 0.0065,
                                       .copied_work = 0.0144,
                                       .turn = 0.085,
                                       .turn_work = 0.219,
                                       .staged = 0.01,
                                       .stage_work = 0.0132,
                                       .store = 0.07,
                                       .row = 0.657,
                                       .gather = 0.361,
                                       .block_work = 0.472,
                                       .wave = 1.15,
                                       .odd = 0.094,
                                       .empty = 0.315,
                                       .memory = 1.38,
                                       .both = 1.41};

}  // namespace

double sm90_pointwise_ms(const PointwisePlan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const PointwiseParams& k = plan.params;
  const Sm90PointwiseTile& tile = kSm90PointwiseTiles[plan.config.tile];
  const bool turns = sm90_pointwise_turns(static_cast<int>(size_of(p.dtype)), plan.turned);
  const auto slabs = static_cast<double>(ceil_div(k.slabs, k.splits));
  const double copied = slabs * sm90_pointwise_stage_bytes(tile) / 1024.0;
  const double turn = turns ? slabs * tile.rows / 128.0 : 0;
  const double sums = double(tile.rows) * tile.columns / kPointwiseThreads;
  // Of the mean tile: the last ones are narrower.
  const double rows = double(k.rows) / double(ceil_div(k.rows, tile.rows));
  const double columns = double(k.l) / double(ceil_div(k.l, tile.columns));
  const bool vectors = k.vectors && k.splits == 1;
  const double stores = rows * columns / kPointwiseThreads / (vectors ? 4 : 1) / k.splits;
  const double warp_rows = vectors ? 0 : rows / (kPointwiseThreads / 32.0) / k.splits;
  const double work =
      kRates.block_work + kRates.copied_work * copied + kRates.turn_work * turn + kRates.stage_work * sums;
  const double alone = kRates.copied * copied + kRates.turn * turn + kRates.staged * sums +
                       kRates.store * stores + kRates.row * warp_rows +
                       (k.splits > 1 ? kRates.gather * (1 + k.splits) : 0);
  const int64_t resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + 1024), 1, tile.blocks);
  const double an_sm = static_cast<double>(plan.blocks) / std::max(1, d.sm_count);
  const auto waves = static_cast<double>(ceil_div(plan.blocks, block_places(d, resident, k.splits)));
  const double odd = k.splits > 2 && k.splits % 4 != 0 ? 1 + kRates.odd : 1;
  const double empty = 1 + kRates.empty * (1 - columns / tile.columns);
  const double rounds = alone * odd * empty * (1 + kRates.wave * (waves - 1));
  const double sm = std::pow(std::pow(rounds, kRates.both) + std::pow(std::ceil(an_sm) * work, kRates.both),
                             1 / kRates.both);
  const double dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 : 0;
  const double memory = kRates.memory * dram;
  const auto fourth = [](double v) { return v * v * v * v; };
  return (kRates.launch + std::sqrt(std::sqrt(fourth(sm) + fourth(memory)))) * 1e-3;
}

}  // namespace tconv::cuda
