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

// As tiles.hpp defines it, subnormals kept.
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

// The next unit's weights on their way to L2, some lines with every product.
struct Ahead {
  const char* at = nullptr;
  int64_t lines = 0, lines_per_product = 0;

  HWY_INLINE void fetch() {
    const int64_t now = std::min(lines, lines_per_product);
    for (int64_t i = 0; i < now; ++i, at += kLineBytes) __builtin_prefetch(at, 0, 2);
    lines -= now;
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

// All depth blocks of one or two row tiles. Weights of a block pass all columns before those of the next.
void MultiplyRows(Worker& w, const Group& group, const RowClass& rows, const uint16_t* weights,
                  int64_t row_tile, int64_t row_tiles) {
  const Config& c = w.job.config;
  const int64_t laid_out = std::min<int64_t>(2, rows.row_tiles - row_tile);
  Product p;
  p.line = w.job.split.line;
  p.step = w.job.step_elements();
  p.offsets = w.job.offsets.data() + (w.job.out.taps - rows.taps);
  p.taps = rows.taps;
  p.row_tiles = std::max(row_tiles, laid_out);
  p.sums_line = w.job.sums_line();
  for (int64_t step = 0; step < c.steps; step += c.block_steps) {
    p.steps = std::min(c.block_steps, c.steps - step);
    p.weights = weights + (row_tile * c.steps + step * laid_out) * rows.taps * kWeights;
    p.add = step > 0;
    for (int64_t column = group.begin; column < group.end; column += kColumns) {
      p.panel = w.panel + step * p.step + column;
      p.column_tiles = group.end - column > kTile ? 2 : 1;
      p.sums = w.sums + (rows.row_begin + row_tile * kTile) * p.sums_line + column - group.begin;
      w.ahead.fetch();
      w.multiply(p);
    }
  }
}

void EmitUnit(const Worker& w, const Group& group, int64_t unit) {
  const Job& job = w.job;
  const int64_t first = unit * job.config.channels;
  const int64_t end = std::min(job.out_channels, first + job.config.channels);
  const auto* bias = static_cast<const BF16*>(w.buffers.bias);
  Phases p;
  p.sums = w.sums;
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

Ahead AheadOf(const Worker& w, int64_t next, const uint16_t* weights) {
  Ahead ahead;
  if (next == w.task.unit_end) return ahead;
  const int64_t bytes = w.job.unit_weights() * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t tiles = w.job.unit_rows() / kTile, columns = w.task.column_end - w.task.column_begin;
  ahead.at = reinterpret_cast<const char*>(weights) + bytes;
  ahead.lines = std::min(bytes, kMostAhead) / kLineBytes;
  ahead.lines_per_product =
      core::ceil_div(ahead.lines, core::ceil_div(tiles, 2) * core::ceil_div(columns, kColumns));
  return ahead;
}

void DoUnit(Worker& w, int64_t unit) {
  const Job& job = w.job;
  const Config& c = job.config;
  const uint16_t* weights = w.buffers.weights + (w.task.group * c.units + unit) * job.unit_weights();
  w.ahead = AheadOf(w, unit + 1, weights);
  const int64_t channels = std::min(c.channels, job.out_channels - unit * c.channels);
  const int64_t columns = w.task.column_end - w.task.column_begin;
  for (Group group{0, 0}; group.begin < columns; group.begin = group.end) {
    group.end = std::min(columns, group.begin + c.group_columns);
    for (const RowClass& rows : job.classes) {
      const int64_t tiles = core::ceil_div(channels * rows.residues, kTile);
      for (int64_t tile = 0; tile < std::min(tiles, rows.row_tiles); tile += 2) {
        MultiplyRows(w, group, rows, weights + rows.weights_begin, tile, std::min<int64_t>(2, tiles - tile));
      }
    }
    EmitUnit(w, group, unit);
  }
}

void Compute(const Job& job, const Task& task, const Buffers& b, bool tiles, float* scratch) {
  auto* panel = reinterpret_cast<uint32_t*>(scratch);
  auto* pair = reinterpret_cast<uint32_t*>(scratch + job.panel_elements());
  float* sums = scratch + job.panel_elements() + job.pair_elements();
  const auto* in = static_cast<const uint16_t*>(b.in) + task.group * job.in_channels * job.split.channel_step;
  const int32_t least = LoadPanel(job, task, in, pair, panel);
  tiles = tiles && safe_in_tiles(b.least_weight, least);
  Worker w{job, task, b, tiles ? multiply_in_tiles : Multiply, panel, sums, sums + job.sum_elements()};
  if (tiles) begin_tiles();
  for (int64_t unit = task.unit_begin; unit < task.unit_end; ++unit) DoUnit(w, unit);
  if (tiles) end_tiles();
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
