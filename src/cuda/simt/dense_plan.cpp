#include "cuda/simt/dense_plan.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/report.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

// What all tiles have in common; fitted together with their own rates (dense_tiles.hpp).
struct LaunchRates {
  double clock;  // Hz
  double start;  // cycles before the first product
  double sum;    // of the pass that adds the splits' sums
  double bytes;  // of these sums a cycle
};
constexpr LaunchRates kLaunchRates = {.clock = 1.9e9, .start = 11'600, .sum = 2'050, .bytes = 1'135};

double cycles_of(const DensePlan& plan, const DenseTile& tile, const core::Problem& p,
                 const core::DeviceInfo& device) {
  const double lanes = p.dtype == core::DType::f64 ? 64 : 128;
  const double rate = lanes * tile.rates.full;
  double slabs = 0;  // in all blocks of a row of tiles
  for (const DenseClass& k : plan.classes) {
    slabs += static_cast<double>(ceil_div(k.slabs, plan.splits)) * static_cast<double>(k.column_tiles);
  }
  const double products = static_cast<double>(tile.rows) * tile.columns * kSlabChannels * slabs /
                          static_cast<double>(plan.column_tiles);
  const double blocks_per_sm = static_cast<double>(ceil_div(plan.blocks(p), std::max(1, device.sm_count)));
  const double alone = kLaunchRates.start + products / (rate * tile.rates.lone);
  const double shared = kLaunchRates.start + blocks_per_sm * (products / rate + tile.rates.cycles);
  double cycles = std::max(alone, shared);
  if (plan.splits > 1) {
    const double element = p.dtype == core::DType::f64 ? 8 : 4;
    cycles += kLaunchRates.sum +
              2.0 * plan.splits * static_cast<double>(p.y_elements()) * element / kLaunchRates.bytes;
  }
  return cycles;
}

// Phases [first, end) that have `taps` taps. A class without phases stays empty.
void set_class(DensePlan& plan, DenseClass& k, const core::Problem& p, int64_t first, int64_t end,
               int64_t taps) {
  if (first == end) return;
  const int64_t vector = static_cast<int64_t>(16 / size_of(p.dtype)), cin = p.cin_per_group();
  const int64_t columns = p.cout_per_group() * (end - first);
  const int64_t pitch = ceil_div(columns, vector) * vector;
  const int64_t step = plan.phases.step, back = (taps - 1) * step;
  const auto x = p.x_steps();
  k.first_phase = static_cast<int>(first);
  k.phases = static_cast<int>(end - first);
  k.taps = static_cast<int>(taps);
  k.columns = static_cast<int>(columns);
  k.pitch = static_cast<int>(pitch);
  k.slabs = static_cast<int>(ceil_div(cin, kSlabChannels) * taps);
  k.packed = plan.packed_elements;
  k.next_tap = {-step * x[2], cin * pitch, static_cast<int>(-step)};
  k.next_channels = {kSlabChannels * x[1] + back * x[2], kSlabChannels * pitch - (taps - 1) * cin * pitch,
                     static_cast<int>(back)};
  plan.packed_elements += p.cin * taps * pitch;
}

void set_tiles(DensePlan& plan, const DenseTile& tile) {
  plan.row_tiles = ceil_div(plan.rows, tile.rows);
  plan.column_tiles = 0;
  for (DenseClass& k : plan.classes) {
    k.column_tiles = static_cast<uint32_t>(ceil_div(k.columns, tile.columns));
    plan.column_tiles += k.column_tiles;
  }
  plan.rows_first = plan.row_tiles <= plan.column_tiles;
}

}  // namespace

std::span<const DenseTile> dense_tiles(core::DType dtype) {
  if (dtype == core::DType::f64) return kDenseTilesF64;
  return kDenseTiles;
}

DensePlan plan_dense(const core::Problem& given, const core::DeviceInfo& device, bool batch_invariant) {
  core::Problem p = given;
  if (batch_invariant) p.n = 1;
  DensePlan base;
  base.phases = phases_of(p);
  base.rows = p.n * base.phases.positions;
  const int64_t longer = p.k - (base.phases.taps - 1) * base.phases.tap_stride;  // phases with all taps
  const int64_t long_phases = std::min(longer, base.phases.count);
  set_class(base, base.classes[0], p, 0, long_phases, base.phases.taps);
  set_class(base, base.classes[1], p, long_phases, base.phases.count, base.phases.taps - 1);

  DensePlan best;
  double best_cycles = 0;
  const std::span<const DenseTile> tiles = dense_tiles(p.dtype);
  const int slabs = base.classes[0].slabs;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    for (const int splits : kSplits) {
      // Every split must have work; and if a fill comes first, no second pass may follow.
      const bool useful =
          splits == 1 || (!base.phases.gaps && (splits - 1) * ceil_div(slabs, splits) < slabs);
      if (!useful) continue;
      DensePlan plan = base;
      plan.tile = static_cast<int>(t);
      plan.splits = splits;
      set_tiles(plan, tiles[t]);
      const double cycles = cycles_of(plan, tiles[t], p, device);
      if (best_cycles == 0 || cycles < best_cycles) {
        best = plan;
        best_cycles = cycles;
        best.ms = cycles / kLaunchRates.clock * 1e3;
      }
    }
  }
  best.rows = given.n * best.phases.positions;
  set_tiles(best, tiles[static_cast<std::size_t>(best.tile)]);
  return best;
}

std::string describe(const DensePlan& plan, const core::Problem& p) {
  const DenseTile& tile = dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
  std::string out = "tile " + std::string(tile.name) + " of " + std::to_string(plan.rows) + " positions x (" +
                    std::to_string(p.cout_per_group()) + " cout, " + std::to_string(plan.phases.count) +
                    " phases), depth " + std::to_string(p.cin_per_group()) + " channels x " +
                    std::to_string(plan.phases.taps) + " taps";
  if (plan.classes[1].phases > 0) {
    out += " (" + std::to_string(plan.classes[1].phases) + " phases have one less)";
  }
  out += split_words(plan.splits);
  if (!plan.phases.interleaved) out += "; skewed phases, stored one by one";
  if (plan.phases.gaps) out += "; outputs without taps filled first";
  if (p.precision == core::Precision::tf32) out += "; tf32 runs as ieee: no tensor cores here";
  return out;
}

}  // namespace tconv::cuda
