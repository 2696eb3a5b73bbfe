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

// The same where x goes direct, fitted to n64 ci128 co128 l65536 k3, n16 ci32 co64 l131072 k3 s2 d2, n1 ci512
// co256 l8000 k16 s8, n16 ci128 co64 l55104 k4 s2 and n16 ci64 co32 l110208 k4 s2 in tf32 and bf16, of which
// all are within 10%: cycles of a warpgroup, which does one thing after the other. Sorted by row blocks.
constexpr double kHalfTileCycles = 1500;
constexpr double kStepCycles[2][2] = {{900, 500}, {810, 450}};  // 16 channels of float32; of a 16-bit type
constexpr double kStepTapCycles[2] = {100, 85};                 // of a row block
constexpr double kOutputCycles[2][2] = {{0.63, 0.28}, {0.32, 0.20}};
constexpr double kWindowCycles[2][2] = {{0.76, 0.47}, {0.63, 0.32}};
// Of split operands, fitted to the same problems and n16 ci32 co32 l131072 k1, within 12%: three warpgroups
// take turns at the tensor cores. With 4 taps a fragment does not fit the registers any more.
constexpr double kSplitStepCycles = 760, kSplitTapCycles = 220, kSplitFourTaps = 1.25;
constexpr double kSplitStore = 0.8;  // of the time of another half tile, output by output
// By operands, fitted to 13 problems of all kinds of taps and rows in tf32 and bf16, of which most are within
// 12%: of a half tile, a slab, and a tap of it; the share of the time to store.
constexpr double kOperandTileCycles = 3000, kOperandStreamed = 1.05;
constexpr double kSlabCycles[2][2] = {{1480, 1400}, {2320, 1720}}, kSlabTapCycles[2] = {384, 354};
constexpr double kOperandStore[2][2] = {{0.87, 0.80}, {0.51, 0.85}};
constexpr double kUnevenStore[2] = {1.6, 2.4};  // more where phases do not come as powers of two
constexpr double kDirectStreamed = 1.12;        // half tiles in step with each other
constexpr double kZeroMs = 0.002;               // of the memset before

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

// Of a plan whose x goes direct.
Sm90Cost direct_cost(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d,
                     const Sm90Tile& tile) {
  const Sm90Params& k = plan.params;
  const int wide = tile.row_blocks - 1, type = sm90_layout(plan.mode, plan.config.held).element == 2 ? 1 : 0;
  const double steps = 2.0 * k.slabs, waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count));
  const double half_tiles = waves * static_cast<double>(ceil_div(k.half_rounds, k.walkers));
  const double outputs = static_cast<double>(tile.row_blocks) * k.block_couts * k.half_step * k.stride;
  const bool operands = k.tap_group == 0;
  const double streamed = k.resident ? 1 : operands ? kOperandStreamed : kDirectStreamed, ms = 1e3 / kClock;
  Sm90Cost c;
  const Sm90DirectTile direct = sm90_direct_tile(plan, tile);
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.held);
  // wgmma takes 32 cycles for 64 positions of 64 rows and 16 channels.
  c.tensor = half_tiles * direct.warpgroups * direct.half_tile() / 64 * steps * k.taps * tile.row_blocks *
             layout.products * 32 * ms;
  const double step = layout.parts == 2
                          ? (kSplitStepCycles + k.taps * kSplitTapCycles) * (k.taps == 4 ? kSplitFourTaps : 1)
                          : kStepCycles[wide][type] + k.taps * tile.row_blocks * kStepTapCycles[type];
  const double slab = kSlabCycles[wide][type] + k.taps * kSlabTapCycles[wide];
  c.load = half_tiles * (operands ? k.slabs * slab : steps * step) * streamed * ms;
  const double output = outputs * (k.windows ? kWindowCycles : kOutputCycles)[wide][type];
  const double uneven = (k.phases & (k.phases - 1)) == 0 ? 1 : kUnevenStore[wide];
  const double store = operands ? kOperandTileCycles + output * kOperandStore[wide][type] * uneven
                                : (kHalfTileCycles + output) * (layout.parts == 2 ? kSplitStore : 1);
  c.store = half_tiles * store * streamed * ms;
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
