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
// By row blocks: of two most (n68 ci16 co18 l7349 k23 s4, n1 ci112 co224 l31555 k23 s4 g7: 1.8 times as long
// as with the rate of one).
constexpr double kStoreBytesPerCycle[2] = {12, 8};
constexpr double kStartCycles = 5000;  // of a block: launch, barriers, the first loads
constexpr double kTapCycles = 250;     // of split operands: sums that are over before they are added up
constexpr double kLaunchMs = 0.003;
constexpr double kSecondMs = 0.003;  // of the second launch, where it has nothing to do

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
    {{1500, 0.50, 0.76, 1800, 200, 1.12}, {1500, 0.28, 0.47, 1000, 170, 1.12}},
    {{1500, 0.32, 0.63, 1620, 400, 1.12}, {1500, 0.20, 0.38, 900, 340, 1.12}}};
// Of an output that goes straight to y, by row blocks, 16 bits and whether the stride is more than 1: fitted
// to n64 ci128 co128 l65536 k3 and k1, n16 ci128 co64 l55104 k4 s2, n16 ci64 co64 l65536 k8 s4 and l32768 k16
// s8 in tf32 and bf16, of which most are within 12%.
constexpr double kStraight[2][2][2] = {{{0.44, 0.45}, {0.07, 0.25}}, {{0.32, 0.38}, {0.05, 0.18}}};
// In windows that are staged as they lie in y, by row blocks and whether by operands: fitted to n64 ci128
// co128 l65536 k3, k1 p1 and l65535 k3 and n16 ci64 co64 l131072 k5 p2, within 10%.
constexpr double kShifted[2][2] = {{0.45, 0.40}, {0.30, 0.20}};
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
constexpr double kDirectDram = 1.12;
constexpr double kZeroMs = 0.002;  // of the memset before

// Cycles of a warp for one piece of a stage.
double piece_cycles(Sm80Mode mode, bool held) {
  if (held) return 100;
  if (mode == Sm80Mode::ieee) return 160;
  return mode == Sm80Mode::tf32 ? 65 : 110;
}

DirectCycles direct_cycles(const Sm90Plan& plan, const Sm90Layout& layout, int wide) {
  const Sm90Params& k = plan.params;
  const bool operands = k.tap_group == 0;
  if (layout.parts == 2) return operands ? kSplitOperands : kSplitRegisters;
  DirectCycles cycles = (operands ? kFromOperands : kFromRegisters)[wide][layout.element == 2];
  if (k.shifted) cycles.window = kShifted[wide][operands];
  if (k.straight > 0) cycles.output = kStraight[wide][layout.element == 2][k.straight > 1];
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
  c.dram = d.copy_gbps > 0 ? core::work_of(p).bytes / d.copy_gbps * 1e-6 * kDirectDram : 0;
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
  const double tensor =
      blocks * (layout.products * 2 * 2 * tile.n / 2.0 + (layout.parts == 2 ? kTapCycles : 0));
  const double positions = layout.element == 2 ? 64 : 32;
  const double pieces = static_cast<double>(k.width) / positions * kSm90Blocks;
  const double stages = slabs * k.tap_groups;
  const double load = stages * (kStageCycles + pieces * piece_cycles(plan.mode, plan.config.held));
  const double out_bytes =
      k.partial ? 4.0 * kSm90Rows * tile.row_blocks * columns
                : static_cast<double>(tile.row_blocks) * k.block_couts * columns * k.stride * layout.element;
  const double store =
      out_bytes / kStoreBytesPerCycle[tile.row_blocks - 1] * (k.skewed && !k.partial ? 2 : 1);
  const double x_bytes = slabs * k.tap_groups * 4.0 * k.width * layout.unit * layout.element;
  const double weight_bytes = blocks * tile.row_blocks * layout.parts * kSm90BlockBytes;

  const double tiles = static_cast<double>(ceil_div(std::max(1, k.column_tiles), k.walkers));
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count));
  const double l2 = x_bytes + out_bytes + (k.resident ? weight_bytes / tiles : weight_bytes);
  const double ms = 1e3 / kClock, busy = waves * tiles;
  Sm90Cost c;
  c.tensor = busy * tensor * ms;
  c.load = busy * load * ms;
  c.l2 = busy * l2 / kL2BytesPerCycle * ms;
  c.store = busy * store * ms;
  c.dram = d.copy_gbps > 0 ? core::work_of(p).bytes / d.copy_gbps * 1e-6 : 0;
  c.launch = kLaunchMs + waves * kStartCycles * ms + (plan.config.held ? kSecondMs : 0);
  if (k.partial) {
    c.launch += kLaunchMs + 2 * static_cast<double>(plan.partial_bytes) / (kL2BytesPerCycle * sms) * ms;
  }
  c.total = std::max({std::max(c.tensor, c.load) + c.store, c.l2, c.dram}) + c.launch;
  return c;
}

}  // namespace tconv::cuda
