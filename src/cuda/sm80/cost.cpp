#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// The model's rates: cycles of an SM, and bytes that it moves in a cycle. Measured on an H200, and taken as
// they are for other devices. `tconv bench --model --device cuda` compares predictions with times.
struct Sm80Rates {
  double clock;       // Hz
  double sm90_share;  // the share of the matrix rate that mma.sync reaches on sm_90; elsewhere it reaches all
  double l2_bytes;    // for one SM
  double step;        // loads of fragments and the barrier of one weight block
  double start;       // of a block: its first loads
  double tile;        // of storing a tile, in addition to its bytes
  double row_bytes, phase_bytes;  // of storing: rows at stride 1, phases
  double beside;                  // the part of the units' time that the slowest one does not hide
  double launch_ms, efficiency;
};
// tf32 reaches 310 of 400 TFLOP/s, bf16 621 of 760.
constexpr Sm80Rates kSm80Rates = {.clock = 1.7e9,
                                  .sm90_share = 0.78,
                                  .l2_bytes = 24,
                                  .step = 130,
                                  .start = 2500,
                                  .tile = 1200,
                                  .row_bytes = 40,
                                  .phase_bytes = 20,
                                  .beside = 0.1,
                                  .launch_ms = 0.003,
                                  .efficiency = 0.88};

double tensor_rate(Arithmetic arithmetic, const core::DeviceInfo& d) {  // flop a cycle and SM
  const double share = d.sm == 90 ? kSm80Rates.sm90_share : 1.0;
  double gflops = d.half_gflops;
  if (arithmetic == Arithmetic::tf32 || arithmetic == Arithmetic::ieee) gflops = d.tf32_gflops;
  if (arithmetic == Arithmetic::f64) gflops = d.fp64_gflops;
  if (gflops <= 0) gflops = d.fp32_gflops > 0 ? d.fp32_gflops : 1e4;
  return gflops * 1e9 * share / (kSm80Rates.clock * std::max(1, d.sm_count));
}

// For the kernel, and for the sum of partial sums after it.
double launch_ms(const Sm80Plan& plan, const core::DeviceInfo& d) {
  constexpr const Sm80Rates& rates = kSm80Rates;
  if (!plan.params.partial) return rates.launch_ms;
  const double bytes_a_second = rates.l2_bytes * std::max(1, d.sm_count) * rates.clock;
  return 2 * rates.launch_ms + 2e3 * static_cast<double>(plan.partial_bytes) / bytes_a_second;
}

double dram_ms(const Problem& p, const core::DeviceInfo& d) {
  return d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 : 0;
}

}  // namespace

double sm80_least_ms(const Sm80Plan& plan, const Problem& p, const core::DeviceInfo& d) {
  return launch_ms(plan, d) + dram_ms(p, d);
}

Sm80Cost sm80_cost(const Sm80Plan& plan, const Problem& p, const core::DeviceInfo& d,
                   int64_t resident_blocks) {
  constexpr const Sm80Rates& rates = kSm80Rates;
  const ArithmeticShape shape = shape_of(plan.mode);
  const Sm80Tile& tile = kSm80Tiles[plan.config.tile];
  const Sm80Params& k = plan.params;
  const double sms = std::max(1, d.sm_count);
  const double steps =
      static_cast<double>(ceil_div(ceil_div(p.cin_per_group(), 2 * shape.unit()), k.splits)) * k.taps;
  const double warps = tile.threads() / 32.0;
  const double warp_products = tile.warp_rows() / 16.0 * (tile.warp_columns() / 8.0) * shape.products;
  // Rows that the last row block lacks are not multiplied.
  const double rows_share = static_cast<double>(k.row_tiles) / (k.row_blocks * (tile.rows() / 16.0));
  const double product = 2.0 * 16 * 8 * 2 * shape.unit() / tensor_rate(plan.mode, d);
  const double tensor = steps * warps * warp_products * product * rows_share;
  const double reads = warps * shape.parts * (tile.warp_rows() / 16.0 * 4 + tile.warp_columns() / 8.0 * 2);
  const double fill = tile.rows() / 16.0 * sm80_tile_bytes(shape) / 2 / 128 * (plan.config.resident ? 0 : 1) +
                      2.0 * shape.parts * k.width * 16 / 128 / k.tap_group;
  // A row of y also holds outputs without taps.
  const double out_bytes = rows_share * tile.rows() * tile.columns() * k.stride / k.phases * shape.element;
  const double shared = steps * (reads * rows_share + fill) + 2.5 * out_bytes / 128;
  const double out_cycles = rates.tile + out_bytes / (k.stride == 1 ? rates.row_bytes : rates.phase_bytes);
  const double alone = steps * rates.step / 2 + tensor + out_cycles;

  const double tiles = static_cast<double>(ceil_div(k.column_tiles, k.walkers));
  const double busiest = static_cast<double>(ceil_div(plan.blocks, d.sm_count)) * tiles;
  const double waves = static_cast<double>(ceil_div(plan.blocks, d.sm_count * resident_blocks));
  const double weight_bytes =
      tile.rows() / 16.0 * sm80_tile_bytes(shape) * static_cast<double>(ceil_div(k.slabs, k.splits)) * k.taps;
  const double x_bytes = static_cast<double>(k.width) / tile.columns() * tile.columns() *
                         static_cast<double>(k.tap_groups) * k.cin_group / k.splits * shape.element;
  const double all_tiles = static_cast<double>(plan.blocks) * tiles;
  const double l2 = all_tiles * (x_bytes + out_bytes) +
                    weight_bytes * (plan.config.resident ? static_cast<double>(plan.blocks) : all_tiles);

  const double ms = 1e3 / rates.clock;
  Sm80Cost c;
  c.tensor = busiest * tensor / rates.efficiency * ms;
  c.shared = busiest * shared / rates.efficiency * ms;
  c.waves = waves * (rates.start + tiles * alone) * ms;
  c.l2 = l2 / (rates.l2_bytes * sms) * ms;
  c.dram = dram_ms(p, d);
  c.launch = launch_ms(plan, d);
  // The units overlap, but not perfectly.
  const double sum = c.tensor + c.shared + c.waves + c.l2 + c.dram;
  const double most = std::max({c.tensor, c.shared, c.waves, c.l2, c.dram});
  c.total = most + rates.beside * (sum - most) + c.launch;
  return c;
}

}  // namespace tconv::cuda
