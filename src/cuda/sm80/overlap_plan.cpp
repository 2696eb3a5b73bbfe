#include "cuda/sm80/overlap_plan.hpp"

#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/places.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm80/raw_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;

// How the rows of a tile are cut out of (cout, k).
struct RowCut {
  bool whole = true;
  int64_t couts = 0, chunk = 0;  // 0 couts: impossible
  int64_t cout_tiles = 0, phase_tiles = 0;
};

int64_t tiles_of(const RowCut& rows) {
  return rows.cout_tiles * rows.phase_tiles;
}

RowCut rows_of(const Problem& p, const Phases& f, int64_t most_rows, int64_t vector) {
  RowCut best;
  const int64_t couts = p.cout_per_group();
  const auto take = [&](bool whole, int64_t most, int64_t chunk) {
    if (most < 1) return;
    RowCut rows{whole, std::min(most, couts), chunk, 0, 0};
    // Tiles that begin on a vector, if they then have nearly as many couts.
    const int64_t even = vector / std::gcd(vector, p.k), fewer = rows.couts / even * even;
    if (whole && rows.couts < couts && fewer * 8 >= rows.couts * 7) rows.couts = fewer;
    rows.cout_tiles = ceil_div(couts, rows.couts);
    rows.couts = std::min(rows.couts, round_up(ceil_div(couts, rows.cout_tiles), even));
    rows.phase_tiles = ceil_div(f.count, chunk);
    if (best.couts == 0 || tiles_of(rows) < tiles_of(best)) best = rows;
  };
  if (p.k <= most_rows) take(true, most_rows / p.k, f.count);
  for (int64_t chunk = most_rows / f.taps / vector * vector; chunk >= vector; chunk -= vector) {
    if (chunk < f.count) take(false, most_rows / (chunk * f.taps), chunk);
  }
  return best;
}

void set_rows(OverlapParams& k, const Problem& p, const Phases& f, const RowCut& rows) {
  k.whole = rows.whole;
  k.couts = static_cast<int>(rows.couts);
  k.chunk = static_cast<int>(rows.chunk);
  k.cout_rows = static_cast<int>(rows.whole ? p.k : f.taps * rows.chunk);
  k.tap_rows = static_cast<int>(rows.whole ? f.tap_stride : rows.chunk);
  k.cout_tiles = static_cast<int>(rows.cout_tiles);
  k.phase_tiles = static_cast<int>(rows.phase_tiles);
  // The weights of a tile begin on a vector if everything before them is whole vectors.
  const auto bytes = static_cast<int64_t>(size_of(p.dtype));
  k.weight_step = p.cout_per_group() * p.k;
  int64_t steps = std::gcd(k.weight_step, rows.whole ? rows.couts * p.k : rows.chunk);
  if (!rows.whole) steps = std::gcd(std::gcd(steps, p.k), f.tap_stride);
  k.weight_copy = steps * bytes % 16 == 0  ? OverlapCopy::vector
                  : steps * bytes % 4 == 0 ? OverlapCopy::word
                                           : OverlapCopy::element;
}

bool set_columns(OverlapParams& k, const Problem& p, const Phases& f, int tile_columns) {
  const auto bytes = static_cast<int64_t>(size_of(p.dtype));
  k.columns = static_cast<int>(p.n * p.l);
  const int64_t halo = k.columns <= tile_columns ? 0 : (f.taps - 1) * f.step;
  if (halo > tile_columns / 2) return false;
  const auto steps = p.x_steps();
  const int64_t even = std::gcd(std::gcd(p.l, steps[0]), steps[1]);
  const int64_t vector = 16 / bytes, word = 4 / bytes;
  int64_t piece = 1;
  if (even % vector == 0 && round_up(halo, vector) <= halo + tile_columns / 16) piece = vector;
  if (piece == 1 && even % word == 0) piece = word;
  k.halo = static_cast<int>(round_up(halo, piece));
  k.own = tile_columns - k.halo;
  k.column_tiles = static_cast<int>(ceil_div(k.columns, k.own));
  k.x_copy = piece == vector      ? OverlapCopy::vector
             : piece * bytes == 4 ? OverlapCopy::word
                                  : OverlapCopy::element;
  k.length = Divisor::of(static_cast<uint32_t>(p.l));
  const int64_t first = p.padding / p.stride, last = (p.lout() - 1 + p.padding) / p.stride;
  k.first_u = static_cast<int>(first);
  k.turns = Divisor::of(static_cast<uint32_t>(last - first + 1));
  return true;
}

// Fitted to 901 plans of 290 problems, drawn ones and short samples, in tf32, bf16 and split float32 (H100):
// off by 12% (standard deviation); the tile and split that is chosen takes 1.015 times as long as the best
// one. Microseconds. The two blocks of an SM take `together` of what they would take one after another.
struct OverlapRates {
  double launch, block;
  double slab[3][kOverlapTileCount];  // in tf32, 16 bit, split float32
  double odd_weights[2];  // how much longer slabs take with copies of 4 bytes, and of single elements
  double odd_slab[2];     // how much longer 16-bit columns take with copies of single elements; in low tiles
  double together[kOverlapTileCount], tail;
  double far_slab;              // at least, for weights that L2 does not keep
  double output, tap, far_tap;  // for an output, for each of its taps, for each tap of each split
  double neighbour;             // for sums over a cluster, for each of its blocks
  double sectors;               // bytes of x, whole sectors, where samples are shorter than a sector
  double memory;                // in addition to the time of the bytes, if they bind
};
constexpr OverlapRates kRates = {.launch = 1.76,
                                 .block = 1.79,
                                 .slab = {{0.86, 0.91, 1.22, 1.74, 2.24, 2.09},
                                          {0.75, 0.92, 0.97, 1.49, 1.87, 1.43},
                                          {0.95, 1.34, 2.38, 5.05, 4.95, 2.85}},
                                 .odd_weights = {1.06, 1.28},
                                 .odd_slab = {1.44, 1.7},
                                 .together = {0.62, 0.64, 0.65, 0.66, 0.67, 0.64},
                                 .tail = 0.98,
                                 .far_slab = 0.90,
                                 .output = 0.00043,
                                 .tap = 0.00010,
                                 .far_tap = 0.00020,
                                 .neighbour = 0.39,
                                 .sectors = 4.4e6,
                                 .memory = 7.6};

// How much slower an SM's tensor cores are than those of an H200 by mma.sync. Narrow tiles wait for weights.
double slower(const OverlapPlan& plan, const Problem& p, const core::DeviceInfo& d) {
  constexpr double kHalf = 621e3 / 132, kTf32 = 310e3 / 132;  // GFLOP/s an SM
  const bool half = size_of(p.dtype) == 2;
  const double rate = (half ? d.half_gflops : d.tf32_gflops) / std::max(1, d.sm_count);
  if (plan.config.tile < 2 || d.sm == 90 || rate <= 0) return 1;
  return std::max(1.0, (half ? kHalf : kTf32) / rate);
}

double slab_us(const OverlapPlan& plan, const Problem& p, const core::DeviceInfo& d, bool far) {
  const int kind = size_of(p.dtype) == 2 ? 1 : arithmetic_of(p) == Arithmetic::ieee ? 2 : 0;
  const bool low = kOverlapTiles[plan.config.tile].rows < 64;
  const double odd =
      plan.params.x_copy == OverlapCopy::element && plan.config.tile > 1 ? kRates.odd_slab[low] : 1;
  const OverlapCopy copy = plan.params.weight_copy;
  const double weights = copy == OverlapCopy::vector ? 1 : kRates.odd_weights[copy == OverlapCopy::element];
  return std::max(slower(plan, p, d) * odd * weights * kRates.slab[kind][plan.config.tile],
                  far ? kRates.far_slab : 0);
}

// Neighbouring outputs that a tile makes of one position.
int slots_of(const OverlapParams& k) {
  return k.phase_tiles > 1 ? k.chunk : k.stride;
}

// Of the loads of x where a warp's columns are of many samples: every sample is a sector of its own. (n256 l1
// in bf16: 272 MB for 4 MB of x.)
double sectors_us(const OverlapPlan& plan, const Problem& p) {
  constexpr double kSector = 32;
  const OverlapParams& k = plan.params;
  const double run =
      static_cast<double>(std::min<int64_t>(k.l, k.own) * static_cast<int64_t>(size_of(p.dtype)));
  if (run >= kSector) return 0;
  const auto rows = static_cast<double>(ceil_div(k.slabs, k.splits) * kOverlapSlabBytes);
  return static_cast<double>(plan.blocks) * rows * (k.own + k.halo) * (kSector / run) / kRates.sectors;
}

double block_us(const OverlapPlan& plan, const Problem& p, const core::DeviceInfo& d, bool far) {
  const OverlapParams& k = plan.params;
  // Short samples have more outputs than stride times columns.
  const double more = std::max(1.0, static_cast<double>(k.lout) / (static_cast<double>(k.l) * k.stride));
  const double outputs = more * static_cast<double>(k.couts) * std::min(k.own, k.columns) *
                         static_cast<double>(slots_of(k)) / k.splits;
  const double tap = k.splits > 1 ? kRates.far_tap * k.splits : kRates.tap;
  return kRates.block + static_cast<double>(ceil_div(k.slabs, k.splits)) * slab_us(plan, p, d, far) +
         outputs * (kRates.output + tap * k.taps) + (k.splits > 1 ? kRates.neighbour * k.splits : 0);
}

double ms_of(const OverlapPlan& plan, const Problem& p, const core::DeviceInfo& d) {
  const bool far = static_cast<double>(p.weight_elements()) * static_cast<double>(size_of(p.dtype)) >
                   0.6 * static_cast<double>(d.l2_bytes);
  const double an_sm =
      static_cast<double>(plan.blocks) / static_cast<double>(block_places(d, 1, plan.config.splits));
  const double turns =
      an_sm <= 1 ? 1 : kRates.together[plan.config.tile] * (an_sm <= 2 ? 2 : an_sm + kRates.tail);
  const double blocks = turns * block_us(plan, p, d, far), sectors = sectors_us(plan, p);
  const double memory = d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-3 + kRates.memory : 0;
  const double both = mostly_the_longest({blocks, sectors});
  return (kRates.launch + std::max(both, far ? memory : 0)) * 1e-3;
}

}  // namespace

OverlapPlan overlap_plan_of(const Problem& p, const core::DeviceInfo& d, const OverlapConfig& config) {
  OverlapPlan plan;
  plan.config = config;
  plan.phases = phases_of(p);
  const Phases& f = plan.phases;
  OverlapParams& k = plan.params;
  const ArithmeticShape shape = shape_of(arithmetic_of(p));
  k.slabs = static_cast<int>(ceil_div(p.cin_per_group(), kOverlapSlabBytes / shape.element));
  k.splits = config.splits;
  if (k.splits > 1 && (d.sm < 90 || k.splits > k.slabs)) return plan;
  const OverlapTile& tile = kOverlapTiles[config.tile];
  const RowCut rows = rows_of(p, f, tile.rows, 16 / shape.element);
  if (rows.couts == 0 || !set_columns(k, p, f, tile.columns)) return plan;
  set_rows(k, p, f, rows);
  const auto steps = p.x_steps();
  k.x_step[0] = steps[0], k.x_step[1] = steps[1];
  k.cout = p.cout, k.l = p.l, k.lout = p.lout();
  k.cin_group = static_cast<int>(p.cin_per_group());
  k.cout_group = static_cast<int>(p.cout_per_group());
  k.groups = static_cast<int>(p.groups);
  k.k = static_cast<int>(p.k);
  k.stride = static_cast<int>(p.stride);
  k.padding = static_cast<int>(p.padding);
  k.phases = static_cast<int>(f.count);
  k.last_phases = static_cast<int>(std::min(f.count, p.k - (f.taps - 1) * f.tap_stride));
  k.taps = static_cast<int>(f.taps);
  k.tap_stride = static_cast<int>(f.tap_stride);
  k.step = static_cast<int>(f.step);
  k.rows_first = p.x_elements() > p.weight_elements();
  constexpr int kRowsBeside = 8;  // lanes that read as many rows together read few pieces
  k.columns_beside = slots_of(k) < kRowsBeside;
  const core::Size blocks = core::Size(tiles_of(rows)) * p.groups * k.column_tiles * k.splits;
  if (blocks > int64_t{1} << 30) return plan;
  plan.blocks = tiles_of(rows) * p.groups * k.column_tiles * k.splits;
  plan.ms = ms_of(plan, p, d);
  return plan;
}

OverlapPlan overlap_plan(const Problem& p, const core::DeviceInfo& d, bool batch_invariant) {
  return cheapest_plan(p, d, batch_invariant, kOverlapTileCount,
                       [&](const Problem& of, int tile, int splits) {
                         return overlap_plan_of(of, d, {tile, splits});
                       });
}

std::string overlap_refusal(const Problem& p, const core::DeviceInfo& d) {
  if (std::string other = plan::other_operation(p, core::Operation::transposed); !other.empty()) return other;
  if (std::string none = no_mma(p, d); !none.empty()) return none;
  if (const plan::Support takes = tensor_supports(p); !takes.ok) return takes.reason;
  if (!phases_of(p).interleaved) return "dilation skews the phases";
  if (p.n * p.l < 1 || p.y_elements() < 1) return "no positions";
  // Outputs that no x reaches must be few beside the tile that stores them.
  if (p.lout() / p.stride > 2 * (p.l + p.dilation * p.k) + 1024) return "most outputs lie beyond x";
  const auto fits = [&](int tile) { return overlap_plan_of(p, d, {tile, 1}).blocks > 0; };
  if (!fits(kOverlapTallTile) && !fits(kOverlapTallTile + 1)) return "its taps do not fit in a tile";
  return "";
}

std::string describe(const OverlapPlan& plan, const Problem& p) {
  const OverlapParams& k = plan.params;
  std::string out = std::string(name_of(arithmetic_of(p))) + ", tile of " + std::to_string(k.couts) +
                    " cout x " + std::to_string(k.whole ? k.k : k.taps * k.chunk) + " k by " +
                    std::to_string(k.own) + " positions of all samples";
  if (k.halo > 0) out += " and " + std::to_string(k.halo) + " before them";
  out += split_words(k.splits);
  const auto words = [](OverlapCopy copy) { return std::to_string(static_cast<int>(copy)) + " bytes"; };
  return out + ", weights as they are in copies of " + words(k.weight_copy) + ", x of " + words(k.x_copy);
}

std::vector<plan::StageLine> stages(const OverlapPlan& plan, const Problem& p) {
  const OverlapParams& k = plan.params;
  const OverlapTile& tile = kOverlapTiles[plan.config.tile];
  const std::string ring = std::to_string(tile.stages) + " stages of " +
                           std::to_string(tile.stage_bytes / static_cast<int>(size_of(p.dtype))) +
                           " channels";
  const std::string adds = k.splits > 1 ? ", splits in order through the cluster's shared memory" : "";
  return {cluster_schedule_line(k.splits, plan.blocks, k.rows_first),
          {"source", "x as it lies in memory, by asynchronous copies: " + ring},
          {"weights", "raw, by asynchronous copies into the same stages"},
          {"product", "mma.sync m16n8, every tap with every position once"},
          epilogue_line(p),
          {"writer", "products into shared memory, added where they overlap" + adds}};
}

std::string where(const OverlapPlan& plan, const Problem& p, int64_t element) {
  const OverlapParams& k = plan.params;
  const OutputPlace at = output_place(p, plan.phases, element);
  if (!at.has_phase()) return text(at);
  const int64_t column = at.n * p.l + std::clamp<int64_t>(at.u, 0, p.l - 1), column_tile = column / k.own;
  const int64_t phase_tile = k.whole ? 0 : at.phase / k.chunk;
  const int64_t row = (at.group * k.cout_tiles + at.inner / k.couts) * k.phase_tiles + phase_tile;
  const int64_t rows = int64_t{k.cout_tiles} * k.phase_tiles * k.groups;
  const int64_t tile = k.rows_first ? column_tile * rows + row : row * k.column_tiles + column_tile;
  return text(at) + "; block " + std::to_string(tile * k.splits) + ", column " +
         std::to_string(column - column_tile * k.own + k.halo) + " of its tile";
}

}  // namespace tconv::cuda
