#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/sm90/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Microseconds, fitted on an H100 to 4,531 times of tiles and splits of 356 random pointwise layers: the
// median error is 9%; the tile and splits that it chooses take 1.03 times as long as the best. Latencies are
// those of a block that is alone; work is what a block adds to an SM that has enough blocks.
struct Sm90PointwiseRates {
  PointwiseTotals totals;
  double copied, copied_work;  // for each KiB of a stage, zeros included: wgmma takes less
  double turn, turn_work;      // for a slab of 128 rows of weights that are turned
  double staged, stage_work;   // for each sum of a thread, through shared memory
  double store;                // for each store of a thread
  double row;                  // for a row that a warp does not store by vectors
  double gather;               // for the sums of a cluster, for each block and once more
  double block_work;
  double empty;  // a tile without columns, relative to one that has all
};
constexpr Sm90PointwiseRates kRates = {
    .totals = {.launch = 2.57, .wave = 1.15, .odd = 0.094, .memory = 1.38, .both = 1.41},
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
    .empty = 0.315};

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
  const double empty = 1 + kRates.empty * (1 - columns / tile.columns);
  return pointwise_total_ms(plan, p, d, kRates.totals, alone * empty, work, tile.blocks);
}

}  // namespace tconv::cuda
