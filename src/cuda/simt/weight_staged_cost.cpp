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

// Fitted to 383 configurations of 32 layers on an H200 (half of them are within 5%). The configuration that
// the model prefers takes 1.02 times as long as a layer's fastest.
struct StagedRates {
  double product, moved, step, piece;  // issue slots: of a product; of 32 elements to shared memory; of the
                                       // 32 positions and places of a window that they are of
  double chunk, block;                 // cycles that a block waits
  double memory, again;                // of a byte of the copy rate, and of one that L2 has
} constexpr kRates = {1.61, 5.1, 41, 70, 1450, 4900, 1.10, 0.7};
constexpr double kLoad = 0.87, kTurn = 5.8, kTree = 7.8;  // issue slots: of an operand, of its loop, of a sum
constexpr double kStart = 3.95e-6, kSum = 2.15e-6;        // seconds: of the launch, of the second kernel
constexpr double kClock = 1.7e9;

// Bytes beyond the operands' own: tiles of rows read dy again, tiles of columns x, from the L2 cache.
double bytes_again(const StagedParams& k, const Problem& p) {
  const auto row_tiles = static_cast<double>(k.row_tiles),
             column_tiles = static_cast<double>(k.by_column_tiles.value);
  const double couts = column_tiles * k.couts / k.cout_group;  // how often a tile of rows reads dy
  return sizeof(float) * (static_cast<double>(p.x_elements()) * (column_tiles - 1) +
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
  const double warps = plan.threads / 32, steps = 2.0 * k.runs, sums = tile.rows * tile.columns;
  const double multiply =
      steps / k.slices * warps * (kRates.product * sums + kLoad * (tile.rows + tile.columns) + kTurn);
  const double pieces = std::ceil(static_cast<double>(k.window) * k.chunk_segments / 32);
  const double moved = steps * k.rows + pieces * k.couts * k.phases / k.stride;
  const double move = kRates.moved * moved + kRates.step * steps + kRates.piece * pieces;
  const auto chunks = static_cast<double>(ceil_div(int64_t{k.split_segments}, int64_t{k.chunk_segments}));
  // Blocks of an SM share its schedulers; what a block waits for is not shared.
  const auto depth = static_cast<double>(ceil_div(plan.blocks, int64_t{std::max(1, device.sm_count)}));
  const double waves = std::ceil(depth / static_cast<double>(staged_resident(plan, device)));
  const double cycles = depth * (chunks * (multiply + move) + warps * sums * kTree) / 4 +
                        waves * (chunks * kRates.chunk + kRates.block);
  const double copy = device.copy_gbps * 1e9;
  const double memory = (kRates.memory * problem_work(p).bytes + kRates.again * bytes_again(k, p)) / copy;
  const double parts = k.splits > 1 ? static_cast<double>(plan.part_bytes) / copy + kSum : 0;
  return kStart + std::cbrt(cube(cycles / kClock) + cube(memory)) + parts;
}

double staged_least_seconds(const Problem& p, const DeviceInfo& device) {
  const double slots = kRates.product * problem_work(p).flops / 2 / 32;
  const double rate = 4 * kClock * std::max(1, device.sm_count);
  return kStart + std::max(slots / rate, problem_work(p).bytes / (device.copy_gbps * 1e9));
}

}  // namespace tconv::cuda::simt
