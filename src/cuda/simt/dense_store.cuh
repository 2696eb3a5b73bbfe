// The epilogue of cuda.simt.dense: columns of sums that lie staged in shared memory become pieces of y.
//
// A column is (cout, phase) and y wants the phases interleaved: the outputs of position u are stride*u -
// padding
// + slot, slot a for phase a, slots from phases.count on bias alone. Where all phases of a channel are
// staged, its outputs over the tile's positions are one run of memory: stored 16 bytes at a time from the
// first aligned address on, whatever the row's alignment. Else (more phases than columns staged, or skewed
// phases) outputs are stored one by one, phases fastest.
#pragma once

#include "cuda/device/scalar.cuh"
#include "cuda/simt/dense.hpp"

namespace tconv::cuda {

// Rows of a staged column are shuffled by 16-byte chunks, so that reading neighbouring columns of one row
// meets no bank conflict.
template <class Sum>
__device__ inline int staged_row(int row, int column) {
  return row ^ ((column & 7) * static_cast<int>(16 / sizeof(Sum)));
}

template <class Sum, int Rows>
class DenseStore {
 public:
  __device__ DenseStore(const DenseParams& p, int64_t group, int64_t first_row, const Sum* staged)
      : p_(p), group_(group), staged_(staged) {
    rows_ = static_cast<int>(p.rows - first_row < Rows ? p.rows - first_row : Rows);
    first_n_ = first_row / p.phases.positions;
    first_u_ = first_row - first_n_ * p.phases.positions;
  }

  // Stores the group's columns [first, first + count), which are the staged ones.
  template <class Out>
  __device__ void columns(Out* y, int first, int count, int threads) const {
    const int end = count < p_.columns - first ? first + count : p_.columns;
    if (first >= end) return;
    const int64_t phases = p_.phases.count;
    const int64_t first_channel = first / phases, last_channel = (end - 1) / phases;
    for (int64_t channel = first_channel; channel <= last_channel;) {
      const int64_t a = channel == first_channel ? first - channel * phases : 0;
      const bool ends = (channel + 1) * phases <= end;
      if (p_.phases.interleaved && a == 0 && ends) {
        const int64_t whole = end / phases;  // channels [channel, whole) are staged with all phases
        runs(y, channel, static_cast<int>(whole - channel), static_cast<int>(channel * phases - first),
             threads);
        channel = whole;
      } else {
        const int64_t b = ends ? phases : end - channel * phases;
        one_by_one(y, channel, a, b, static_cast<int>(channel * phases + a - first), threads);
        ++channel;
      }
    }
  }

 private:
  __device__ Sum sum_at(int column, int row) const {
    return staged_[column * Rows + staged_row<Sum>(row, column)];
  }

  template <class Out>
  __device__ Sum bias_of(int64_t cout) const {
    return p_.bias == nullptr ? Sum(0) : widen(__ldg(static_cast<const Out*>(p_.bias) + cout));
  }

  // `channels` channels from `channel` on, whose columns begin at staged column `column`. A run is one
  // channel of one sample; a warp stores it, or the whole block where there are fewer runs than warps.
  template <class Out>
  __device__ void runs(Out* y, int64_t channel, int channels, int column, int threads) const {
    const int64_t positions = p_.phases.positions;
    const int samples = static_cast<int>((first_u_ + rows_ - 1) / positions) + 1;
    const int total = channels * samples, warps = threads / 32;
    const bool by_warp = total >= warps;
    const int lane = by_warp ? threadIdx.x % 32 : threadIdx.x, lanes = by_warp ? 32 : threads;
    for (int run = by_warp ? threadIdx.x / 32 : 0; run < total; run += by_warp ? warps : 1) {
      const int c = run / samples, sample = run - c * samples;
      // Rows [row, row + count) of the tile are positions [u, u + count) of this sample.
      const int row = sample == 0 ? 0 : static_cast<int>(sample * positions - first_u_);
      const int64_t u = sample == 0 ? first_u_ : 0;
      const int64_t left = positions - u;
      const int count = left < rows_ - row ? static_cast<int>(left) : rows_ - row;
      const int64_t cout = group_ * p_.cout_group + channel + c;
      const int64_t base = p_.phases.stride * (p_.phases.first + u) - p_.phases.padding;
      const int64_t begin = base < 0 ? 0 : base;
      int64_t end = base + p_.phases.stride * count;
      if (end > p_.lout) end = p_.lout;
      if (begin >= end) continue;
      Out* out = y + ((first_n_ + sample) * p_.cout + cout) * p_.lout + begin;
      store_run(out, static_cast<int>(end - begin), static_cast<int>(begin - base), row,
                column + c * static_cast<int>(p_.phases.count), bias_of<Out>(cout), lane, lanes);
    }
  }

  // Outputs out[0..length): the first one is slot `skip` of tile row `row`, counted on across rows.
  template <class Out>
  __device__ void store_run(Out* out, int length, int skip, int row, int column, Sum bias, int lane,
                            int lanes) const {
    constexpr int kVector = Vector16<Out>::kSize;
    const int head = misalignment(out);
    const int vectors = (length + head + kVector - 1) / kVector;
    const int stride = static_cast<int>(p_.stride.value), phases = static_cast<int>(p_.phases.count);
    for (int v = lane; v < vectors; v += lanes) {
      const int i = v * kVector - head;
      const uint32_t t = skip + (i < 0 ? 0 : i);
      int m = static_cast<int>(p_.stride.divide(t));
      int slot = static_cast<int>(t) - m * stride;
      m += row;
      Vector16<Out> values;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const bool inside = i + e >= 0 && i + e < length;
        Sum value = bias;
        if (inside) {
          if (slot < phases) value += sum_at(column + slot, m);
          if (++slot == stride) {
            slot = 0;
            ++m;
          }
        }
        values.v[e] = narrow<Out>(value);
      }
      if (i >= 0 && i + kVector <= length) {
        *reinterpret_cast<Vector16<Out>*>(out + i) = values;
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          if (i + e >= 0 && i + e < length) out[i + e] = values.v[e];
        }
      }
    }
  }

  // Phases [a, b) of one channel; with the last phase of an interleaved row go the slots of bias alone.
  template <class Out>
  __device__ void one_by_one(Out* y, int64_t channel, int64_t a, int64_t b, int column, int threads) const {
    const bool interleaved = p_.phases.interleaved;
    const uint32_t phases = static_cast<uint32_t>(b - a);
    const uint32_t slots =
        interleaved && b == p_.phases.count ? static_cast<uint32_t>(p_.phases.stride - a) : phases;
    const int64_t apart = interleaved ? 1 : p_.phases.dilation;
    const int64_t cout = group_ * p_.cout_group + channel;
    const Sum bias = bias_of<Out>(cout);
    for (uint32_t i = threadIdx.x; i < rows_ * slots; i += threads) {
      const uint32_t row = i / slots, slot = i - row * slots;
      int64_t n = first_n_, u = first_u_ + row;
      if (u >= p_.phases.positions) {
        n += u / p_.phases.positions;
        u %= p_.phases.positions;
      }
      const int64_t o = p_.phases.stride * (p_.phases.first + u) + (a + slot) * apart - p_.phases.padding;
      if (o < 0 || o >= p_.lout) continue;
      const Sum value = slot < phases ? bias + sum_at(column + slot, row) : bias;
      y[(n * p_.cout + cout) * p_.lout + o] = narrow<Out>(value);
    }
  }

  const DenseParams& p_;
  int64_t group_, first_n_, first_u_;
  int rows_;  // of the tile that exist
  const Sum* staged_;
};

}  // namespace tconv::cuda
