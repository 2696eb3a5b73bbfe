#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Microseconds, fitted on an H100 to 18,859 times of tiles and splits of 761 random pointwise layers: the
// median error is 7%; the tile and splits that it chooses take 1.04 times as long as the best. Latencies are
// those of a block that is alone; work is what a block adds to an SM that has enough blocks.
struct PointwiseRates {
  PointwiseTotals totals;
  double slab;
  double copy, copy_work;     // for each copy of a thread
  double element;             // in copies of words, if rows begin inside one
  double store_work;          // for each store of a thread
  double staged, stage_work;  // for each sum of a thread, through shared memory
  double row;                 // for a row that a warp does not store by vectors
  double cluster;             // for an output that is added over a cluster
  double gather;              // for the sums of a cluster, for each block and once more
  double block_work;
  double step[kPointwiseTileCount][3];  // by mode: tf32, ieee, 16 bit
};
constexpr PointwiseRates kRates = {
    .totals = {.launch = 2.06, .wave = 0.904, .odd = 0.073, .memory = 1.23, .both = 1.76},
    .slab = 0.33,
    .copy = 0.012,
    .copy_work = 0.0192,
    .element = 3.34,
    .store_work = 0.0052,
    .staged = 0.0175,
    .stage_work = 0.012,
    .row = 0.182,
    .cluster = 0.0252,
    .gather = 0.266,
    .block_work = 0.538,
    .step = {{0.182, 0.576, 0.141},
             {0.197, 0.626, 0.164},
             {0.120, 0.355, 0.118},
             {0.090, 0.209, 0.091},
             {0.091, 0.206, 0.086},
             {0.094, 0.207, 0.084}}};

}  // namespace

double pointwise_total_ms(const PointwisePlan& plan, const Problem& p, const core::DeviceInfo& d,
                          const PointwiseTotals& totals, double alone, double work, int most) {
  const PointwiseParams& k = plan.params;
  const int64_t resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + 1024), 1, most);
  const double an_sm = static_cast<double>(plan.blocks) / static_cast<double>(block_places(d, 1, k.splits));
  const auto waves = static_cast<double>(ceil_div(plan.blocks, block_places(d, resident, k.splits)));
  const double odd = k.splits > 2 && k.splits % 4 != 0 ? 1 + totals.odd : 1;
  const double rounds = alone * odd * (1 + totals.wave * (waves - 1));
  const double sm = std::pow(std::pow(rounds, totals.both) + std::pow(std::ceil(an_sm) * work, totals.both),
                             1 / totals.both);
  const double dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 : 0;
  const double memory = totals.memory * dram;
  return (totals.launch + mostly_the_longest({sm, memory})) * 1e-3;
}

double pointwise_ms(const PointwisePlan& plan, const Problem& p, const core::DeviceInfo& d) {
  const PointwiseParams& k = plan.params;
  const PointwiseTile& tile = kPointwiseTiles[plan.config.tile];
  const Arithmetic arithmetic = arithmetic_of(p);
  const int element = shape_of(arithmetic).element, depth = shape_of(arithmetic).depth();
  const int mode = element == 2 ? 2 : arithmetic == Arithmetic::ieee ? 1 : 0;
  const auto slabs = static_cast<double>(ceil_div(k.slabs, k.splits));
  const auto steps = static_cast<double>(ceil_div(ceil_div(k.depth, k.splits), depth));
  const double channels = steps * depth;
  const auto pieces = [&](double elements, int bytes) {
    return bytes < 4 ? elements / 2 * kRates.element : elements * element / bytes;
  };
  const double copies =
      (pieces(channels * tile.columns, k.x_copy) + pieces(channels * tile.rows, k.weight_copy)) /
      kPointwiseThreads;
  const bool vectors = k.vectors && k.splits == 1;
  const double outputs = double(tile.rows) * tile.columns / kPointwiseThreads;
  const double stores = outputs / (vectors ? 4 : 1) / k.splits;
  const double warp_rows = vectors ? 0 : tile.rows / (kPointwiseThreads / 32.0) / k.splits;
  const double cluster = k.splits > 1 ? kRates.cluster * outputs : 0;
  const double products = steps * kRates.step[plan.config.tile][mode];
  const double work = kRates.block_work + kRates.copy_work * copies + products + kRates.store_work * stores +
                      kRates.stage_work * outputs + cluster;
  const double alone = slabs * kRates.slab + kRates.copy * copies + products + kRates.staged * outputs +
                       kRates.row * warp_rows + cluster + (k.splits > 1 ? kRates.gather * (1 + k.splits) : 0);
  return pointwise_total_ms(plan, p, d, kRates.totals, alone, work, tile.blocks);
}

}  // namespace tconv::cuda
