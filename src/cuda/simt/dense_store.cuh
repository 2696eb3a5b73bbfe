// The epilogue of cuda.simt.dense: columns of sums, staged in shared memory, become pieces of y.
//
// A column is (cout, phase) and y wants the phases interleaved. The outputs of position u are
//   stride*u - padding + slot
// slot a for phase a, and bias alone in slots from phases.count on. If all phases of a channel are staged,
// its outputs over the tile's positions are one run of memory, which is stored 16 bytes at a time from the
// first aligned address on, whatever the row's alignment. Otherwise (more phases than staged columns, two
// classes, or skewed phases) outputs are stored one by one, phases fastest.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/simt/dense.hpp"

namespace tconv::cuda {

// Rows of a staged column are shuffled in chunks of 16 bytes, so that reading one row of neighbouring columns
// meets no bank conflict.
template <class Sum>
__device__ inline int staged_row(int row, int column) {
  return row ^ ((column & 7) * static_cast<int>(16 / sizeof(Sum)));
}

template <class Sum, int Rows, int Threads>
class DenseStore {
 public:
  __device__ DenseStore(const DenseParams& p, const DenseClass& kind, int64_t group, int64_t first_row,
                        const Sum* staged)
      : p_(p), k_(kind), group_(group), staged_(staged) {
    rows_ = static_cast<uint32_t>(p.rows - first_row < Rows ? p.rows - first_row : Rows);
    first_n_ = divide(first_row, p.phases.positions);
    first_u_ = first_row - first_n_ * p.phases.positions;
  }

  // Stores columns [first, first + count) of the group, which are the staged ones.
  template <class Out>
  __device__ void columns(Out* y, int first, int count) const {
    const int end = count < k_.columns - first ? first + count : k_.columns;
    int channel = first / k_.phases;
    for (int column = first; column < end;) {
      const int a = column - channel * k_.phases;
      const int whole = end / k_.phases - channel;  // channels with all their phases staged
      if (a == 0 && whole > 0) {
        if (p_.phases.interleaved && k_.phases == p_.phases.count) {
          runs(y, channel, whole, column - first);
        } else {
          one_by_one(y, channel, whole, 0, k_.phases, column - first);
        }
        channel += whole;
        column += whole * k_.phases;
      } else {
        const int b = min(k_.phases, a + end - column);
        one_by_one(y, channel, 1, a, b, column - first);
        ++channel;
        column += b - a;
      }
    }
  }

 private:
  __device__ Sum sum_at(int column, int row) const {
    return staged_[column * Rows + staged_row<Sum>(row, column)];
  }

  // `channels` channels from `channel` on, whose columns begin at staged column `column`. A run is one
  // channel of one sample. Samples are divided among groups of warps; the 16-byte pieces of a sample's runs,
  // which have equal lengths, among the threads of the group.
  template <class Out>
  __device__ void runs(Out* y, int channel, int channels, int column) const {
    const int samples = static_cast<int>(divide(first_u_ + rows_ - 1, p_.phases.positions)) + 1;
    int groups = 1;
    while (groups < Threads / 32 && groups < samples) groups *= 2;
    const int threads = Threads / groups, thread = threadIdx.x % threads;
    const int64_t cout = group_ * p_.cout_group + channel;
    for (int sample = threadIdx.x / threads; sample < samples; sample += groups) {
      // Rows [row, row + count) of the tile are positions [u, u + count) of this sample.
      const int64_t u = sample == 0 ? first_u_ : 0;
      const int row = sample == 0 ? 0 : static_cast<int>(sample * p_.phases.positions - first_u_);
      const int there = static_cast<int>(rows_) - row;
      const int count = p_.phases.positions - u < there ? static_cast<int>(p_.phases.positions - u) : there;
      const int64_t base = p_.phases.stride * (p_.phases.first + u) - p_.phases.padding;
      const int64_t begin = base < 0 ? 0 : base;
      const int64_t end = base + p_.phases.stride * count;
      const int length = static_cast<int>((end < p_.lout ? end : p_.lout) - begin);
      store_runs(y + ((first_n_ + sample) * p_.cout + cout) * p_.lout + begin, cout, channels, length,
                 static_cast<int>(begin - base), row, column, thread, threads);
    }
  }

  // Outputs [0, length) of each channel; the first is slot `skip` of tile row `row`.
  template <class Out>
  __device__ void store_runs(Out* y, int64_t cout, int channels, int length, int skip, int row, int column,
                             uint32_t thread, uint32_t threads) const {
    constexpr int kVector = Vector16<Out>::kSize;
    if (length <= 0) return;
    const uint32_t pieces = (length + 2 * kVector - 2) / kVector;  // enough for any alignment
    uint32_t c = thread / pieces, v = thread - c * pieces;
    const uint32_t c_step = threads / pieces, v_step = threads - c_step * pieces;
    for (; c < static_cast<uint32_t>(channels); c += c_step, v += v_step) {
      if (v >= pieces) {
        v -= pieces;
        if (++c >= static_cast<uint32_t>(channels)) break;
      }
      Out* out = y + c * p_.lout;
      const int i = static_cast<int>(v) * kVector - misalignment(out);
      store_piece(out, i, length, skip, row, column + static_cast<int>(c) * k_.phases,
                  epilogue_of<Out>(p_.bias, cout + c));
    }
  }

  // Outputs [i, i + a vector) of a run, as far as they exist. The vector's address is aligned; if the staged
  // sums are too, they are read as a vector.
  template <class Out>
  __device__ void store_piece(Out* out, int i, int length, int skip, int row, int column,
                              const Epilogue<Out>& finish) const {
    constexpr int kVector = Vector16<Out>::kSize;
    const int stride = static_cast<int>(p_.stride.value), phases = k_.phases;
    const uint32_t t = skip + (i < 0 ? 0 : i);
    int m = static_cast<int>(p_.stride.divide(t));
    int slot = static_cast<int>(t) - m * stride;
    m += row;
    Vector16<Out> values;
    if (stride == 1 && kVector == 16 / sizeof(Sum) && m % kVector == 0 && i >= 0 && i + kVector <= length) {
      const auto sums =
          *reinterpret_cast<const Vector16<Sum>*>(staged_ + column * Rows + staged_row<Sum>(m, column));
#pragma unroll
      for (int e = 0; e < kVector; ++e) values.v[e] = finish(sums.v[e % (16 / sizeof(Sum))]);
      *reinterpret_cast<Vector16<Out>*>(out + i) = values;
      return;
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      Sum value = finish.value_alone();
      if (i + e >= 0 && i + e < length) {
        if (slot < phases) value = finish.value(sum_at(column + slot, m));
        if (++slot == stride) {
          slot = 0;
          ++m;
        }
      }
      values.v[e] = DeviceRounding<Out>::round(value);
    }
    if (i >= 0 && i + kVector <= length) {
      *reinterpret_cast<Vector16<Out>*>(out + i) = values;
      return;
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (i + e >= 0 && i + e < length) out[i + e] = values.v[e];
    }
  }

  // Phases [a, b) of some channels. The last phase of an interleaved row includes the slots of bias alone.
  template <class Out>
  __device__ void one_by_one(Out* y, int channel, int channels, int a, int b, int column) const {
    const uint32_t phases = b - a, first = k_.first_phase + a;
    const bool last = p_.phases.interleaved && k_.first_phase + b == p_.phases.count;
    const uint32_t slots = last ? static_cast<uint32_t>(p_.phases.stride) - first : phases;
    const int64_t apart = p_.phases.interleaved ? 1 : p_.phases.dilation;
    const uint32_t each = slots * Rows;  // at most 2^30
    for (int c = 0; c < channels;) {
      // As many channels at once as 32 bits can count.
      const int now = min(channels - c, static_cast<int>((1u << 30) / each));
      for (uint32_t i = threadIdx.x; i < now * each; i += Threads) {
        const uint32_t q = i / slots, slot = i - q * slots, row = q % Rows, d = c + q / Rows;
        if (row >= rows_) continue;
        int64_t n = first_n_, u = first_u_ + row;
        if (u >= p_.phases.positions) {
          const int64_t samples = divide(u, p_.phases.positions);
          n += samples;
          u -= samples * p_.phases.positions;
        }
        const int64_t o =
            p_.phases.stride * (p_.phases.first + u) + (first + slot) * apart - p_.phases.padding;
        if (o < 0 || o >= p_.lout) continue;
        const int64_t cout = group_ * p_.cout_group + channel + d;
        const Epilogue<Out> finish = epilogue_of<Out>(p_.bias, cout);
        Sum value = finish.value_alone();
        if (slot < phases) value = finish.value(sum_at(column + d * phases + slot, row));
        y[(n * p_.cout + cout) * p_.lout + o] = DeviceRounding<Out>::round(value);
      }
      c += now;
    }
  }

  const DenseParams& p_;
  const DenseClass& k_;
  int64_t group_, first_n_, first_u_;
  uint32_t rows_;  // of the tile that exist
  const Sum* staged_;
};

}  // namespace tconv::cuda
