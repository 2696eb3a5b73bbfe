// What cuda.simt.weight_staged takes.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/weight_staged.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

namespace {

struct StagedRates {
  double product, moved, step, piece;  // issue slots: of a product; of 32 elements to shared memory; of the
                                       // 32 positions and places of a window that they are of
  double chunk, block;                 // cycles that a block waits
  double memory, again;                // of a byte of the copy rate, and of one that L2 has
  double start;                        // seconds
};
// Fitted to 383 configurations of 32 layers on an H200 (half of them are within 5%). The configuration that
// the model prefers takes 1.02 times as long as a layer's fastest. 16 bits: to 2,466 configurations of 154
// layers in bf16 on an H100 (half of them are within 8%; 1.06 times). Their elements are loaded one by one,
// with too few bytes under way for the memory's rate.
constexpr StagedRates kRates = {1.61, 5.1, 41, 70, 1450, 4900, 1.10, 0.7, 3.95e-6},
                      kHalfRates = {1.61, 11.6, 17, 73, 3130, 0, 3.7, 0.1, 4.7e-6};
const StagedRates& rates_of(const Problem& p) {
  return size_of(p.dtype) == 2 ? kHalfRates : kRates;
}
constexpr double kLoad = 0.87, kTurn = 5.8, kTree = 7.8;  // issue slots: of an operand, of its loop, of a sum
constexpr double kSum = 2.15e-6;                          // seconds: of the second kernel
constexpr double kClock = 1.7e9;

// Bytes beyond the operands' own: tiles of rows read dy again, tiles of columns x, from the L2 cache.
double bytes_again(const StagedParams& k, const Problem& p) {
  const auto row_tiles = static_cast<double>(k.row_tiles),
             column_tiles = static_cast<double>(k.by_column_tiles.value);
  const double couts = column_tiles * k.couts / k.cout_group;  // how often a tile of rows reads dy
  return static_cast<double>(size_of(p.dtype)) *
         (static_cast<double>(p.x_elements()) * (column_tiles - 1) +
          static_cast<double>(p.y_elements()) * std::max(0.0, row_tiles * couts - 1));
}

}  // namespace

int64_t staged_resident(const StagedPlan& plan, const DeviceInfo& device) {
  const StagedTile& tile = kStagedTileTable[plan.tile];
  const int64_t by_registers = tile.rows * tile.columns >= 32 ? 16 : 24;  // warps
  const int64_t by_shared = (device.shared_per_sm > 0 ? device.shared_per_sm : 96 * 1024) /
                            (static_cast<int64_t>(plan.shared_bytes) + 1024);
  return std::clamp<int64_t>(std::min(by_registers * 32 / plan.threads, by_shared), 1, 16);
}

double staged_seconds(const StagedPlan& plan, const Problem& p, const DeviceInfo& device) {
  const StagedParams& k = plan.params;
  const StagedTile& tile = kStagedTileTable[plan.tile];
  const StagedRates& rates = rates_of(p);
  const double warps = plan.threads / 32, steps = 2.0 * k.runs, sums = tile.rows * tile.columns;
  const double multiply =
      steps / k.slices * warps * (rates.product * sums + kLoad * (tile.rows + tile.columns) + kTurn);
  const double pieces = std::ceil(static_cast<double>(k.window) * k.chunk_segments / 32);
  const double moved = steps * k.rows + pieces * k.couts * k.phases / k.stride;
  const double move = rates.moved * moved + rates.step * steps + rates.piece * pieces;
  const auto chunks = static_cast<double>(ceil_div(int64_t{k.split_segments}, int64_t{k.chunk_segments}));
  // Blocks of an SM share its schedulers; what a block waits for is not shared.
  const auto depth = static_cast<double>(ceil_div(plan.blocks, int64_t{std::max(1, device.sm_count)}));
  const double waves = std::ceil(depth / static_cast<double>(staged_resident(plan, device)));
  const double cycles = depth * (chunks * (multiply + move) + warps * sums * kTree) / 4 +
                        waves * (chunks * rates.chunk + rates.block);
  const double copy = device.copy_gbps * 1e9;
  const double memory = (rates.memory * problem_work(p).bytes + rates.again * bytes_again(k, p)) / copy;
  const double parts = k.splits > 1 ? static_cast<double>(plan.part_bytes) / copy + kSum : 0;
  return rates.start + std::cbrt(cube(cycles / kClock) + cube(memory)) + parts;
}

double staged_least_seconds(const Problem& p, const DeviceInfo& device, int64_t rows, int64_t columns) {
  const double sums = static_cast<double>(p.groups * rows) * static_cast<double>(columns);
  const double positions = static_cast<double>(p.n) * static_cast<double>(p.l);
  const double slots = rates_of(p).product * sums * positions / 32;
  const double rate = 4 * kClock * std::max(1, device.sm_count);
  return rates_of(p).start + std::max(slots / rate, problem_work(p).bytes / (device.copy_gbps * 1e9));
}

double staged_least_seconds(const Problem& p, const DeviceInfo& device) {
  return staged_least_seconds(p, device, p.cin_per_group(), p.cout_per_group() * p.k);
}

}  // namespace tconv::cuda::simt
