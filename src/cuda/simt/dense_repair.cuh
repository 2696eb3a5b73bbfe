// Recomputes outputs of cuda.simt.dense that became NaN, from the products that exist: the zeros that stand
// for positions outside x are not products, but make NaN of an infinite weight. Zero times infinity gives
// nothing else, so every output that is a number is correct.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/epilogue.cuh"
#include "cuda/simt/dense.hpp"

namespace tconv::cuda {

// Slabs in order: the taps of eight channels, then the next eight.
struct DenseCursor {
  int channel;  // first of the slab, in the group
  int tap;
  __device__ DenseCursor(const DenseClass& k, int slab)
      : channel(slab / k.taps * kSlabChannels), tap(slab % k.taps) {}
  __device__ bool advance(const DenseClass& k) {  // true: it went to the next channels
    if (++tap < k.taps) return false;
    tap = 0;
    channel += kSlabChannels;
    return true;
  }
};

template <class T>
class DenseRepair {
 public:
  using Sum = Accumulator<T>;

  // For class k, sums over slabs [first_slab, first_slab + slabs).
  __device__ DenseRepair(const DenseParams& p, const DenseClass& k, int64_t group, int first_slab, int slabs)
      : p_(p), k_(k), group_(group), first_slab_(first_slab), slabs_(slabs) {}

  // A column of the group at position m, counted over all samples. y: of type Out, or partial sums.
  template <class Out>
  __device__ void output(Out* y, int64_t m, int column) const {
    const Phases& f = p_.phases;
    if (m >= p_.rows || column >= k_.columns) return;
    const int64_t n = divide(m, f.positions), u = f.first + m - n * f.positions;
    const int co = column / k_.phases, phase = k_.first_phase + column - co * k_.phases;
    const int64_t o = f.stride * u + phase * f.dilation - f.padding;
    if (o < 0 || o >= p_.lout) return;
    const int64_t cout = group_ * p_.cout_group + co;
    Out* to = y + (n * p_.cout + cout) * p_.lout + o;
    const Sum now = widen(*to);
    if (now == now) return;
    *to = epilogue_of<Out>(p_.bias, cout)(sum(n, u, column));
  }

 private:
  __device__ Sum sum(int64_t n, int64_t u, int column) const {
    const T* x = static_cast<const T*>(p_.x) + n * p_.x_step[0] + group_ * p_.cin_group * p_.x_step[1];
    const T* packed =
        static_cast<const T*>(p_.packed) + k_.packed + group_ * k_.taps * p_.cin_group * k_.pitch + column;
    Sum sum = 0;
    DenseCursor at(k_, first_slab_);
#pragma unroll 1
    for (int slab = 0; slab < slabs_ && sum == sum; ++slab, at.advance(k_)) {
      const int64_t position = u - at.tap * p_.phases.step;
      if (position < 0 || position >= p_.l) continue;
      const int end = min(at.channel + kSlabChannels, p_.cin_group);
#pragma unroll 1
      for (int channel = at.channel; channel < end; ++channel) {
        const int64_t row = int64_t{at.tap} * p_.cin_group + channel;
        sum = fma(widen(__ldg(x + channel * p_.x_step[1] + position * p_.x_step[2])),
                  widen(__ldg(packed + row * k_.pitch)), sum);
      }
    }
    return sum;
  }

  const DenseParams& p_;
  const DenseClass& k_;
  int64_t group_;
  int first_slab_, slabs_;
};

}  // namespace tconv::cuda
