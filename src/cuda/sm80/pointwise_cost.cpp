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

// Microseconds, fitted on an H200 to 1,272 times of tiles and splits of 121 random pointwise layers: the
// median error is 6%, and 94% of the choices are within 10% of the best tile and split. Latencies are those
// of a block that is alone; work is what a block adds to an SM that has enough blocks.
struct PointwiseRates {
  double launch, slab;
  double copy, copy_work;  // for each copy of a thread
  double element;          // in copies of words, if rows begin inside one
  double store, store_work;
  double row;      // for a row that a warp does not store by vectors
  double cluster;  // for an output that is added over a cluster
  double gather;   // for the sums of a cluster, for each block and once more
  double block_work;
  double step[3];  // latency of a step, by mode: tf32, ieee, 16 bit
  double step_work[kPointwiseTileCount][3];
  double wave;    // another round of blocks, relative to the first one
  double memory;  // relative to the time of the bytes at the rate of a copy
};
constexpr PointwiseRates kRates = {.launch = 2.48,
                                   .slab = 0.211,
                                   .copy = 0.0229,
                                   .copy_work = 0.0183,
                                   .element = 3.65,
                                   .store = 0.0126,
                                   .store_work = 0.0127,
                                   .row = 0.103,
                                   .cluster = 0.0408,
                                   .gather = 0.0655,
                                   .block_work = 0.705,
                                   .step = {0.043, 0.052, 0.027},
                                   .step_work = {{0.269, 0.788, 0.203},
                                                 {0.278, 0.780, 0.216},
                                                 {0.172, 0.428, 0.139},
                                                 {0.117, 0.242, 0.092},
                                                 {0.120, 0.245, 0.097},
                                                 {0.121, 0.250, 0.099}},
                                   .wave = 0.918,
                                   .memory = 1.57};

}  // namespace

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
  const double step = kRates.step_work[plan.config.tile][mode];
  const double work =
      kRates.block_work + kRates.copy_work * copies + steps * step + kRates.store_work * stores + cluster;
  const double alone = slabs * kRates.slab + kRates.copy * copies + steps * (kRates.step[mode] + step) +
                       kRates.store * stores + kRates.row * warp_rows + cluster +
                       (k.splits > 1 ? kRates.gather * (1 + k.splits) : 0);
  const int64_t resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + 1024), 1, tile.blocks);
  const double an_sm = static_cast<double>(plan.blocks) / std::max(1, d.sm_count);
  const auto waves = static_cast<double>(ceil_div(plan.blocks, block_places(d, resident, k.splits)));
  const double sm = std::max(alone * (1 + kRates.wave * (waves - 1)), std::ceil(an_sm) * work);
  const double dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 : 0;
  const double memory = kRates.memory * dram;
  const auto fourth = [](double v) { return v * v * v * v; };
  return (kRates.launch + std::sqrt(std::sqrt(fourth(sm) + fourth(memory)))) * 1e-3;
}

}  // namespace tconv::cuda
