#include "cuda/sm80/dense_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/sm80/tiling.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DType;
using core::Problem;

// Must match tiles.cuh.
constexpr Sm80Tile kTiles[] = {{"128x128", 128, 128, 128, 64, 64, 4, 2},
                               {"64x128", 64, 128, 128, 32, 64, 6, 3},
                               {"64x32", 64, 32, 128, 16, 32, 6, 5}};
constexpr int64_t kReservedShared = 1024;  // of each block, by the driver

struct Layout {                             // what the mode says of sizes
  int element, sum, parts, unit, products;  // products: mma of one tile and step
  int slab() const { return 4 * unit; }
  int tile_bytes() const { return kSm80Steps * parts * kSm80RowTileUnits * kSm80UnitBytes; }
};

Layout layout_of(Sm80Mode mode) {
  switch (mode) {
    case Sm80Mode::tf32:
      return {4, 4, 1, 4, 1};
    case Sm80Mode::ieee:
      return {4, 4, 2, 4, 3};
    case Sm80Mode::f64:
      return {8, 8, 1, 2, 1};
    case Sm80Mode::f16:
    case Sm80Mode::bf16:
      break;
  }
  return {2, 4, 1, 8, 1};
}

// The most taps a group may have. Its halo passes through a block's registers at once, and it does so during
// the group's last tap, so that no group has one tap alone.
int tap_group_of(const Phases& f, const Sm80Tile& tile) {
  const int64_t halo = tile.threads / kSm80Blocks;
  for (int64_t group = std::min(f.taps, halo / f.step + 1); group > 1; --group) {
    if (f.taps % group != 1) return static_cast<int>(group);
  }
  return 1;
}

void set_problem(Sm80Plan& plan, const Problem& p, const Layout& layout, const Sm80Tile& tile) {
  Sm80Params& k = plan.params;
  const Phases& f = plan.phases;
  set_sizes(k, p, f);
  k.last_phases = static_cast<int>(std::min(f.count, p.k - (f.taps - 1) * f.tap_stride));
  k.slabs = static_cast<int>(ceil_div(p.cin_per_group(), layout.slab()));
  k.splits = plan.config.splits;
  k.row_tiles = static_cast<int>(ceil_div(p.cout_per_group(), 16) * f.count);
  k.row_tile_bytes = int64_t{k.slabs} * k.taps * layout.tile_bytes();
  k.row_blocks = static_cast<int>(ceil_div(k.row_tiles, tile.rows / 16));
  const int64_t reach = (f.count - 1) * f.dilation;
  k.first_u = std::min(p.padding / p.stride, ceil_div(p.padding - reach, p.stride));
  set_columns(k, p, f, tile.columns, plan.config.folded);
  k.partial = k.folded || k.splits > 1;
}

// Places in shared memory, in order: x, weights, staged sums, bias, table of phases.
void set_shared(Sm80Plan& plan, const Layout& layout, const Sm80Tile& tile) {
  Sm80Params& k = plan.params;
  const Sm80Config& c = plan.config;
  k.tap_group = c.tap_group;
  k.tap_groups = static_cast<int>(ceil_div(k.taps, c.tap_group));
  k.width = tile.columns + k.step * (c.tap_group - 1);
  k.x_pitch =
      round_up(k.width, 8) + 4;  // 4 mod 8: the two channel blocks of a float64 step lie in other banks
  k.halo = k.width - tile.columns;
  k.halo_shift = 0;
  while (1 << k.halo_shift < k.halo) ++k.halo_shift;
  k.resident = c.resident;
  const int64_t blocks = ceil_div(k.slabs, c.splits) * k.taps;
  const int64_t weight_slots = c.resident ? blocks : tile.slots;
  k.pass_columns = c.pass_columns;
  k.stage_pitch = c.pass_columns + 8;
  const int vector = 16 / layout.element;
  const int64_t extra = std::max<int64_t>(0, int64_t{k.phases - 1} * k.dilation - (k.stride - 1));
  const int64_t slots = int64_t{k.stride} * c.pass_columns + extra;
  k.row_shift = 0;
  while (vector << k.row_shift < c.pass_columns) ++k.row_shift;
  k.row_chunks = static_cast<int>(ceil_div(slots, 32));
  k.row_chunks_div = Divisor::of(static_cast<uint32_t>(k.row_chunks));

  int64_t at = 2LL * layout.parts * kSm80Blocks * k.x_pitch * kSm80UnitBytes;
  k.shared_weights = static_cast<int>(at);
  at += weight_slots * (tile.rows / 16) * layout.tile_bytes();
  k.shared_stage = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  if (!k.partial) at += int64_t{tile.rows} * k.stage_pitch * layout.element + tile.rows / 16 * 16;
  k.shared_bias = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  at += tile.rows * layout.sum;
  k.shared_table = static_cast<int>(std::min<int64_t>(at, 1 << 30));
  if (k.stride > 1) at += 8 * k.stride;
  plan.shared_bytes = static_cast<std::size_t>(at);
}

// The model. Cycles of an SM at kClock; rates of mma.sync relative to the device's matrix rate are measured
// on an H200 (tf32 310 of 400 TFLOP/s, bf16 621 of 760), elsewhere taken as all of it.
constexpr double kClock = 1.7e9;
constexpr double kL2BytesPerCycle = 24;             // an SM's share
constexpr double kStepLatency = 130;                // loads of fragments and the barrier of one weight block
constexpr double kStartCycles = 2500;               // of a block: first loads
constexpr double kTileCycles = 1200;                // of a tile's way out, beside its bytes
constexpr double kRowBytes = 40, kPhaseBytes = 20;  // a cycle, on the way out: rows at stride 1, phases
constexpr double kBeside = 0.1;
constexpr double kLaunchMs = 0.003, kEfficiency = 0.88;

double tensor_rate(Sm80Mode mode, const core::DeviceInfo& d) {  // flop a cycle and SM
  const double share = d.sm == 90 ? 0.78 : 1.0;
  double gflops = d.half_gflops;
  if (mode == Sm80Mode::tf32 || mode == Sm80Mode::ieee) gflops = d.tf32_gflops;
  if (mode == Sm80Mode::f64) gflops = d.fp64_gflops;
  if (gflops <= 0) gflops = d.fp32_gflops > 0 ? d.fp32_gflops : 1e4;
  return gflops * 1e9 * share / (kClock * std::max(1, d.sm_count));
}

int64_t occupancy(const Sm80Plan& plan, const core::DeviceInfo& d, const Sm80Tile& tile) {
  const int64_t shared = static_cast<int64_t>(plan.shared_bytes) + kReservedShared;
  if (static_cast<int64_t>(plan.shared_bytes) > d.shared_per_block) return 0;
  int64_t by_registers = tile.blocks;
  if (plan.mode == Sm80Mode::f64) by_registers = std::min<int64_t>(by_registers, tile.columns == 128 ? 2 : 4);
  if (plan.mode == Sm80Mode::ieee)
    by_registers = std::min<int64_t>(by_registers, tile.columns == 128 ? 2 : 4);
  return std::min(by_registers, d.shared_per_sm / shared);
}

Sm80Cost cost_of(const Sm80Plan& plan, const Problem& p, const core::DeviceInfo& d, const Layout& layout,
                 const Sm80Tile& tile, int64_t resident_blocks) {
  const Sm80Params& k = plan.params;
  const double sms = std::max(1, d.sm_count);
  const double steps =
      static_cast<double>(ceil_div(ceil_div(p.cin_per_group(), 2 * layout.unit), k.splits)) * k.taps;
  const double warps = tile.threads / 32.0;
  const double warp_products = tile.warp_rows / 16.0 * (tile.warp_columns / 8.0) * layout.products;
  // Rows of the last row block that are not there are not multiplied.
  const double rows_share = static_cast<double>(k.row_tiles) / (k.row_blocks * (tile.rows / 16.0));
  const double product = 2.0 * 16 * 8 * 2 * layout.unit / tensor_rate(plan.mode, d);
  const double tensor = steps * warps * warp_products * product * rows_share;
  const double reads = warps * layout.parts * (tile.warp_rows / 16.0 * 4 + tile.warp_columns / 8.0 * 2);
  const double fill = tile.rows / 16.0 * layout.tile_bytes() / 2 / 128 * (plan.config.resident ? 0 : 1) +
                      2.0 * layout.parts * k.width * 16 / 128 / k.tap_group;
  // A row of y holds outputs without taps as well.
  const double out_bytes = rows_share * tile.rows * tile.columns * k.stride / k.phases * layout.element;
  const double shared = steps * (reads * rows_share + fill) + 2.5 * out_bytes / 128;
  const double out_cycles = kTileCycles + out_bytes / (k.stride == 1 ? kRowBytes : kPhaseBytes);
  const double alone = steps * kStepLatency / 2 + tensor + out_cycles;

  const double tiles = static_cast<double>(ceil_div(k.column_tiles, k.walkers));
  const double busiest = static_cast<double>(ceil_div(plan.blocks, d.sm_count)) * tiles;
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count * resident_blocks));
  const double weight_bytes =
      tile.rows / 16.0 * layout.tile_bytes() * static_cast<double>(ceil_div(k.slabs, k.splits)) * k.taps;
  const double x_bytes = static_cast<double>(k.width) / tile.columns * tile.columns *
                         static_cast<double>(k.tap_groups) * k.cin_group / k.splits * layout.element;
  const double all_tiles = static_cast<double>(plan.blocks) * tiles;
  const double l2 = all_tiles * (x_bytes + out_bytes) +
                    weight_bytes * (plan.config.resident ? static_cast<double>(plan.blocks) : all_tiles);

  const double ms = 1e3 / kClock;
  Sm80Cost c;
  c.tensor = busiest * tensor / kEfficiency * ms;
  c.shared = busiest * shared / kEfficiency * ms;
  c.waves = waves * (kStartCycles + tiles * alone) * ms;
  c.l2 = l2 / (kL2BytesPerCycle * sms) * ms;
  c.dram = d.copy_gbps > 0 ? core::work_of(p).bytes / d.copy_gbps * 1e-6 : 0;
  c.launch = kLaunchMs;
  if (k.partial) {
    const double y = static_cast<double>(plan.partial_bytes);
    c.launch += kLaunchMs + 2 * y / (kL2BytesPerCycle * sms) * ms;
  }
  // The units work side by side, but not perfectly so.
  const double sum = c.tensor + c.shared + c.waves + c.l2 + c.dram;
  const double most = std::max({c.tensor, c.shared, c.waves, c.l2, c.dram});
  c.total = most + kBeside * (sum - most) + c.launch;
  return c;
}

// Blocks along the columns: as many as the SMs hold at once, each with its equal share; or one a tile.
int walkers_of(const Sm80Plan& plan, const core::DeviceInfo& d, int64_t resident_blocks, bool one_a_tile) {
  const Sm80Params& k = plan.params;
  const int64_t tiles = std::max(1, k.column_tiles);
  const int64_t rows = int64_t{k.row_blocks} * k.groups * k.splits, slots = d.sm_count * resident_blocks;
  if (one_a_tile) return static_cast<int>(std::min<int64_t>(tiles, std::max<int64_t>(1, (1 << 22) / rows)));
  const int64_t most = std::max<int64_t>(1, rows < slots ? slots / rows : ceil_div(4 * slots, rows));
  return static_cast<int>(ceil_div(tiles, ceil_div(tiles, most)));
}

Sm80Plan plan_with(const Problem& p, const core::DeviceInfo& d, Sm80Config config, bool one_a_tile) {
  Sm80Plan plan{};
  plan.mode = sm80_mode(p);
  plan.config = config;
  plan.phases = phases_of(p);
  const Layout layout = layout_of(plan.mode);
  const Sm80Tile& tile = kTiles[config.tile];
  set_problem(plan, p, layout, tile);
  Sm80Params& k = plan.params;
  set_shared(plan, layout, tile);
  plan.packed_bytes = int64_t{k.groups} * k.row_tiles * k.row_tile_bytes;
  plan.marks_at = plan.packed_bytes;
  if (layout.parts == 2) plan.packed_bytes += round_up<int64_t>(int64_t{k.groups} * k.row_tiles, 16);
  if (k.partial) {
    plan.partial_bytes = int64_t{k.splits} * k.groups * k.row_tiles * 16 * k.partial_columns * layout.sum;
  }
  const int64_t resident_blocks = occupancy(plan, d, tile);
  if (resident_blocks == 0) return plan;
  if (config.walkers == 0) plan.config.walkers = walkers_of(plan, d, resident_blocks, one_a_tile);
  k.walkers = plan.config.walkers;
  plan.blocks = int64_t{k.walkers} * k.row_blocks * k.groups * k.splits;
  plan.cost = cost_of(plan, p, d, layout, tile, resident_blocks);
  return plan;
}

Sm80Plan cheapest(const Problem& p, const core::DeviceInfo& d, int forced_splits, int most_splits) {
  Sm80Plan best{};
  const Phases phases = phases_of(p);
  const Sm80Mode mode = sm80_mode(p);
  const int64_t slabs = ceil_div(p.cin_per_group(), layout_of(mode).slab());
  for (int t = 0; t < static_cast<int>(std::size(kTiles)); ++t) {
    if (!sm80_has(mode, t)) continue;
    const int group = tap_group_of(phases, kTiles[t]);
    for (const int splits : kTensorSplits) {
      if (splits > slabs || (forced_splits > 0 && splits != forced_splits)) continue;
      if (splits > most_splits) continue;
      for (const bool folded : {false, true}) {
        if (folded && !may_fold(p, phases)) continue;
        const bool partial = folded || splits > 1;
        for (int pass = kTiles[t].columns; pass >= kTiles[t].warp_columns; pass /= 2) {
          if (partial && pass != kTiles[t].columns) break;
          for (const bool resident : {false, true}) {
            for (const bool one_a_tile : {false, true}) {
              Sm80Plan plan = plan_with(p, d, {t, splits, group, pass, 0, resident, folded}, one_a_tile);
              if (plan.blocks == 0 || (forced_splits == 0 && plan.partial_bytes > kMaxPartialBytes)) continue;
              if (best.blocks == 0 || plan.cost.total < best.cost.total) best = plan;
            }
          }
        }
      }
    }
  }
  return best;
}

}  // namespace

std::span<const Sm80Tile> sm80_tiles() {
  return kTiles;
}

Sm80Mode sm80_mode(const Problem& p) {
  switch (p.dtype) {
    case DType::f64:
      return Sm80Mode::f64;
    case DType::f16:
      return Sm80Mode::f16;
    case DType::bf16:
      return Sm80Mode::bf16;
    case DType::f32:
      break;
  }
  return p.precision == core::Precision::tf32 ? Sm80Mode::tf32 : Sm80Mode::ieee;
}

const char* name_of(Sm80Mode mode) {
  constexpr const char* kNames[] = {"tf32", "ieee as 3 products of tf32", "f16", "bf16", "f64"};
  return kNames[static_cast<int>(mode)];
}

bool sm80_has(Sm80Mode mode, int tile) {
  return mode != Sm80Mode::f64 || tile != 0;
}

Sm80Plan sm80_plan_of(const Problem& p, const core::DeviceInfo& d, const Sm80Config& config) {
  return plan_with(p, d, config, false);
}

Sm80Plan sm80_plan(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  if (!batch_invariant) return cheapest(p, d, 0, kAnySplits);
  Problem one = p;
  one.n = 1;
  const Sm80Plan plan = cheapest(one, d, 0, most_shared_splits(one, phases_of(one)));
  return p.n == 1 ? plan : cheapest(p, d, plan.config.splits, kAnySplits);
}

int sm80_tap_group(const Problem& p, int tile) {
  return tap_group_of(phases_of(p), kTiles[tile]);
}

Sm80SumParams sm80_sum_phases(const Problem& p, const Phases& f) {
  const int64_t g = std::gcd(p.stride, p.dilation);
  int64_t inverse = 1;  // of dilation/g modulo stride/g
  while (f.tap_stride > 1 && inverse * (p.dilation / g % f.tap_stride) % f.tap_stride != 1) ++inverse;
  Sm80SumParams s{};
  s.lout = p.lout();
  s.cout = static_cast<int>(p.cout);
  s.cout_group = static_cast<int>(p.cout_per_group());
  s.stride = static_cast<int>(p.stride);
  s.dilation = static_cast<int>(p.dilation);
  s.padding = static_cast<int>(p.padding);
  s.phases = static_cast<int>(f.count);
  s.tap_stride = static_cast<int>(f.tap_stride);
  s.inverse = static_cast<int>(inverse);
  s.stride_div = Divisor::of(static_cast<uint32_t>(p.stride));
  s.gcd_div = Divisor::of(static_cast<uint32_t>(g));
  s.tap_stride_div = Divisor::of(static_cast<uint32_t>(f.tap_stride));
  return s;
}

Sm80SumParams sm80_sum_params(const Sm80Plan& plan, const Problem& p) {
  const Sm80Params& k = plan.params;
  Sm80SumParams s = sm80_sum_phases(p, plan.phases);
  s.group_rows = int64_t{k.row_tiles} * 16;
  s.split_size = s.group_rows * k.groups * k.partial_columns;
  s.partial_columns = k.partial_columns;
  s.first_u = k.first_u;
  s.block_couts = 16;
  s.block_rows = 16 * k.phases;
  s.cout_rows = 1;
  s.phase_rows = 16;
  s.splits = k.splits;
  s.sample_columns = k.sample_columns;
  return s;
}

std::string text(const Sm80Config& c) {
  std::string out = std::string("tile ") + kTiles[c.tile].name + ", " + std::to_string(c.walkers) +
                    " walkers, taps by " + std::to_string(c.tap_group) +
                    (c.resident ? ", weights resident" : ", weights streamed");
  if (c.splits > 1) out += ", split " + std::to_string(c.splits) + " ways and summed in order";
  if (c.folded) out += ", samples folded into one row of columns";
  if (!c.folded && c.splits == 1) out += ", " + std::to_string(c.pass_columns) + " columns a store pass";
  return out;
}

std::string describe(const Sm80Plan& plan, const Problem& p) {
  const Sm80Cost& c = plan.cost;
  char model[200];
  std::snprintf(model, sizeof model,
                "; predicted %.4f ms (tensor %.4f, shared %.4f, waves %.4f, L2 %.4f, DRAM %.4f, launch %.4f)",
                c.total, c.tensor, c.shared, c.waves, c.l2, c.dram, c.launch);
  return text(plan.config) + "; " + name_of(plan.mode) + rows_and_depth(p, plan.phases) + model;
}

}  // namespace tconv::cuda
