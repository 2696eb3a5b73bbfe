// From a problem to the choices of cpu.amx. Pure; nothing is tuned per length.
#include <algorithm>
#include <cmath>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cpu/amx/contract.hpp"
#include "cpu/common/round_up.hpp"

namespace tconv::cpu::amx {
namespace {

using core::ceil_div;
using core::floor_div;

constexpr int64_t kMostTaps = 1024, kMostStride = 256;
constexpr int64_t kMostUnitRows = 256;
constexpr int64_t kPanelBytes = 1024 * 1024, kSumBytes = 1024 * 1024;  // half of L2 each
constexpr int64_t kMostPanelBytes = 4 << 20;
constexpr int64_t kGroupColumns = 256;
constexpr int64_t kMostPanelColumns = 1024;

// Cycles of a step of 2x2 and of 1x1 tile products, to load an element of the panel, and to store an output.
constexpr double kStepCycles = 110, kSingleCycles = 45, kLoadCycles = 0.6, kStoreCycles = 1.2,
                 kSpillCycles = 0.25;
constexpr double kWeightBytesPerCycle = 10;  // beyond L2
// cpu.dense and cpu.strided: multiply-adds per cycle.
constexpr double kOtherRate = 24;

bool whole_units(const core::Polyphase& form) {
  return (form.count - 1) * form.dilation < form.stride;
}

// How long the tile products of one class's rows in a unit take in one step, for two column tiles.
double step_cycles(int64_t rows, int64_t taps) {
  const int64_t tiles = ceil_div(rows, kTile);
  return static_cast<double>(taps) *
         (static_cast<double>(tiles / 2) * kStepCycles + static_cast<double>(tiles % 2) * 2 * kSingleCycles);
}

// Of all units.
double step_cycles(const RowClass (&classes)[2], int64_t channels, int64_t out_channels) {
  double cycles = 0;
  const int64_t full = out_channels / channels, rest = out_channels % channels;
  for (const RowClass& c : classes) {
    cycles += static_cast<double>(full) * step_cycles(channels * c.residues, c.taps) +
              step_cycles(rest * c.residues, c.taps);
  }
  return cycles;
}

// Output channels of a unit: the number that wastes the fewest rows of tiles; the smallest of equal ones.
int64_t choose_channels(const RowClass (&classes)[2], int64_t out_channels) {
  const int64_t residues = classes[0].residues + classes[1].residues;
  const int64_t most = std::clamp<int64_t>(kMostUnitRows / residues, 1, out_channels);
  int64_t best = 1;
  double least = step_cycles(classes, 1, out_channels);
  for (int64_t channels = 2; channels <= most; ++channels) {
    const double cycles = step_cycles(classes, channels, out_channels);
    if (cycles < 0.99 * least) best = channels, least = cycles;
  }
  return best;
}

void place_classes(Job& job) {
  int64_t rows = 0, weights = 0;
  for (RowClass& c : job.classes) {
    c.row_tiles = c.taps == 0 ? 0 : ceil_div(job.config.channels * c.residues, kTile);
    c.row_begin = rows;
    c.weights_begin = weights;
    rows += c.row_tiles * kTile;
    weights += c.row_tiles * c.taps * job.config.steps * kWeights;
  }
}

// The input of a transposed product as a panel of one phase.
strided::SplitPanel unsplit_panel(const core::Problem& p, const dense::Geometry& g) {
  strided::SplitPanel s;
  s.n = p.n, s.l = g.q_count, s.lout = p.l, s.stride = 1;
  const auto steps = p.x_steps();
  s.sample_step = steps[0], s.channel_step = steps[1], s.place_step = steps[2];
  for (int64_t j = 0; j < g.taps; ++j)
    s.taps.push_back({0, g.q_first - (g.taps - 1 - j) * g.delta, p.l, 0, 0});
  const int64_t halo = (g.taps - 1) * g.delta;
  const int64_t zeros_before = std::max<int64_t>(0, halo - g.q_first);
  const int64_t zeros_after = std::max<int64_t>(0, g.q_first + g.q_count - p.l);
  const int64_t shared_zeros = std::min({zeros_before, zeros_after, halo});
  const int64_t gap = p.n > 1 ? halo - shared_zeros : 0;
  s.expanded = g.delta > 128 || 4 * gap > g.q_count;
  s.tap_block = g.taps;
  s.lines = s.expanded ? g.taps : 1;
  s.halo = s.expanded ? 0 : halo;
  s.period = s.expanded ? g.q_count : g.q_count + halo - shared_zeros;
  s.columns = p.n == 0 || g.q_count <= 0 ? 0 : (p.n - 1) * s.period + g.q_count;
  return s;
}

// Rows, columns, and the order of the input: all that does not depend on threads.
Job shape_of(const core::Problem& p) {
  Job job;
  job.problem = p;
  dense::Geometry& g = job.out;
  g.n = p.n, g.groups = p.groups, g.has_bias = p.has_bias, g.dtype = p.dtype;
  if (p.operation == core::Operation::transposed) {
    const core::Polyphase form(p);
    job.in_channels = p.cin_per_group(), job.out_channels = p.cout_per_group();
    g.lout = p.lout(), g.stride = p.stride, g.padding = p.padding, g.dilation = p.dilation;
    g.residues = form.count, g.taps = form.taps, g.delta = form.step, g.tap_step = form.tap_stride;
    g.q_first = floor_div(p.padding, p.stride);
    g.q_count = std::max<int64_t>(0, ceil_div(g.lout + p.padding, p.stride) - g.q_first);
    const int64_t longer = form.longer();
    job.classes[0] = {0, longer, g.taps, 0, 0, 0};
    job.classes[1] = {longer, g.residues - longer, g.taps - 1, 0, 0, 0};
    job.split = unsplit_panel(p, g);
  } else {
    job.in_channels = p.cout_per_group(), job.out_channels = p.cin_per_group();
    g.lout = p.l, g.residues = 1, g.taps = p.k, g.q_count = p.l, g.tap_step = 1;
    job.classes[0] = {0, 1, p.k, 0, 0, 0};
    job.classes[1] = {1, 0, 0, 0, 0, 0};
    job.split = strided::split_panel(p, p.cin_per_group());
  }
  g.cout = job.out_channels;
  g.classes[1].first = job.classes[1].first;
  job.config.steps = ceil_div(job.in_channels, kStep);
  job.config.channels = choose_channels(job.classes, job.out_channels);
  job.config.units = ceil_div(job.out_channels, job.config.channels);
  place_classes(job);
  return job;
}

int64_t step_bytes(const Job& job, int64_t columns) {
  return kPairs * 4 * job.split.lines * (columns + job.split.halo);
}

// Steps of a depth block: their channels fit in a panel, and the blocks are about equal.
int64_t block_steps(const Job& job, int64_t columns) {
  const int64_t most = std::max<int64_t>(1, kPanelBytes / step_bytes(job, columns));
  return ceil_div(job.config.steps, ceil_div(job.config.steps, most));
}

double task_cycles(const Job& job, int64_t columns, int64_t units) {
  const Config& c = job.config;
  const double column_pairs = std::ceil(static_cast<double>(columns) / kColumns);
  double unit = 0, rows = 0;
  for (const RowClass& r : job.classes) {
    unit += step_cycles(r.row_tiles * kTile, r.taps);
    rows += static_cast<double>(r.residues * c.channels);
  }
  const double multiply = unit * static_cast<double>(units * c.steps) * column_pairs;
  const double weights = static_cast<double>(units * job.unit_weights() * 2) / kWeightBytesPerCycle;
  const double load = static_cast<double>(job.in_channels * job.split.lines * (columns + job.split.halo));
  const double stored = rows / static_cast<double>(job.out.residues) * static_cast<double>(job.out.stride);
  const double blocks = static_cast<double>(ceil_div(c.steps, block_steps(job, columns)));
  const double spills = (blocks - 1) * static_cast<double>(units * job.unit_rows() * columns);
  return multiply + weights + kLoadCycles * load + kSpillCycles * spills +
         kStoreCycles * stored * static_cast<double>(units * columns);
}

// Chooses the columns of a panel and the units of a task that take the shortest time with all threads.
void choose_tasks(Job& job, int threads) {
  Config& c = job.config;
  const int64_t all = std::max<int64_t>(1, job.split.columns);
  double least = HUGE_VAL;
  for (int64_t parts = ceil_div(all, kMostPanelColumns);; parts += std::max<int64_t>(1, parts / 8)) {
    const int64_t columns = round_up(ceil_div(all, parts), kColumns), panels = ceil_div(all, columns);
    const bool one_block = block_steps(job, columns) >= c.steps;
    const int64_t most =
        one_block ? c.units : std::max<int64_t>(1, kSumBytes / 4 / job.unit_rows() / columns);
    const bool fits = columns == kColumns || step_bytes(job, columns) <= kPanelBytes;
    for (int64_t chunks = ceil_div(c.units, most); fits && chunks <= c.units; chunks *= 2) {
      const int64_t units = ceil_div(c.units, chunks);
      const double tasks =
          static_cast<double>(job.problem.groups * panels) * static_cast<double>(ceil_div(c.units, units));
      const double cycles = std::ceil(tasks / threads) * task_cycles(job, columns, units);
      if (cycles < 0.999 * least) least = cycles, c.panel_columns = columns, c.units_per_task = units;
      if (tasks > 64.0 * threads) break;
    }
    if (columns == kColumns) break;
  }
  c.block_steps = block_steps(job, c.panel_columns);
  c.group_columns = job.one_block() ? std::min(c.panel_columns, kGroupColumns) : c.panel_columns;
}

// The lines of a step lie together, so that the rows of a tile are a constant distance apart.
void place_taps(Job& job) {
  const auto lines = static_cast<std::size_t>(job.split.lines);
  const auto& taps = job.split.taps;
  for (std::size_t tap = 0; tap < taps.size(); ++tap) {
    const std::size_t first = tap % lines;
    const int64_t shift = job.split.expanded ? 0 : taps[tap].shift - taps[first].shift;
    job.offsets.push_back(static_cast<int64_t>(first) * kPairs * job.split.line + shift);
  }
}

// Where pack.cpp puts a unit's raw weights. For each input channel, those of a transposed product are a row
// of (channel, tap), and those of a strided product are a row of taps for each output channel.
void place_weights(Job& job) {
  const core::Problem& p = job.problem;
  const int64_t channels = job.config.channels;
  job.places.reserve(static_cast<std::size_t>(channels * p.k));
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t residue = job.transposed() ? k % job.out.tap_step : 0;
      const RowClass& c = job.classes[residue < job.classes[1].first ? 0 : 1];
      const int64_t tap = job.transposed() ? c.taps - 1 - k / job.out.tap_step : k;
      const int64_t row = channel * c.residues + residue - c.first, pair = row / kRows;
      const int64_t tiles = std::min<int64_t>(2, c.row_tiles - 2 * pair);
      WeightPlace to;
      to.step = c.taps * tiles * kWeights;
      to.at = c.weights_begin + 2 * pair * job.config.steps * c.taps * kWeights +
              (tap * tiles + row % kRows / kTile) * kWeights + row % kTile * kStep;
      job.places.push_back(to);
    }
  }
}

}  // namespace

std::string refusal(const core::Problem& p) {
  using core::Operation;
  if (p.dtype != core::DType::bf16) return std::string("dtype ") + name_of(p.dtype) + ": it multiplies bf16";
  if (p.operation != Operation::transposed && p.operation != Operation::strided) {
    return std::string("operation ") + name_of(p.operation);
  }
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  if (p.k > kMostTaps) return "more than 1024 taps";
  if (p.operation == Operation::transposed) {
    const core::Polyphase form(p);
    if (!whole_units(form)) return "residues are further apart than the stride";
    if (p.stride > kMostStride) return "stride above 256";
    const core::Size columns =
        core::Size(ceil_div(p.lout() + p.padding, p.stride) - floor_div(p.padding, p.stride));
    if (columns * form.count > core::Size(4) * p.lout() + 4096) return "padding cuts most outputs";
  }
  const int64_t channels = p.operation == Operation::transposed ? p.cin_per_group() : p.cout_per_group();
  if (core::Size(channels) * p.k > core::Size(1 << 18)) return "a depth above 2^18";
  const Job job = shape_of(p);
  if (step_bytes(job, kColumns) > kMostPanelBytes) {
    return "32 channels of 32 columns take more than 4 MiB";
  }
  return {};
}

bool worth_it(const core::Problem& p) {
  const Job job = shape_of(p);
  const double columns = static_cast<double>(p.n) * static_cast<double>(job.out.q_count);
  double products = 0;
  for (const RowClass& r : job.classes) products += static_cast<double>(r.residues * r.taps);
  products *= static_cast<double>(job.in_channels) * static_cast<double>(job.out_channels) * columns;
  const int64_t panel = std::min<int64_t>(std::max<int64_t>(1, job.split.columns), 256);
  const double panels = static_cast<double>(job.split.columns) / static_cast<double>(panel);
  const double load = static_cast<double>(job.in_channels) * columns * kLoadCycles;
  const double store = kStoreCycles * static_cast<double>(job.out_channels * job.out.stride) * columns;
  return panels * task_cycles(job, panel, job.config.units) < products / kOtherRate + load + store;
}

Job make_job(const core::Problem& p, int threads) {
  Job job = shape_of(p);
  choose_tasks(job, std::max(1, threads));
  job.split.set_columns(job.config.panel_columns);
  place_taps(job);
  place_weights(job);
  return job;
}

}  // namespace tconv::cpu::amx
