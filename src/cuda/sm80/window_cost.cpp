#include <algorithm>
#include <array>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/window_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// Microseconds, fitted to 896 plans of 260 problems, drawn ones and input gradients of models' layers (H100):
// off by 15% (standard deviation); the tile and split that is chosen takes 1.02 times as long as the best
// one, 1.03 times on problems that were left out of a fit. Latencies are those of a block that is alone; work
// is what a block adds to an SM that has enough blocks.
struct WindowRates {
  double launch, start, slab;
  double copy, copy_work;  // for each copy of a thread
  double store, store_work;
  double far_store;  // of a cluster, for each of its blocks
  double block_work;
  double step[3];  // latency of a step, by mode: tf32, ieee, 16 bit
  double step_work[kWindowTileCount][3];
  double wave;      // another round of blocks, relative to the first one
  double tail;      // blocks of an SM, beyond the first few
  double conflict;  // of a step, for each additional access to a bank
  double cluster;   // for the sums of a cluster, for each block and once more
  double together;  // how much longer the work of blocks takes that wait for each other
  double l2;        // bytes
  double memory;    // relative to the time of the bytes at the rate of a copy
};
constexpr WindowRates kRates = {.launch = 3.77,
                                .start = 1.18,
                                .slab = 0.97,
                                .copy = 0.0515,
                                .copy_work = 0.0143,
                                .store = 0.066,
                                .store_work = 0.020,
                                .far_store = 0.040,
                                .block_work = 0.63,
                                .step = {0.007, 0.0175, 0.0205},
                                .step_work = {{0.044, 0.109, 0.075},
                                              {0.050, 0.098, 0.054},
                                              {0.055, 0.113, 0.058},
                                              {0.072, 0.176, 0.094},
                                              {0.151, 0.317, 0.164},
                                              {0.124, 0.340, 0.180}},
                                .wave = 1.24,
                                .tail = 0.48,
                                .conflict = 0.0805,
                                .cluster = 0.073,
                                .together = 1.083,
                                .l2 = 5.94e6,
                                .memory = 1.12};

// Accesses to the busiest bank where 8 neighbouring positions read 4 neighbouring words of taps.
int busiest_bank(int64_t stride, int element) {
  std::array<int, 32> bank{};
  int64_t end = 0;  // of the words that are counted
  for (int position = 0; position < 8; ++position) {
    const int64_t first = stride * position * element / 4;
    for (int64_t word = std::max(first, end); word < first + 4; ++word) ++bank[std::size_t(word % 32)];
    end = first + 4;
  }
  return *std::ranges::max_element(bank);
}

}  // namespace

double window_ms(const WindowPlan& plan, const Problem& p, const core::DeviceInfo& d) {
  const WindowParams& k = plan.params;
  const WindowTile& tile = kWindowTiles[plan.config.tile];
  const Arithmetic arithmetic = arithmetic_of(p);
  const int element = shape_of(arithmetic).element;
  const int mode = element == 2 ? 2 : arithmetic == Arithmetic::ieee ? 1 : 0;
  const auto rows = static_cast<double>(std::min<int64_t>(tile.rows, p.cin_per_group()));
  const auto slabs = static_cast<double>(ceil_div(k.slabs, k.splits));
  const double weight_bytes = rows * k.steps * kWindowStepBytes;
  const double dy_bytes = static_cast<double>(k.channels * plan.window * element);
  const double copies = (weight_bytes / window_copy_bytes(k.weight_pieces.copy, element) +
                         dy_bytes / window_copy_bytes(k.dy_pieces.copy, element)) /
                        kWindowThreads;
  const bool vectors = k.vectors && k.splits == 1;
  const double stores = rows * tile.columns / kWindowThreads / (vectors ? 4 : 1) / k.splits;
  const double step = kRates.step_work[plan.config.tile][mode] *
                      (1 + kRates.conflict * (busiest_bank(p.stride, element) - 1));
  const double work =
      (k.splits > 1 ? kRates.together : 1) *
      (kRates.block_work + slabs * (kRates.copy_work * copies + k.steps * step) + kRates.store_work * stores);
  const double sums =
      k.splits > 1 ? kRates.cluster * (1 + k.splits) + kRates.far_store * stores * k.splits : 0;
  const double alone = kRates.start +
                       slabs * (kRates.slab + kRates.copy * copies + k.steps * (kRates.step[mode] + step)) +
                       kRates.store * stores + sums;
  const int64_t by_registers = tile.rows * tile.columns > 4096         ? 3
                               : tile.rows == 64 && tile.columns == 64 ? 4
                                                                       : 5;
  const int64_t resident = std::clamp<int64_t>(d.shared_per_sm / (plan.shared_bytes + 1024), 1, by_registers);
  const double an_sm = static_cast<double>(plan.blocks) / static_cast<double>(block_places(d, 1, k.splits));
  const auto waves = static_cast<double>(ceil_div(plan.blocks, block_places(d, resident, k.splits)));
  constexpr double kFew = 3;
  const double turns = an_sm <= kFew ? std::ceil(an_sm) : an_sm + kRates.tail;
  const double dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 : 0;
  const double l2 = static_cast<double>(plan.blocks) * slabs * (weight_bytes + dy_bytes) / kRates.l2;
  const double memory = std::max(kRates.memory * dram, l2);
  const double latency = alone * (1 + kRates.wave * (waves - 1));
  return (kRates.launch + mostly_the_longest({latency, turns * work, memory})) * 1e-3;
}

}  // namespace tconv::cuda
