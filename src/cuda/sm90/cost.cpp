#include "cuda/sm90/cost.hpp"

#include <algorithm>

#include "core/polyphase.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;

// Cycles of an SM at kClock, fitted to H200 measurements of the tiles of n64 ci128 co128 l65536 k3 (tf32,
// bf16, ieee), n32 ci32 co64 l131072 k5 d3, n16 ci32 co64 l131072 k3 s2 d2 and n1 ci512 co256 l8000 k16 s8.
// What binds is the chain of the loading warps' instructions and waits, and what is stored after it.
constexpr double kClock = 1.75e9;
constexpr double kL2BytesPerCycle = 26;  // an SM's share
constexpr double kStageCycles = 1200;    // of a stage, whatever its size: the loads' latency
constexpr double kStoreBytesPerCycle = 14;
constexpr double kStartCycles = 5000;  // of a block: launch, barriers, the first loads
constexpr double kTapCycles = 250;     // of split operands: sums that are over before they are added up
constexpr double kLaunchMs = 0.003;
constexpr double kSecondMs = 0.003;  // of the second launch, where it has nothing to do

// The same where x comes by bulk copies, fitted to 179 measurements of every tile on those problems and nine
// more. Half of them are within 7%. The chains of the warp that copies and of those that make operands bind,
// and what is stored after.
constexpr double kBulkL2BytesPerCycle = 14.2;
constexpr double kRowCycles = 60, kRowsCycles = 480;  // to copy a row, and a stage
constexpr double kTurnCycles = 200;                   // of operands: of a warp's two pieces
constexpr double kTurnsCycles = 800;                  // and of a stage
constexpr double kStreamCycles = 70;                  // of a stage, more, where weights are streamed
constexpr double kEdgeCycles = 600,
                 kEdgeTurnCycles = 900;  // of a stage that is not whole, and of a turn in it
constexpr double kBulkStoreBytesPerCycle = 12.4;
constexpr double kAlone = 0.62;  // of the time to store, where one of the two warpgroups has no rows
constexpr double kBulkTensor = 1.2, kBulkTapCycles = 113;  // a wgmma's time, and a tap's beside it
constexpr double kBulkDram = 1.12;

// The same where x goes direct: cycles of a warpgroup, which does one thing after the other: of a half tile,
// of each of its outputs, alone and in windows, of a slab, and of a tap of it; streamed: half tiles in step
// with each other.
struct DirectCycles {
  double tile, output, window, slab, tap, streamed;
};
// From registers, by row blocks and whether elements have 16 bits: fitted to n64 ci128 co128 l65536 k3, n16
// ci32 co64 l131072 k3 s2 d2, n1 ci512 co256 l8000 k16 s8, n16 ci128 co64 l55104 k4 s2 and n16 ci64 co32
// l110208 k4 s2 in tf32 and bf16, of which all are within 10%.
constexpr DirectCycles kFromRegisters[2][2] = {
    {{1500, 0.63, 0.76, 1800, 200, 1.12}, {1500, 0.28, 0.47, 1000, 170, 1.12}},
    {{1500, 0.32, 0.63, 1620, 400, 1.12}, {1500, 0.20, 0.38, 900, 340, 1.12}}};
// By operands in shared memory, fitted to 13 problems of all kinds of taps and rows in tf32 and bf16, of
// which most are within 12%. Storing takes longer where phases do not come as powers of two.
constexpr DirectCycles kFromOperands[2][2] = {
    {{3000, 0.55, 0.66, 1480, 384, 1.05}, {3000, 0.22, 0.38, 1400, 384, 1.05}},
    {{3000, 0.16, 0.32, 2320, 354, 1.05}, {3000, 0.17, 0.27, 1720, 354, 1.05}}};
constexpr double kUnevenStore[2] = {1.6, 2.4};
// Of split operands: from registers fitted to the first problems and n16 ci32 co32 l131072 k1, within 6%; by
// operands to those of up to 5 taps, odd rows and 3 phases, within 5%: shared memory binds there.
constexpr DirectCycles kSplitRegisters = {1200, 0.50, 0.61, 1520, 440, 1.12};
constexpr DirectCycles kSplitOperands = {4180, 0.02, 0.41, 910, 812, 1.05};
constexpr double kZeroMs = 0.002;  // of the memset before

// Cycles of a warp for one piece of a stage.
double piece_cycles(Sm80Mode mode, bool held) {
  if (held) return 100;
  if (mode == Sm80Mode::ieee) return 160;
  return mode == Sm80Mode::tf32 ? 65 : 110;
}

// Cycles of a tile to bring x by bulk copies.
double bulk_cycles(const Sm90Plan& plan, const Sm90Layout& layout, double stages) {
  const Sm90Params& k = plan.params;
  const double turns = static_cast<double>(ceil_div(ceil_div(k.width, 64) * kSm90Blocks, kSm90Converters));
  const double whole =
      std::max(kRowsCycles + layout.slab() * kRowCycles, kTurnsCycles + turns * kTurnCycles) +
      (k.resident ? 0 : kStreamCycles);
  // A sample's first and last tile, and a slab of fewer channels, are not whole.
  const double edges = std::min(1.0, 2.0 / k.sample_tiles.value);
  const double ragged = k.cin_group % layout.slab() == 0 ? 0 : 1.0 / k.slabs;
  const double share = edges + (1 - edges) * ragged;
  return stages * ((1 - share) * whole + share * (kEdgeCycles + turns * kEdgeTurnCycles));
}

DirectCycles direct_cycles(const Sm90Plan& plan, const Sm90Layout& layout, int wide) {
  const Sm90Params& k = plan.params;
  const bool operands = k.tap_group == 0;
  if (layout.parts == 2) return operands ? kSplitOperands : kSplitRegisters;
  DirectCycles cycles = (operands ? kFromOperands : kFromRegisters)[wide][layout.element == 2];
  if (operands && (k.phases & (k.phases - 1)) != 0) {
    cycles.output *= kUnevenStore[wide];
    cycles.window *= kUnevenStore[wide];
  }
  return cycles;
}

// Of a plan whose x goes direct.
Sm90Cost direct_cost(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d,
                     const Sm90Tile& tile) {
  const Sm90Params& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  const Sm90DirectTile direct = sm90_direct_tile(plan, tile);
  const DirectCycles cycles = direct_cycles(plan, layout, tile.row_blocks - 1);
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count)), ms = 1e3 / kClock;
  const double half_tiles = waves * static_cast<double>(ceil_div(k.half_rounds, k.walkers));
  const double outputs = static_cast<double>(tile.row_blocks) * k.block_couts * k.half_step * k.stride;
  const double busy = half_tiles * (k.resident ? 1 : cycles.streamed) * ms;
  Sm90Cost c;
  // wgmma takes 32 cycles for 64 positions of 64 rows and 16 channels.
  c.tensor = half_tiles * direct.warpgroups * direct.half_tile() / 64 * 2 * k.slabs * k.taps *
             tile.row_blocks * layout.products * 32 * ms;
  c.load = busy * k.slabs * (cycles.slab + k.taps * cycles.tap);
  c.store = busy * (cycles.tile + outputs * (k.windows ? cycles.window : cycles.output));
  c.dram = d.copy_gbps > 0 ? core::work_of(p).bytes / d.copy_gbps * 1e-6 * kBulkDram : 0;
  c.launch = kLaunchMs + waves * kStartCycles * ms + (plan.config.held ? kSecondMs : 0) +
             (plan.config.held || k.resident ? kZeroMs : 0);
  c.total = std::max({c.tensor, c.load + c.store, c.dram}) + c.launch;
  return c;
}

}  // namespace

Sm90Layout sm90_layout(Sm80Mode mode, bool held) {
  if (held) return mode == Sm80Mode::ieee ? Sm90Layout{4, 2, 8, 3} : Sm90Layout{4, 1, 8, 1};
  switch (mode) {
    case Sm80Mode::tf32:
      return {4, 1, 4, 1};
    case Sm80Mode::ieee:
      return {4, 2, 4, 3};
    default:
      return {2, 1, 8, 1};
  }
}

Sm90Cost sm90_cost(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d,
                   const Sm90Tile& tile) {
  if (tile.direct) return direct_cost(plan, p, d, tile);
  const Sm90Params& k = plan.params;
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  const double sms = std::max(1, d.sm_count);
  const double slabs =
      static_cast<double>(std::min<int64_t>(k.slabs, ceil_div(k.units, k.splits) * k.unit_slabs));
  const double blocks = slabs * k.taps;  // of weights, a tile
  const double columns = tile.columns();
  // wgmma takes n/2 cycles for 64 rows and 32 bytes of depth; a slab has two such steps.
  const double tensor = blocks * (layout.products * 2 * 2 * tile.n / 2.0 * (tile.bulk ? kBulkTensor : 1) +
                                  (layout.parts == 2 ? kTapCycles : 0) + (tile.bulk ? kBulkTapCycles : 0));
  const double positions = layout.element == 2 ? 64 : 32;
  const double pieces = static_cast<double>(k.width) / positions * kSm90Blocks;
  const double stages = slabs * k.tap_groups;
  const double load = tile.bulk
                          ? bulk_cycles(plan, layout, stages)
                          : stages * (kStageCycles + pieces * piece_cycles(plan.mode, plan.config.held));
  const double out_bytes =
      k.partial ? 4.0 * kSm90Rows * tile.row_blocks * columns
                : static_cast<double>(tile.row_blocks) * k.block_couts * columns * k.stride * layout.element;
  const bool alone = k.row_blocks < tile.row_blocks;
  const double rate = tile.bulk ? kBulkStoreBytesPerCycle : kStoreBytesPerCycle;
  const double store =
      out_bytes / rate * (tile.bulk && alone ? kAlone : 1) * (k.skewed && !k.partial ? 2 : 1);
  const double x_bytes = slabs * k.tap_groups * 4.0 * k.width * layout.unit * layout.element;
  const double weight_bytes = blocks * tile.row_blocks * layout.parts * kSm90BlockBytes;

  const double tiles = static_cast<double>(ceil_div(std::max(1, k.column_tiles), k.walkers));
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count));
  const double written = tile.bulk && alone ? out_bytes / 2 : out_bytes;
  const double l2 = x_bytes + written + (k.resident ? weight_bytes / tiles : weight_bytes);
  const double ms = 1e3 / kClock, busy = waves * tiles;
  Sm90Cost c;
  c.tensor = busy * tensor * ms;
  c.load = busy * load * ms;
  c.l2 = busy * l2 / (tile.bulk ? kBulkL2BytesPerCycle : kL2BytesPerCycle) * ms;
  c.store = busy * store * ms;
  c.dram = d.copy_gbps > 0 ? core::work_of(p).bytes / d.copy_gbps * 1e-6 * (tile.bulk ? kBulkDram : 1) : 0;
  c.launch = kLaunchMs + waves * kStartCycles * ms + (plan.config.held ? kSecondMs : 0);
  if (k.partial) {
    c.launch += kLaunchMs + 2 * static_cast<double>(plan.partial_bytes) / (kL2BytesPerCycle * sms) * ms;
  }
  c.total = std::max({std::max(c.tensor, c.load) + c.store, c.l2, c.dram}) + c.launch;
  return c;
}

}  // namespace tconv::cuda
