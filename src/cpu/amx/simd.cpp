#include <algorithm>

#include "cpu/amx/contract.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/simd/dispatch.hpp"
#include "cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/amx/simd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/amx/emit-inl.hpp"
#include "cpu/amx/panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::amx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kLineBytes = 64, kMostAhead = 256 * 1024;

// The sum of one tile product for four rows and a vector of columns.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddTile(D d, const uint16_t* w, const uint32_t* x, int64_t line, V (&sums)[4]) {
  const hn::RebindToUnsigned<D> bits;
  const auto upper = hn::Set(bits, 0xffff0000u);
  V even[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  V odd[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (int64_t pair = 0; pair < kPairs; ++pair, x += line, w += 2) {
    const auto both = hn::LoadU(bits, x);
    const auto x_even = hn::BitCast(d, hn::ShiftLeft<16>(both)), x_odd = hn::BitCast(d, hn::And(both, upper));
    for (int64_t row = 0; row < 4; ++row) {
      const uint16_t* pair_of_row = w + row * kStep;
      even[row] = hn::MulAdd(hn::Set(d, core::bf16_to_float(pair_of_row[0])), x_even, even[row]);
      odd[row] = hn::MulAdd(hn::Set(d, core::bf16_to_float(pair_of_row[1])), x_odd, odd[row]);
    }
  }
  for (int64_t row = 0; row < 4; ++row) sums[row] = hn::Add(sums[row], hn::Add(even[row], odd[row]));
}

// As tiles.hpp defines it, with subnormals kept.
void Multiply(const Product& p) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t row = 0; row < p.row_tiles * kTile; row += 4) {
    for (int64_t column = 0; column < p.column_tiles * kTile; column += lanes) {
      float* to = p.sums + row * p.sums_line + column;
      hn::Vec<decltype(d)> sums[4];
      for (int64_t i = 0; i < 4; ++i) sums[i] = p.add ? hn::LoadU(d, to + i * p.sums_line) : hn::Zero(d);
      const uint16_t* w = p.weights + row * kStep;
      for (int64_t step = 0; step < p.steps; ++step) {
        const uint32_t* pairs = p.panel + step * p.step + column;
        for (int64_t tap = 0; tap < p.taps; ++tap, w += p.row_tiles * kWeights) {
          AddTile(d, w, pairs + p.offsets[tap], p.line, sums);
        }
      }
      for (int64_t i = 0; i < 4; ++i) hn::StoreU(sums[i], d, to + i * p.sums_line);
    }
  }
}

// Steps of a depth block.
struct Depth {
  int64_t begin, end;
  bool last;
};

// What the products of a unit prefetch, a few lines each: the next unit's weights, and the lines of the
// output to which this unit's sums go.
struct Ahead {
  const char* weights = nullptr;
  int64_t weight_lines = 0, weights_per_product = 0;
  char* out = nullptr;  // of the first channel
  int64_t out_step = 0, out_lines = 0, channels = 0, place = 0, out_per_product = 0;

  HWY_INLINE void fetch() {
    const int64_t now = std::min(weight_lines, weights_per_product);
    for (int64_t i = 0; i < now; ++i, weights += kLineBytes) __builtin_prefetch(weights, 0, 2);
    weight_lines -= now;
    for (int64_t i = 0; i < out_per_product && channels > 0; ++i) {
      __builtin_prefetch(out + place * kLineBytes, 1, 2);
      if (++place < out_lines) continue;
      place = 0, out += out_step, --channels;
    }
  }
};

struct Worker {
  const Job& job;
  const Task& task;
  const Buffers& buffers;
  void (*multiply)(const Product&);
  const uint32_t* panel;
  float *sums, *run;
  Ahead ahead = {};
};

// Adds a depth block to one or two row tiles. sums: of the unit.
void MultiplyRows(Worker& w, const Group& group, const RowClass& rows, const Depth& depth,
                  const uint16_t* weights, int64_t row_tile, int64_t row_tiles, float* sums) {
  const int64_t laid_out = std::min<int64_t>(2, rows.row_tiles - row_tile);
  Product p;
  p.line = w.job.split.line;
  p.step = w.job.step_elements();
  p.offsets = w.job.offsets.data() + (w.job.out.taps - rows.taps);
  p.steps = depth.end - depth.begin;
  p.taps = rows.taps;
  p.row_tiles = std::max(row_tiles, laid_out);
  p.sums_line = w.job.sums_line();
  p.weights = weights + (row_tile * w.job.config.steps + depth.begin * laid_out) * rows.taps * kWeights;
  p.add = depth.begin > 0;
  for (int64_t column = group.begin; column < group.end; column += kColumns) {
    p.panel = w.panel + column;
    p.column_tiles = group.end - column > kTile ? 2 : 1;
    p.sums = sums + (rows.row_begin + row_tile * kTile) * p.sums_line + column - group.begin;
    w.ahead.fetch();
    w.multiply(p);
  }
}

void EmitUnit(const Worker& w, const Group& group, int64_t unit, const float* sums) {
  const Job& job = w.job;
  const int64_t first = unit * job.config.channels;
  const int64_t end = std::min(job.out_channels, first + job.config.channels);
  const auto* bias = static_cast<const BF16*>(w.buffers.bias);
  Phases p;
  p.sums = sums;
  p.sums_line = job.sums_line();
  p.dilation = job.out.dilation;
  p.residues = job.out.residues;
  p.first1 = job.classes[1].first;
  for (int64_t channel = first; channel < end; ++channel) {
    const int64_t of_all = w.task.group * job.out_channels + channel;
    p.row0 = (channel - first) * job.classes[0].residues;
    p.row1 = job.classes[1].row_begin + (channel - first) * job.classes[1].residues;
    p.bias = bias == nullptr ? 0.0f : widen(bias[of_all]);
    EmitChannel(job, w.task, group, p, static_cast<uint16_t*>(w.buffers.out) + of_all * job.out.lout, w.run);
  }
}

int64_t ProductsOf(const Worker& w, int64_t columns) {
  return core::ceil_div(w.job.unit_rows(), kRows) * core::ceil_div(columns, kColumns);
}

void FetchWeights(Worker& w, int64_t next, const uint16_t* weights, int64_t columns) {
  const int64_t bytes = w.job.unit_weights() * static_cast<int64_t>(sizeof(uint16_t));
  w.ahead.weights = reinterpret_cast<const char*>(weights) + bytes;
  w.ahead.weight_lines = next < w.task.unit_end ? std::min(bytes, kMostAhead) / kLineBytes : 0;
  w.ahead.weights_per_product = core::ceil_div(w.ahead.weight_lines, ProductsOf(w, columns));
}

// Only the outputs of the sample in which the group begins.
void FetchOutputs(Worker& w, const Group& group, int64_t unit) {
  const dense::Geometry& g = w.job.out;
  const int64_t first = unit * w.job.config.channels, column = w.task.column_begin + group.begin;
  const int64_t sample = column / w.job.split.period, q = g.q_first + column % w.job.split.period;
  const int64_t low = std::max<int64_t>(0, g.stride * q - g.padding);
  const int64_t high = std::min(g.lout, g.stride * (q + group.end - group.begin) - g.padding);
  w.ahead.channels = low < high ? std::min(w.job.config.channels, w.job.out_channels - first) : 0;
  const int64_t row = (sample * w.job.problem.groups + w.task.group) * w.job.out_channels + first;
  w.ahead.out = reinterpret_cast<char*>(static_cast<uint16_t*>(w.buffers.out) + row * g.lout + low);
  w.ahead.out_step = g.lout * static_cast<int64_t>(sizeof(uint16_t));
  w.ahead.out_lines = core::ceil_div((high - low) * static_cast<int64_t>(sizeof(uint16_t)), kLineBytes);
  w.ahead.place = 0;
  w.ahead.out_per_product =
      core::ceil_div(w.ahead.out_lines * w.ahead.channels, ProductsOf(w, group.end - group.begin));
}

void DoUnit(Worker& w, const Depth& depth, int64_t unit) {
  const Job& job = w.job;
  const Config& c = job.config;
  const uint16_t* weights = w.buffers.weights + (w.task.group * c.units + unit) * job.unit_weights();
  const int64_t channels = std::min(c.channels, job.out_channels - unit * c.channels);
  const int64_t columns = w.task.column_end - w.task.column_begin;
  float* sums =
      w.sums + (job.one_block() ? 0 : (unit - w.task.unit_begin) * job.unit_rows() * job.sums_line());
  if (job.one_block()) FetchWeights(w, unit + 1, weights, columns);
  for (Group group{0, 0}; group.begin < columns; group.begin = group.end) {
    group.end = std::min(columns, group.begin + c.group_columns);
    if (depth.last) FetchOutputs(w, group, unit);
    for (const RowClass& rows : job.classes) {
      const int64_t tiles = core::ceil_div(channels * rows.residues, kTile);
      for (int64_t tile = 0; tile < std::min(tiles, rows.row_tiles); tile += 2) {
        MultiplyRows(w, group, rows, depth, weights + rows.weights_begin, tile,
                     std::min<int64_t>(2, tiles - tile), sums);
      }
    }
    if (depth.last) EmitUnit(w, group, unit, sums);
  }
}

void Compute(const Job& job, const Task& task, const Buffers& b, bool tiles, float* scratch) {
  const Config& c = job.config;
  auto* panel = reinterpret_cast<uint32_t*>(scratch);
  auto* pair = reinterpret_cast<uint32_t*>(scratch + job.panel_elements());
  float* sums = scratch + job.panel_elements() + job.pair_elements();
  const auto* in = static_cast<const uint16_t*>(b.in) + task.group * job.in_channels * job.split.channel_step;
  Worker w{job, task, b, Multiply, panel, sums, sums + job.sum_elements()};
  for (int64_t step = 0; step < c.steps; step += c.block_steps) {
    const Depth depth{step, std::min(c.steps, step + c.block_steps), step + c.block_steps >= c.steps};
    const int32_t least = LoadPanel(job, task, depth.begin, depth.end, in, pair, panel);
    // False stays false: sums may have become too small for tiles.
    tiles = tiles && safe_in_tiles(b.least_weight, least);
    w.multiply = tiles ? multiply_in_tiles : Multiply;
    if (tiles) begin_tiles();
    for (int64_t unit = task.unit_begin; unit < task.unit_end; ++unit) DoUnit(w, depth, unit);
    if (tiles) end_tiles();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::amx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::amx {

HWY_EXPORT(Compute);
HWY_EXPORT(Multiply);

bool tiles_in_use() {
  return available() && simd::vector_bytes() == 64;
}

void multiply_in_vectors(const Product& product) {
  TCONV_DISPATCH(Multiply)(product);
}

void compute(const Job& job, const Task& task, const Buffers& buffers, float* scratch) {
  TCONV_DISPATCH(Compute)(job, task, buffers, tiles_in_use(), scratch);
}

}  // namespace tconv::cpu::amx
#endif
