// Recomputes outputs that a tile product with zeros around the input gets wrong: rare, hence scalar.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/amx/contract.hpp"
#include "cpu/common/storage.hpp"

namespace tconv::cpu::amx {
namespace {

using core::ceil_div;

// One output channel and residue.
struct OutputRow {
  const Job& job;
  int64_t channel, residue;  // the channel is numbered across groups

  const RowClass& rows() const { return job.classes[residue < job.classes[1].first ? 0 : 1]; }
  int64_t place(int64_t v) const {  // may be outside the output
    return job.out.stride * (job.out.q_first + v) + residue * job.out.dilation - job.out.padding;
  }
  // A shorter row has the last taps of the longest one.
  const strided::TapPlace& tap(int64_t j) const {
    return job.split.taps[static_cast<std::size_t>(job.out.taps - rows().taps + j)];
  }
  // The input that tap j of place v reads, or -1.
  int64_t input(int64_t v, int64_t j) const {
    const strided::TapPlace& t = tap(j);
    const int64_t at = job.split.stride * (v + t.shift) + t.phase;
    return at >= 0 && at < job.split.lout ? at : -1;
  }
  bool whole(int64_t v) const { return input(v, 0) >= 0 && input(v, rows().taps - 1) >= 0; }
  bool alone(int64_t v) const {
    for (int64_t j = 0; j < rows().taps; ++j) {
      if (input(v, j) >= 0) return false;
    }
    return true;
  }
};

float weight_at(const OutputRow& row, const uint16_t* weights, int64_t c, int64_t j) {
  const Job& job = row.job;
  const RowClass& rows = row.rows();
  const int64_t group = row.channel / job.out_channels, channel = row.channel % job.out_channels;
  const int64_t unit = channel / job.config.channels;
  const int64_t at = channel % job.config.channels * rows.residues + row.residue - rows.first,
                pair = at / kRows;
  const int64_t tiles = std::min<int64_t>(2, rows.row_tiles - 2 * pair);
  const int64_t tile =
      (2 * pair * job.config.steps + c / kStep * tiles) * rows.taps + j * tiles + at % kRows / kTile;
  const uint16_t* of_unit = weights + (group * job.config.units + unit) * job.unit_weights();
  return core::bf16_to_float(of_unit[rows.weights_begin + tile * kWeights + at % kTile * kStep + c % kStep]);
}

float sum_at(const OutputRow& row, const Buffers& b, int64_t sample, int64_t v) {
  const Job& job = row.job;
  const int64_t group = row.channel / job.out_channels;
  const auto* in = static_cast<const BF16*>(b.in) + sample * job.split.sample_step +
                   group * job.in_channels * job.split.channel_step;
  float sum = 0;
  for (int64_t c = 0; c < job.in_channels; ++c) {
    for (int64_t j = 0; j < row.rows().taps; ++j) {
      const int64_t at = row.input(v, j);
      if (at < 0) continue;
      sum = std::fma(weight_at(row, b.weights, c, j),
                     widen(in[c * job.split.channel_step + at * job.split.place_step]), sum);
    }
  }
  return sum;
}

// Calls f(row, place in columns, output) for all outputs of one channel that lie in y.
template <class F>
void for_outputs(const Job& job, int64_t channel, F f) {
  for (int64_t residue = 0; residue < job.out.residues; ++residue) {
    const OutputRow row{job, channel, residue};
    for (int64_t v = 0; v < job.out.q_count; ++v) {
      const int64_t o = row.place(v);
      if (o >= 0 && o < job.out.lout) f(row, v, o);
    }
  }
}

}  // namespace

void repair_ends(const Job& job, const Buffers& b, const core::Executor& executor) {
  const int64_t channels = job.problem.groups * job.out_channels;
  executor.run(job.out.n * channels, [&](int64_t index, int32_t) {
    const int64_t sample = index / channels, channel = index % channels;
    const float bias = job.out.has_bias ? widen(static_cast<const BF16*>(b.bias)[channel]) : 0.0f;
    BF16* to = static_cast<BF16*>(b.out) + index * job.out.lout;
    for_outputs(job, channel, [&](const OutputRow& row, int64_t v, int64_t o) {
      if (!row.whole(v)) to[o] = round_to<BF16>(sum_at(row, b, sample, v) + bias);
    });
  });
}

void store_bias_alone(const Job& job, const Buffers& b, const core::Executor& executor) {
  const int64_t channels = job.problem.groups * job.out_channels;
  if (!job.out.has_bias || !any_negative_zero<BF16>(b.bias, channels)) return;
  executor.run(job.out.n * channels, [&](int64_t index, int32_t) {
    const BF16 bias = static_cast<const BF16*>(b.bias)[index % channels];
    if (!is_negative_zero(bias)) return;
    BF16* to = static_cast<BF16*>(b.out) + index * job.out.lout;
    for_outputs(job, index % channels, [&](const OutputRow& row, int64_t v, int64_t o) {
      if (row.alone(v)) to[o] = bias;
    });
  });
}

}  // namespace tconv::cpu::amx
