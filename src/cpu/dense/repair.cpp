#include "cpu/dense/repair.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"

namespace tconv::cpu::dense {
namespace {

using core::ceil_div;

// One row of the packed weights: a cout of a group and a residue.
template <class A>
class PackedRow {
 public:
  PackedRow(const Geometry& g, const Config& c, const void* packed, int64_t group, int64_t cout,
            int64_t residue)
      : rows_(g.classes[residue < g.classes[1].first ? 0 : 1]), cin_(g.cin), tap_block_(c.tap_block) {
    const int64_t row = cout % c.cout_block * rows_.residues + residue - rows_.first;
    const int64_t block = cout / c.cout_block * rows_.blocks + row / kRows;
    at_ = static_cast<const A*>(packed) + group * packed_group_elements(g, c) + rows_.weight_offset +
          block * block_elements(g, rows_) + row % kRows;
  }
  int64_t taps() const { return rows_.taps; }
  A weight(int64_t ci, int64_t tap) const {
    const int64_t first = tap / tap_block_ * tap_block_;  // of the tap block
    const int64_t taps = std::min(tap_block_, rows_.taps - first);
    return at_[(first * cin_ + ci * taps + tap - first) * kRows];
  }

 private:
  const RowClass& rows_;
  int64_t cin_, tap_block_;
  const A* at_;
};

// The same row of raw weights.
template <class T>
class RawRow {
 public:
  RawRow(const Geometry& g, const void* weight, int64_t group, int64_t cout, int64_t residue)
      : taps_(g.classes[residue < g.classes[1].first ? 0 : 1].taps),
        channel_step_(g.cout * g.k),
        tap_step_(g.tap_step),
        at_(static_cast<const T*>(weight) + (group * g.cin * g.cout + cout) * g.k + residue) {}
  int64_t taps() const { return taps_; }
  Accumulator<T> weight(int64_t ci, int64_t tap) const {
    return widen(at_[ci * channel_step_ + tap * tap_step_]);
  }

 private:
  int64_t taps_, channel_step_, tap_step_;
  const T* at_;
};

template <class T, class A, class Row>
A sum_at(const Geometry& g, const Row& row, const T* x, int64_t q) {
  A sum = 0;
  for (int64_t ci = 0; ci < g.cin; ++ci) {
    for (int64_t tap = 0; tap < row.taps(); ++tap) {
      const int64_t i = q - tap * g.delta;
      if (i < 0) break;
      if (i >= g.l) continue;
      sum = std::fma(row.weight(ci, tap), widen(x[ci * g.x_steps[1] + i * g.x_steps[2]]), sum);
    }
  }
  return sum;
}

template <class T, class Row>
void repair_residue(const Geometry& g, const Row& row, int64_t residue, Accumulator<T> bias, const T* x,
                    T* y) {
  const int64_t base = residue * g.dilation - g.padding;
  const int64_t begin = ceil_div(-base, g.stride), end = ceil_div(g.lout - base, g.stride);
  const int64_t inner = std::clamp<int64_t>((row.taps() - 1) * g.delta, begin, std::max(begin, end));
  const int64_t outer = std::clamp<int64_t>(g.l, inner, std::max(inner, end));
  for (int64_t q = begin; q < end; ++q) {
    if (q == inner) q = outer;  // all taps inside x
    if (q < end) y[g.stride * q + base] = round_to<T>(sum_at<T, Accumulator<T>>(g, row, x, q) + bias);
  }
}

// One channel of one sample.
template <class T>
void repair_channel(const Geometry& g, const Config& c, const Buffers& b, int64_t sample, int64_t channel) {
  using A = Accumulator<T>;
  const int64_t group = channel / g.cout;
  const T* x = static_cast<const T*>(b.x) + sample * g.x_steps[0] + group * g.cin * g.x_steps[1];
  T* y = static_cast<T*>(b.y) + (sample * g.groups * g.cout + channel) * g.lout;
  const A bias = g.has_bias ? static_cast<A>(widen(static_cast<const T*>(b.bias)[channel])) : A(0);
  for (int64_t residue = 0; residue < g.residues; ++residue) {
    if (c.chunk_units > 0) {
      repair_residue<T>(g, RawRow<T>(g, b.weight, group, channel % g.cout, residue), residue, bias, x, y);
    } else {
      repair_residue<T>(g, PackedRow<A>(g, c, b.weight, group, channel % g.cout, residue), residue, bias, x,
                        y);
    }
  }
}

// One channel of one sample. Residues without taps have their bias already.
template <class T>
void store_alone(const Geometry& g, T bias, T* y) {
  for (int64_t residue = 0; residue < g.residues; ++residue) {
    const int64_t taps = g.classes[residue < g.classes[1].first ? 0 : 1].taps;
    const int64_t base = residue * g.dilation - g.padding;
    const int64_t begin = ceil_div(-base, g.stride), end = ceil_div(g.lout - base, g.stride);
    for (int64_t q = begin; q < end; ++q) {
      // The tap with the lowest position from 0 on.
      const bool product = q >= 0 && q - std::min(taps - 1, q / g.delta) * g.delta < g.l;
      if (!product) y[g.stride * q + base] = bias;
    }
  }
}

}  // namespace

void repair_ends(const Geometry& g, const Config& c, const Buffers& b, const core::Executor& executor) {
  const int64_t channels = g.groups * g.cout;
  executor.run(g.n * channels, [&](int64_t index, int32_t) {
    with_storage(g.dtype, [&](auto tag) {
      repair_channel<decltype(tag)>(g, c, b, index / channels, index % channels);
    });
  });
}

void store_bias_alone(const Geometry& g, const Buffers& b, const core::Executor& executor) {
  if (!g.has_bias) return;
  const int64_t channels = g.groups * g.cout;
  with_storage(g.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T* bias = static_cast<const T*>(b.bias);
    if (!any_negative_zero<T>(bias, channels)) return;
    executor.run(g.n * channels, [&](int64_t index, int32_t) {
      const T value = bias[index % channels];
      if (is_negative_zero(value)) store_alone(g, value, static_cast<T*>(b.y) + index * g.lout);
    });
  });
}

}  // namespace tconv::cpu::dense
