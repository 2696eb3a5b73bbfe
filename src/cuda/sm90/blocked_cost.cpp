// The cost model of cuda.sm90.blocked.
#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

// Cycles of an SM at kClock, fitted to H200 measurements by
//   tconv bench --device cuda --kernel cuda.sm90.blocked --model
struct BlockedRates {
  double clock = 1.75e9;
  double tensor = 0.97;                   // the share of the tensor cores' peak that the sums of a tile reach
  double l2[2] = {44, 27};                // bytes a cycle, by blocks that share an SM
  double kept_bytes = 30e6, again = 1.5;  // of x that L2 keeps; how much longer the rest takes
  // Outputs a cycle: of 16 bits and of 32 by passes, over one sample or several. Fitted to 258 drawn
  // products, every configuration (H100).
  double passes[2] = {4.15, 3.0}, folded[2] = {4.0, 3.1};
  // By passes of 512 bytes (Sm90Storing) over one sample, by turns or not: fitted to 672 times of 310
  // products in three modes (H200), off by 15% in bf16 and ieee and by 10% in tf32.
  double long_passes[2] = {6.9, 5.0};
  // Line by line, where rows of y begin on 16 bytes or anywhere; how much longer that takes in tiles of 64
  // columns, and, of 16 bits and of 32, in tiles of 128 that share an SM. Fitted to 652 times of 163 drawn
  // products in three modes (H200): off by 12%.
  double lines = 6.7, shifted = 5.8, narrow = 1.6, shared[2] = {1.5, 1.45};
  // How much longer a block that turns takes if its SM has no room for a second one: 1.2 to 1.5 times on 9
  // products.
  double alone = 1.35;
  // Of one tap, whose products hide no turning: the whole, and turning alone. Fitted to 37 pointwise products
  // in 16 bits and tf32, 15 to 1100 us (H200): 11% off; without this, 0.53 to 1.0 of the time was expected.
  double one_tap = 1.12, one_tap_turning = 1.3;
  double start = 5000;  // of a block
  double launch_ms = 0.003;
  // Cycles of a warp that turns: a chunk; an item of it; to find where the pieces of a box go, or where one
  // of them goes if their phases differ; a box; a piece of it, of 16 bits and of 32. Instructions counted by
  // ncu, 6 to 7 cycles each.
  double turn_chunk = 700, turn_item = 600, turn_even = 80, turn_target = 60, turn_box = 33,
         turn_piece[2] = {23, 80};
  double box_copy = 900;  // of a thread, in rows shorter than a share
  // The share of the copy rate: with loads of 2, 4, 8 and 16 bytes if a unit has phases of channels; plain if
  // it has where it has none.
  double blocking[4] = {0.43, 0.6, 0.75, 0.75}, plain = 0.85;
};
constexpr BlockedRates kRates;

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

// The whole time as a weighted sum of its parts: milliseconds to begin, the others relative; `rest` is of
// what is known as launch: blocks that begin, and partial sums. Fitted to times of drawn problems (tf32, ieee
// and bf16, strided and transposed, H200, packed weights, in a graph), 6,600 of 860 problems and, turned, 590
// of 170. Root mean square errors: 13% with a pass (9 to 13% in float16), 10% with slabs of one phase; turned
// 7 to 10% by lines, 17% by passes, 9 to 17% with phases. The configuration preferred takes 1.011 times as
// long as the fastest (108 transposed problems).
struct Weights {
  double start, tensor, load, l2, store, dram, blocking, rest;
  // How much longer loads take as the slabs of a chunk fill the ring: times the square of the share they
  // take.
  double crowded = 0;
  // Which share of the lesser of store and dram is counted twice: lines go to memory while others are stored,
  // if rows fill tiles of 256 columns. Without this, 21 times in 16 bits that outputs bind are expected to be
  // 1.09 times as long as they are; in float32 none.
  double beside = 0;
};
// Of 16 bits and of 32.
constexpr Weights kPass[2] = {{1.4e-3, 0.774, 0, 0.529, 1.0, 0.591, 0.64, 1.0, 0, 0.4},
                              {1.2e-3, 0.758, 0, 0.495, 1.153, 0.405, 0.794, 1.0}},
                  kPhased[2] = {{0.3e-3, 0.605, 0, 0.712, 1.0, 0.424, 1.071, 1.123},
                                {0, 0.705, 0, 0.572, 1.432, 0.195, 1.116, 1.1}};
// Turned: with rows of y stored by passes, and line by line. Those by passes are 1.18 times as large as
// fitted: expected times are 17% off there, and where several kernels are compared the one that is
// underestimated wins. As fitted, 16 of 71 choices against another kernel took more than 1.05 times as long,
// and all of them 0.936 of the time; with the factor 5 of 51, and 0.875. `rest` is at least 1, for few of
// those times have partial sums.
constexpr Weights kTurned[2][2] = {
    {{4.0e-3, 0.977, 0.68, 0.256, 0.953, 0.06, 0, 1.18},
     {4.0e-3, 0.854, 0.261, 0.85, 0.527, 0.907, 0, 1.062}},
    {{4.0e-3, 0.983, 0.347, 0, 0.597, 0.117, 0, 1}, {4.0e-3, 0.855, 0.309, 0, 0.871, 0.334, 0, 1}}};
// With phases of x: in tiles of fewer than 256 columns, and of 256, whose loads find a free slot less often.
constexpr Weights kTurnedPhases[2][2] = {
    {{4.0e-3, 0.84, 0.335, 0, 0.618, 0.037, 0, 1.339, 1}, {4.0e-3, 0.834, 0.283, 0, 0.6, 0.183, 0, 1.5, 2}},
    {{4.0e-3, 0.594, 0.473, 0.42, 0.719, 0.274, 0, 1.1, 2},
     {4.0e-3, 0.546, 0.574, 0.303, 1.046, 0, 0, 1.1, 2}}};
// float32 in float16, tf32 in one part and ieee in two; with slabs of one phase.
constexpr Weights kScaled[2] = {{1.3e-3, 0.838, 0, 0.547, 1.76, 0.143, 1.009, 1.3},
                                {2.1e-3, 0.781, 0, 0.803, 2.276, 0.099, 0.91, 1.215}},
                  kScaledPhased[2] = {{0, 0.814, 0, 0.591, 1.813, 0.119, 1.267, 1.2},
                                      {0, 0.583, 0, 1.035, 2.305, 0.108, 1.134, 1.32}};

const Weights& weights_of(const Sm90BlockedPlan& plan, int element) {
  const Sm90Config& config = plan.main.config;
  if (config.scaled) {
    const int parts = plan.main.mode == Arithmetic::ieee ? 1 : 0;
    return config.phased ? kScaledPhased[parts] : kScaled[parts];
  }
  const int words = element / 4;
  if (config.phased) return kPhased[words];
  if (!config.turned) return kPass[words];
  return plan.raw.stride == 1 ? kTurned[plan.main.params.pass.lines][words]
                              : kTurnedPhases[sm90_tile(config).n == 256][words];
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
  const Weights& w = weights_of(plan, element);
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

double sm90_blocked_pack_ms(const Sm90BlockedPlan& plan, const Problem& asked) {
  const auto element = static_cast<double>(size_of(asked.dtype));
  const PackWeights& w = plan.main.config.scaled ? kPackScaled[plan.main.mode == Arithmetic::ieee ? 1 : 0]
                                                 : kPack[element == 2 ? 1 : 0];
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
