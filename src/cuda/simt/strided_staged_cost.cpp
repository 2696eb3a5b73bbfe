// Expected times of the staged way of cuda.simt.strided.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/strided_staged.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

namespace {

// Microseconds, fitted to 3,652 times of 247 drawn layers, all tiles (H100): half of them are within 8%, and
// the tile that is expected to be fastest takes 1.028 times as long as the best.
struct Rates {
  double launch = 3.3;
  double product = 1.27e-4, load = 1.79e-4;  // of a warp's term
  double dy = 0.0108, weight = 5.25e-3;      // of copies to shared memory, by a warp; dy: of vectors
  double element = 0.3, slot = 0.063;        // relative to vectors, of elements of dy: a copy, and each of up
                                             // to 8 slots that lanes scatter to
  double block = 0.143;                      // of a warp
  double chain_term = 0.0288, chain_product = 1.7e-3, chain_chunk = 2.15;  // what waits in a block
  double chain_sum = 0.0453;
  double memory = 1.0;
} constexpr kRates;

// What a copy of dy takes, relative to one of vectors.
double copy_share(const StridedStagedConfig& c) {
  constexpr int64_t kMostSlots = 8;
  // Above so many slots a copy counts twice. Without that, n128 ci24 co4 l8514 k23 s20 takes 1.55 times as
  // long as expected and n1 ci512 co1 l1590 k256 s64 1.26 times; nine layers of 12 and 16 slots take 0.89
  // to 1.37 times as long, 1.04 in the mean.
  constexpr int64_t kWideSlots = 16;
  if (c.contiguous) return 1;
  const double share = kRates.element + kRates.slot * static_cast<double>(std::min(c.slots, kMostSlots));
  return c.slots > kWideSlots ? 2 * share : share;
}

// How much longer an SM's multiply-adds take than those of an H200.
double slower(const DeviceInfo& d) {
  constexpr double kRate = 50.6e3 / 132;  // GFLOP/s an SM
  const double rate = d.fp32_gflops / std::max(1, d.sm_count);
  return rate > 0 ? std::max(1.0, kRate / rate) : 1;
}

}  // namespace

StridedWork strided_staged_work(const Problem& p, const StridedStagedConfig& c, const DeviceInfo& device) {
  const int64_t sms = std::max(1, device.sm_count);
  const auto threads = static_cast<double>(c.threads());
  const auto depth = static_cast<double>(p.cout_per_group()), taps = static_cast<double>(p.k);
  const double chunks = static_cast<double>(ceil_div(p.cout_per_group(), c.channels));
  const int64_t fit =
      std::max<int64_t>(1, std::min<int64_t>(strided_least_blocks(c.tile.sums()) *
                                                 strided_most_threads(c.tile.sums()) / c.threads(),
                                             device.shared_per_sm / (c.shared_bytes + 1024)));
  // Blocks of the busiest SM, and rounds of blocks that run at once. An almost empty last round counts as a
  // full one: if rounds are taken as a fraction, the chosen tile takes 1.058 times as long as the best.
  const auto busiest = static_cast<double>(ceil_div(c.blocks(p), sms));
  const auto waves = static_cast<double>(ceil_div(c.blocks(p), sms * fit));
  const double terms = busiest * static_cast<double>(c.warps_p * c.warps_r) * depth * taps;
  StridedWork w;
  w.products = terms * c.tile.sums();
  w.loads = terms * (c.tile.positions * (c.step == 2 ? 2 : 1) + std::max(1, c.tile.rows / 4) + 1);
  const double vectors = c.contiguous ? 4 : 1;
  w.dy = busiest * depth * static_cast<double>(c.slots * c.slot_row) / 32 / vectors;
  w.weights = busiest * depth * taps * static_cast<double>(c.rows()) / 32;
  w.blocks = busiest * threads / 32;
  w.chain_terms = waves * depth * taps / static_cast<double>(c.warps_s);
  w.chain_products = w.chain_terms * c.tile.sums();
  w.chain_chunks = waves * chunks;
  w.chain_sums = waves * c.tile.sums();
  const double dy = static_cast<double>(p.y_elements()) * static_cast<double>(size_of(p.dtype));
  const double bytes = problem_work(p).bytes + dy * static_cast<double>(c.row_blocks - 1) / 3;
  w.memory = bytes / std::max(1.0, device.copy_gbps) * 1e-3;
  return w;
}

double strided_staged_ms(const Problem& p, const StridedStagedConfig& c, const DeviceInfo& device) {
  const StridedWork w = strided_staged_work(p, c, device);
  const double work = kRates.product * w.products + kRates.load * w.loads + kRates.dy * copy_share(c) * w.dy +
                      kRates.weight * w.weights + kRates.block * w.blocks;
  const double chain = kRates.chain_term * w.chain_terms + kRates.chain_product * w.chain_products +
                       kRates.chain_chunk * w.chain_chunks + kRates.chain_sum * w.chain_sums;
  const double memory = kRates.memory * w.memory, busy = std::cbrt(cube(work) + cube(chain));
  return 1e-3 * (kRates.launch + std::cbrt(cube(slower(device) * busy) + cube(memory)));
}

}  // namespace tconv::cuda::simt
