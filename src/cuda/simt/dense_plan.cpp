#include "cuda/simt/dense_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Must match the lists of dense.cuh.
constexpr DenseTile kTiles[] = {{"128x128", 128, 128, 256, 0.80},
                                {"128x64", 128, 64, 128, 0.75},
                                {"128x32", 128, 32, 128, 0.60},
                                {"32x128", 32, 128, 128, 0.60}};
constexpr DenseTile kTilesF64[] = {
    {"128x64", 128, 64, 256, 0.85}, {"64x32", 64, 32, 128, 0.70}, {"32x64", 32, 64, 128, 0.70}};
constexpr int64_t kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

// Clock cycles of a launch's start, of a block's first loads and its stores, and of the second pass; rough,
// and only compared with each other.
constexpr double kBlockCycles = 2500, kSumCycles = 5000, kBytesPerCycle = 2400;
constexpr double kLoneBlock = 0.6;  // of the efficiency, where an SM holds one block

double cycles_of(const DensePlan& plan, const DenseTile& tile, const core::Problem& p,
                 const core::DeviceInfo& device) {
  const double lanes = p.dtype == core::DType::f64 ? 64 : 128;
  const double slabs = static_cast<double>(ceil_div(plan.slabs, plan.splits));
  const double products = static_cast<double>(tile.rows) * tile.columns * kSlabChannels * slabs;
  const double blocks_per_sm = static_cast<double>(ceil_div(plan.blocks(p), std::max(1, device.sm_count)));
  const double rate = lanes * tile.efficiency;
  const double alone = kBlockCycles + products / (rate * kLoneBlock);
  const double shared = kBlockCycles + blocks_per_sm * products / rate;
  double cycles = std::max(alone, shared);
  if (plan.splits > 1) {
    const double element = p.dtype == core::DType::f64 ? 8 : 4;
    cycles += kSumCycles + 2.0 * static_cast<double>(plan.splits) * static_cast<double>(p.y_elements()) *
                               element / kBytesPerCycle;
  }
  return cycles;
}

void set_tiles(DensePlan& plan, const DenseTile& tile) {
  plan.row_tiles = ceil_div(plan.rows, tile.rows);
  plan.column_tiles = ceil_div(plan.columns, tile.columns);
  plan.rows_first = plan.row_tiles <= plan.column_tiles;
}

}  // namespace

std::span<const DenseTile> dense_tiles(core::DType dtype) {
  if (dtype == core::DType::f64) return kTilesF64;
  return kTiles;
}

DensePlan plan_dense(const core::Problem& given, const core::DeviceInfo& device, bool batch_invariant) {
  core::Problem p = given;
  if (batch_invariant) p.n = 1;
  DensePlan base;
  const int64_t vector = static_cast<int64_t>(16 / size_of(p.dtype));
  base.phases = phases_of(p);
  base.rows = p.n * base.phases.positions;
  base.columns = p.cout_per_group() * base.phases.count;
  base.pitch = ceil_div(base.columns, vector) * vector;
  base.slabs = ceil_div(p.cin_per_group(), kSlabChannels) * base.phases.taps;

  DensePlan best = base;
  double best_cycles = 0;
  const std::span<const DenseTile> tiles = dense_tiles(p.dtype);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    for (const int64_t splits : kSplits) {
      DensePlan plan = base;
      plan.tile = static_cast<int>(t);
      plan.splits = splits;
      set_tiles(plan, tiles[t]);
      // Every split has slabs; and outputs that are no phase's are written by one block alone.
      const bool useful =
          splits == 1 || (!base.phases.gaps && (splits - 1) * ceil_div(base.slabs, splits) < base.slabs);
      if (!useful) continue;
      const double cycles = cycles_of(plan, tiles[t], p, device);
      if (best_cycles == 0 || cycles < best_cycles) {
        best = plan;
        best_cycles = cycles;
      }
    }
  }
  best.rows = given.n * best.phases.positions;
  set_tiles(best, tiles[static_cast<std::size_t>(best.tile)]);
  return best;
}

std::string describe(const DensePlan& plan, const core::Problem& p) {
  const DenseTile& tile = dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
  std::string out = "tile " + std::string(tile.name) + " of " + std::to_string(plan.rows) + " positions x " +
                    std::to_string(plan.columns) + " (cout, phase), depth " +
                    std::to_string(p.cin_per_group()) + " channels x " + std::to_string(plan.phases.taps) +
                    " taps";
  if (plan.splits > 1) out += " split " + std::to_string(plan.splits) + " ways, summed in order";
  if (!plan.phases.interleaved) out += "; skewed phases, stored one by one";
  if (plan.phases.gaps) out += "; outputs without taps filled first";
  if (p.precision == core::Precision::tf32) out += "; tf32 runs as ieee: no tensor cores here";
  return out;
}

}  // namespace tconv::cuda
