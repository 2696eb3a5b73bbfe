// The cost model of cuda.sm90.blocked.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/blocked_rates.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using blocked_model::kRates;
using blocked_model::Weights;
using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

// Whether the kernel is made for two blocks that share an SM; a plan may still have room for one.
bool two_share(const Sm90BlockedPlan& plan) {
  const int parts = sm90_layout(plan.main.mode, plan.main.config.scaled).parts;
  return sm90_blocks_of_sm(sm90_tile(plan.main.config).n, parts) == 2;
}

// Outputs a cycle of an SM.
double store_rate(const Sm90BlockedPlan& blocked, const Problem& p, int element) {
  if (blocked.main.params.pass.lines) {
    double longer = 1;
    if (sm90_tile(blocked.main.config).n == 64) {
      longer = kRates.narrow;
    } else if (two_share(blocked)) {
      longer = kRates.shared[element / 4];
    }
    return (rows_on_vectors(p) ? kRates.lines : kRates.shifted) / longer;
  }
  if (blocked.main.config.folded) return kRates.folded[element / 4];
  return (two_share(blocked) ? kRates.passes : kRates.long_passes)[element / 4];
}

// Cycles of each of a block's warps that turn, or of the thread that copies, for a tile.
double turning(const Sm90BlockedPlan& plan, double slabs, int turners) {
  const Sm90RawSource& raw = plan.raw;
  const double chunks = slabs * sm90_slab_units(plan) / raw.chunk_units * plan.main.params.gather.tap_groups;
  const double all = static_cast<double>(raw.boxes) * raw.blocks;
  const double items = static_cast<double>(raw.items) / turners, boxes = all / turners;  // of a chunk
  const double targets =
      raw.phases_over == 0
          ? kRates.turn_even * items
          : kRates.turn_target * (raw.box_columns > 0 ? items * raw.pieces : boxes * raw.pieces);
  const double turns = kRates.turn_chunk * std::min(1.0, items) + kRates.turn_item * items + targets +
                       kRates.turn_box * boxes +
                       kRates.turn_piece[sm90_layout(plan.main.mode, false).element / 4] * boxes * raw.pieces;
  // Rows shorter than a share need a copy for each box.
  return chunks * std::max(turns, raw.inner < 0 ? kRates.box_copy * all : 0);
}

// The share of the stages that a chunk's slabs take.
double crowding(const Sm90BlockedPlan& plan) {
  if (!plan.main.config.turned) return 0;
  const double slabs = static_cast<double>(plan.raw.chunk_units) / sm90_slab_units(plan);
  return std::min(1.0, std::max(1.0, slabs) / plan.main.params.gather.stages);
}

// Whether rows are stored line by line from tiles of 256 columns that they fill.
bool fills_lines(const Sm90Plan& plan) {
  constexpr double kFull = 0.85;
  const Sm90Sizes& sizes = plan.params.sizes;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const double rows = double(round_up(sizes.row_blocks, tile.row_blocks)) * sizes.block_couts;
  return plan.params.pass.lines && tile.n == 256 && sizes.cout_group >= kFull * rows;
}

double whole_ms(const Sm90BlockedPlan& plan, const Sm90Cost& c, int element) {
  const Weights& w = blocked_model::weights_of(plan.main.config, plan.main.mode, element, plan.raw.stride,
                                               plan.main.params.pass.lines);
  const double crowded = crowding(plan), store = w.store * c.store, dram = w.dram * c.dram;
  const double twice = fills_lines(plan.main) ? w.beside * std::min(store, dram) : 0;
  const double ms = w.start + w.tensor * c.tensor + w.load * c.load * (1 + w.crowded * crowded * crowded) +
                    w.l2 * c.l2 + store + dram - twice + w.blocking * plan.blocking_ms +
                    w.rest * (c.launch - kRates.launch_ms);
  if (!plan.main.config.turned) return ms;
  const bool alone = two_share(plan) && plan.blocks_of_sm == 1;
  const double all = alone ? kRates.alone * ms : ms;
  const bool one_tap = plan.raw.phases == 1 && plan.main.params.sizes.taps == 1;
  return one_tap ? std::max(kRates.one_tap * all, kRates.one_tap_turning * c.load) : all;
}

// What packing takes: milliseconds, and a byte of weights; of tf32, of 16-bit types, and of tf32 and ieee in
// float16, whose scales take a launch that reads all weights. From raw less packed weights (H100, in a
// graph): drawn layers and those of decoders, 92 and 144 of the last two.
struct PackWeights {
  double start, byte;
};
constexpr PackWeights kPack[2] = {{3.3e-3, 0.75e-9}, {2.8e-3, 0.8e-9}},
                      kPackScaled[2] = {{9.0e-3, 1.0e-9}, {8.0e-3, 1.2e-9}};

}  // namespace

double sm90_blocked_pack_ms(const Problem& asked, bool scaled) {
  const auto element = static_cast<double>(size_of(asked.dtype));
  const PackWeights& w =
      scaled ? kPackScaled[arithmetic_of(asked) == Arithmetic::ieee ? 1 : 0] : kPack[element == 2 ? 1 : 0];
  return w.start + w.byte * static_cast<double>(asked.weight_elements()) * element;
}

Sm90Cost sm90_blocked_cost(const Sm90BlockedPlan& blocked, const DeviceInfo& d) {
  const Sm90Plan& plan = blocked.main;
  const Problem& p = blocked.form.product;
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const Sm90Layout layout = sm90_layout(plan.mode, plan.config.scaled);
  const int element = layout.element;
  const double slabs = static_cast<double>(sm90_block_slabs(k.grid));
  const double lacking = 1 - static_cast<double>(k.gather.whole) / k.gather.phases;  // of the slabs
  const double columns = tile.columns(), parts = slabs * (k.sizes.taps - lacking);
  // wgmma takes n/2 cycles for 64 rows and 32 bytes of depth, of which a slab has two, for two warpgroups.
  const double tensor = parts * layout.products * 2 * tile.n / kRates.tensor;
  const double weights = parts * layout.parts * tile.row_blocks * kSm90PartBytes;
  const double x = slabs * layout.parts * k.gather.tap_groups * kSm90Blocks * k.gather.width * 16.0;
  const double outputs =
      static_cast<double>(tile.row_blocks) * k.sizes.block_couts * columns * k.sizes.stride;
  const double tiles = static_cast<double>(ceil_div(std::max(1, k.columns.column_tiles), k.grid.walkers)),
               waves = static_cast<double>(ceil_div(plan.blocks, int64_t{d.sm_count} * blocked.blocks_of_sm));
  const double ms = 1e3 / kRates.clock, busy = waves * tiles * ms;
  const int shared = blocked.blocks_of_sm - 1;
  // With one tap, most of the work is to bring x, and every row block needs it again.
  const bool falls_out = k.sizes.taps == 1 && k.grid.row_runs > 1 &&
                         static_cast<double>(p.x_elements()) * element > kRates.kept_bytes;
  Sm90Cost c;
  c.tensor = busy * tensor;
  c.l2 = busy * (falls_out ? kRates.again : 1) * (x + weights) / kRates.l2[shared];
  // Partial sums cost what adding them does.
  if (!k.pass.partial) c.store = busy * outputs / store_rate(blocked, p, element) * skew_factor(k);
  c.dram = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 : 0;
  // Blocks that share an SM share its tensor cores and its part of L2, and store by turns.
  c.tensor *= blocked.blocks_of_sm;
  c.l2 *= blocked.blocks_of_sm;
  c.store *= blocked.blocks_of_sm;
  if (plan.config.turned)
    c.load = blocked.blocks_of_sm * busy * turning(blocked, slabs, sm90_turners(tile.n));
  const double partial_bytes = k.pass.partial ? 2 * static_cast<double>(plan.partial_bytes) : 0;
  double partial = partial_bytes / (kRates.l2[1] * std::max(1, d.sm_count)) * ms;
  // What L2 does not keep of them goes to memory and back.
  if (d.copy_gbps > 0) partial += std::max(0.0, partial_bytes - 2 * kRates.kept_bytes) / d.copy_gbps * 1e-6;
  // Folded rows of partial sums that do not begin on fours are added output by output (ordered_sum.cu), and
  // instructions bind. From two input gradients on an H200: n256 ci128 co64 l29 k3 s2, n64 ci384 co192 l11 k5
  // s2.
  constexpr double kSingleMs = 4e-9;
  if (k.columns.folded && k.columns.sample_columns % 4 != 0) {
    partial += kSingleMs * static_cast<double>(p.y_elements());
  }
  c.launch = kRates.launch_ms + waves * kRates.start * ms;
  if (k.pass.partial) c.launch += kRates.launch_ms + partial;
  c.total = whole_ms(blocked, c, element);
  return c;
}

double sm90_blocking_ms(const Sm90BlockedPlan& plan, const Problem& asked, const DeviceInfo& d) {
  const double read =
      static_cast<double>(sm90_blocked_input(asked)) * static_cast<double>(size_of(asked.dtype));
  const int log_bytes =
      blocked_words(plan.blocking, size_of(asked.dtype)) + (size_of(asked.dtype) == 4 ? 1 : 0);
  const bool plain = plan.blocking.phases == 1 || plan.blocking.phase_slabs;
  const double rate = plain ? kRates.plain : kRates.blocking[log_bytes];
  // Behind a look at a sample there is a launch that mostly does nothing.
  const double looked = read / std::max(1, plan.seen.every), launches = plan.main.config.sampled ? 2 : 1;
  const double look =
      plan.main.config.scaled ? launches * kRates.launch_ms + looked / std::max(1.0, d.copy_gbps) * 1e-6 : 0;
  return look + kRates.launch_ms +
         (static_cast<double>(plan.bytes) + read) / std::max(1.0, rate * d.copy_gbps) * 1e-6;
}

}  // namespace tconv::cuda
