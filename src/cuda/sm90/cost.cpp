#include "cuda/sm90/cost.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/bound.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// The rates below are cycles of an SM at kClock, fitted to H200 measurements by
//   tconv bench --device cuda --model
// which prints predicted and measured milliseconds side by side.
constexpr double kClock = 1.75e9;
constexpr double kL2BytesPerCycle = 26;  // for one SM
constexpr double kStartCycles = 5000;    // of a block: launch, barriers, the first loads
constexpr double kLaunchMs = 0.003;
constexpr double kSecondMs = 0.003;  // for the second launch, if it has nothing to do
constexpr double kZeroMs = 0.002;    // for the launch before it that sets them to 0
// For weights that stay in shared memory: nothing is multiplied before all of them are there. From 126 pairs
// of plans that differ only in this.
constexpr double kResidentMs = 0.003;

// x gathered. The chain of the loading warps' instructions and waits binds, and then what is stored. Fitted
// to 80 large random problems in bf16 and 40 in tf32 and ieee, each in all tiles: within 13% (root mean
// square) in 16-bit types, 9% in the others.
struct GatherRates {
  double stage;  // whatever its size: the latency of the loads
  double piece;  // of a stage, of a warp
  double tap;    // for split operands: sums that must be complete before they are added up
  double store;  // bytes a cycle
};
constexpr GatherRates kTf32 = {1200, 65, 0, 15}, kScaled = {1200, 100, 0, 15};
constexpr GatherRates kIeee = {1200, 160, 110, 15}, k16Bit = {1200, 110, 0, 8.8};
// Twice as many channels in a piece as for kIeee; two waits for sums. Fitted to 121 large random problems and
// drawn layers, each in all tiles: within 21% (root mean square).
constexpr GatherRates kSplit = {1200, 150, 285, 15};
constexpr double kGatherDram = 1.05, kGatherL2 = 1.1;

// How much longer loading takes: if warps have few registers, beside 256 columns in a warpgroup, or many; and
// for pairs of 16-bit elements that are not aligned words, most of all in slabs that are not whole.
double load_factor(const core::Problem& p, const Sm90Tile& tile, const Sm90Layout& layout) {
  const bool few = tile.n == 256;
  const double factor = few ? 1.25 : 0.75;
  if (layout.element == 4 || p.x_steps()[1] % 2 == 0) return factor;
  const int64_t cin = p.cin_per_group(), slab = layout.slab();
  const double parts = cin % slab != 0 ? 1.0 / static_cast<double>(ceil_div(cin, slab)) : 0;
  return factor * ((few ? 1.4 : 1.08) + parts);
}

// The time of units whose work overlaps in part: more than the longest, less than the sum.
double together(double a, double b, double c) {
  return std::cbrt(a * a * a + b * b * b + c * c * c);
}

const GatherRates& gather_rates(Arithmetic mode, bool scaled) {
  if (mode == Arithmetic::ieee) return scaled ? kSplit : kIeee;
  if (scaled) return kScaled;
  return mode == Arithmetic::tf32 ? kTf32 : k16Bit;
}

// x by tensor copies: cycles of a warpgroup, which does one thing after another. streamed: for tiles that
// move in step. Fitted, in tf32 and bf16: from registers to n64 ci128 co128 l65536 k3, n16 ci32 co64 l131072
// k3 s2 d2, n1 ci512 co256 l8000 k16 s8, n16 ci128 co64 l55104 k4 s2 and n16 ci64 co32 l110208 k4 s2, all
// within 10%; operands in shared memory to 13 problems of all kinds of taps and rows, of which most are
// within 12%; straight to n64 ci128 co128 l65536 k3 and k1, n16 ci128 co64 l55104 k4 s2, n16 ci64 co64 l65536
// k8 s4 and l32768 k16 s8, most within 12%; shifted to n64 ci128 co128 l65536 k3, k1 p1 and l65535 k3 and n16
// ci64 co64 l131072 k5 p2, within 10%.
struct TmaRates {
  double tile, slab, tap;  // of a slab; of a tap of it
  double output;           // of each output, where warps store alone
  double window;           // for each output in windows
  double shifted;          // in windows that are staged as they lie in y
  double straight[2];      // from registers: of stride 1, of others
  double uneven;           // how much longer storing takes if the number of phases is not a power of two
  double streamed;
};
// By row blocks, and whether elements have 16 bits.
constexpr TmaRates kRegisterRates[2][2] = {{{1500, 1800, 200, 0.50, 0.76, 0.45, {0.44, 0.45}, 1, 1.12},
                                            {1500, 1000, 170, 0.28, 0.47, 0.45, {0.07, 0.25}, 1, 1.12}},
                                           {{1500, 1620, 400, 0.32, 0.63, 0.30, {0.32, 0.38}, 1, 1.12},
                                            {1500, 900, 340, 0.20, 0.38, 0.30, {0.05, 0.18}, 1, 1.12}}};
constexpr TmaRates kSharedRates[2][2] = {
    {{3000, 1480, 384, 0.55, 0.66, 0.40, {}, 1.25, 1.05},
     {3000, 1400, 384, 0.22, 0.38, 0.40, {}, 1.25, 1.05}},
    {{3000, 2320, 354, 0.25, 0.48, 0.20, {}, 1.4, 1.05}, {3000, 1720, 354, 0.24, 0.36, 0.20, {}, 1.4, 1.05}}};
// Split operands: from registers fitted to the first problems and n16 ci32 co32 l131072 k1, within 6%; in
// shared memory to those of up to 5 taps, odd rows and 3 phases, within 5%: shared memory binds there.
constexpr TmaRates kSplitRegisterRates = {1200, 1520, 440, 0.50, 0.61, 0, {}, 1, 1.12};
constexpr TmaRates kSplitSharedRates = {4180, 910, 812, 0.02, 0.41, 0, {}, 1, 1.05};
constexpr double kTmaDram = 1.12;

const TmaRates& tma_rates(const Sm90Plan& plan, const Sm90Layout& layout, int wide) {
  const bool shared = plan.params.tma.tap_group == 0;
  if (layout.parts == 2) return shared ? kSplitSharedRates : kSplitRegisterRates;
  return (shared ? kSharedRates : kRegisterRates)[wide][layout.element == 2];
}

double output_cycles(const Sm90StageParams& k, const TmaRates& rates) {
  if (k.writer.straight > 0) return rates.straight[k.writer.straight > 1];
  const double cycles = k.writer.shifted ? rates.shifted : k.writer.windows ? rates.window : rates.output;
  // Lanes stage outputs without taps one by one.
  constexpr double kGaps = 1.7;
  if (k.sizes.phases < k.sizes.stride && k.sizes.stride != 2) return cycles * kGaps;
  return (k.sizes.phases & (k.sizes.phases - 1)) != 0 ? cycles * rates.uneven : cycles;
}

// Of a plan whose x comes by tensor copies.
Sm90Cost tma_cost(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d,
                  const Sm90Tile& tile) {
  const Sm90StageParams& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const Sm90WarpgroupTile warpgroup_tile = sm90_warpgroup_tile(plan, tile);
  const TmaRates& cycles = tma_rates(plan, layout, tile.row_blocks - 1);
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count)), ms = 1e3 / kClock;
  const double tiles = waves * static_cast<double>(ceil_div(k.tiles.rounds, k.grid.walkers));
  const double outputs =
      static_cast<double>(tile.row_blocks) * k.sizes.block_couts * k.tiles.step * k.sizes.stride;
  // If rows do not begin on 16 bytes, several copies bring a stage, and two warpgroups wait for all of them.
  const double classes = k.tma.row_classes > 1 && tile.row_blocks == 2 ? 1.2 : 1;
  const double busy = tiles * (k.weights.resident ? 1 : cycles.streamed) * classes * ms;
  Sm90Cost c;
  // wgmma takes 32 cycles for 64 positions of 64 rows and 16 channels.
  c.tensor = tiles * warpgroup_tile.warpgroups * warpgroup_tile.positions() / 64 * 2 * k.grid.slabs *
             k.sizes.taps * tile.row_blocks * layout.products * 32 * ms;
  c.load = busy * k.grid.slabs * (cycles.slab + k.sizes.taps * cycles.tap);
  // Of a slab: every run of row blocks reads x again.
  const double x_bytes = static_cast<double>(layout.slab()) * k.tma.width * warpgroup_tile.warpgroups *
                         static_cast<double>(size_of(p.dtype));
  const double weight_bytes =
      k.weights.resident ? 0 : k.sizes.taps * tile.row_blocks * layout.parts * double(kSm90PartBytes);
  c.l2 = tiles * k.grid.slabs * (x_bytes + weight_bytes) / kL2BytesPerCycle * ms;
  c.store = busy * (cycles.tile + outputs * output_cycles(k, cycles));
  c.dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 * kTmaDram : 0;
  c.launch = kLaunchMs + waves * kStartCycles * ms + (plan.config.scaled ? kSecondMs : 0) +
             (plan.config.scaled || plan.counter_bytes > 0 ? kZeroMs : 0) +
             (k.weights.resident ? kResidentMs : 0);
  c.total = std::max({c.tensor, c.load + c.store, c.dram}) + c.launch;
  return c;
}

// For the partial sums of couts with several row blocks.
double sums_ms(const Sm90Plan& plan, const core::DeviceInfo& d) {
  constexpr double kPasses = 1.5;  // written, and read by the sum
  if (plan.params.sizes.cout_blocks == 1 || d.copy_gbps <= 0) return 0;
  return kPasses * static_cast<double>(plan.partial_bytes) / d.copy_gbps * 1e-6;
}

}  // namespace

double skew_factor(const Sm90StageParams& k) {
  if (!k.sizes.skewed || k.pass.partial) return 1;
  return k.pass.by_elements ? 2 : 1.2;
}

Sm90Layout sm90_layout(Arithmetic mode, bool scaled) {
  if (scaled) return mode == Arithmetic::ieee ? Sm90Layout{4, 2, 8, 3} : Sm90Layout{4, 1, 8, 1};
  switch (mode) {
    case Arithmetic::tf32:
      return {4, 1, 4, 1};
    case Arithmetic::ieee:
      return {4, 2, 4, 3};
    default:
      return {2, 1, 8, 1};
  }
}

Sm90Cost sm90_cost(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d,
                   const Sm90Tile& tile) {
  if (tile.tma) return tma_cost(plan, p, d, tile);
  const Sm90StageParams& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const GatherRates& rates = gather_rates(plan.mode, plan.config.scaled);
  const double sms = std::max(1, d.sm_count);
  const double slabs = static_cast<double>(sm90_block_slabs(k.grid));
  const double blocks = slabs * k.sizes.taps;  // of weights, a tile
  const double columns = tile.columns();
  // wgmma takes n/2 cycles for 64 rows and 32 bytes of depth; a slab has two such steps.
  const double tensor = blocks * (layout.products * 2 * 2 * tile.n / 2.0 + rates.tap);
  const double positions = layout.element == 2 ? 64 : 32;
  const double pieces = static_cast<double>(k.gather.width) / positions * kSm90Blocks;
  const double stages = slabs * k.gather.tap_groups;
  const double load = stages * (rates.stage + pieces * rates.piece) * load_factor(p, tile, layout);
  const double out_bytes = k.pass.partial ? 4.0 * kSm90Rows * tile.row_blocks * columns
                                          : static_cast<double>(tile.row_blocks) * k.sizes.block_couts *
                                                columns * k.sizes.stride * layout.element;
  const double store = out_bytes / rates.store * skew_factor(k);
  const double x_bytes = slabs * k.gather.tap_groups * 4.0 * k.gather.width * layout.unit * layout.element;
  const double weight_bytes = blocks * tile.row_blocks * layout.parts * kSm90PartBytes;

  const double tiles = static_cast<double>(ceil_div(std::max(1, k.columns.column_tiles), k.grid.walkers));
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count));
  const double l2 = x_bytes + out_bytes + weight_bytes;
  const double ms = 1e3 / kClock, busy = waves * tiles;
  Sm90Cost c;
  c.tensor = busy * tensor * ms;
  c.load = busy * load * ms;
  c.l2 = busy * l2 / kL2BytesPerCycle * ms;
  c.store = busy * store * ms;
  c.dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 : 0;
  c.launch = kLaunchMs + waves * kStartCycles * ms + (plan.config.scaled ? kSecondMs : 0);
  if (k.pass.partial) {
    c.launch += kLaunchMs + 2 * static_cast<double>(plan.partial_bytes) / (kL2BytesPerCycle * sms) * ms;
  }
  c.sums = sums_ms(plan, d);
  c.total = std::max(together(c.tensor, c.load, kGatherL2 * c.l2) + c.store, kGatherDram * c.dram) +
            c.launch + c.sums;
  return c;
}

Sm90DenseBound::Sm90DenseBound(const core::Problem& form, const core::DeviceInfo& device)
    : form_(form),
      device_(device),
      phases_(phases_of(form)),
      mode_(arithmetic_of(form)),
      memory_ms_(device.copy_gbps > 0 ? problem_work(form).bytes / device.copy_gbps * 1e-6 : 0) {}

// The terms of sm90_cost(), of blocks that fill every SM; by tensor copies those of memory alone.
double Sm90DenseBound::ms(const Sm90Config& config) const {
  constexpr double ms = 1e3 / kClock;
  const Sm90Tile& tile = sm90_tile(config);
  const double launch = kLaunchMs + kStartCycles * ms + (config.scaled ? kSecondMs : 0);
  if (tile.tma) return kTmaDram * memory_ms_ + launch + (config.resident ? kResidentMs : 0);
  const Sm90Layout layout = sm90_layout(mode_, config.scaled);
  const Sm90LeastWork work = sm90_least_work(form_, phases_, device_, layout, config);
  const GatherRates& rates = gather_rates(mode_, config.scaled);
  const double blocks = work.slabs * work.taps, columns = tile.columns();
  const double tensor = blocks * (layout.products * 2 * 2 * tile.n / 2.0 + rates.tap);
  const double pieces = columns / (layout.element == 2 ? 64 : 32) * kSm90Blocks;
  const double load = work.slabs * (rates.stage + pieces * rates.piece) * load_factor(form_, tile, layout);
  const bool partial = work.partial_bytes > 0;
  const double out_bytes =
      partial ? 4.0 * kSm90Rows * tile.row_blocks * columns : work.outputs * layout.element;
  const double l2 = work.slabs * 4.0 * columns * layout.unit * layout.element + out_bytes +
                    blocks * tile.row_blocks * layout.parts * kSm90PartBytes;
  const double busy = work.rounds * ms;
  double rest = launch;
  if (partial) {
    rest += kLaunchMs + 2 * work.partial_bytes / (kL2BytesPerCycle * std::max(1, device_.sm_count)) * ms;
  }
  return std::max(together(busy * tensor, busy * load, kGatherL2 * busy * l2 / kL2BytesPerCycle) +
                      busy * out_bytes / rates.store,
                  kGatherDram * memory_ms_) +
         rest;
}

}  // namespace tconv::cuda
