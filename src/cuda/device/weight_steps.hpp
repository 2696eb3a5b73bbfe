// Where a kernel of the transposed product finds a weight of the problem that the caller asked for, which may
// be a strided product in its transposed form (cuda/host/transposed_form.hpp).
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"

namespace tconv::cuda {

// Elements from one group, from one input channel and from one output channel to the next; and the index k
// that a tap of the form has: first + phase + step * tap, for input channels that are pairs (channel,
// phase), phase fastest.
struct WeightSteps {
  int64_t group, cin, cout;
  int32_t k, first, step, phases;
  Divisor phases_div;

#ifdef __CUDACC__
  // -1: there is no such tap.
  __device__ int64_t place(int64_t g, int ci, int64_t co, int tap) const {
    const int channel = static_cast<int>(phases_div.divide(static_cast<uint32_t>(ci)));
    const int at = first + ci - channel * phases + step * tap;
    return at < k ? g * group + channel * cin + co * cout + at : -1;
  }
#endif
};

// What the positions of planes are (cuda/device/planes.hpp), for sums that ask which products exist. There
// are no planes if phases is 0.
struct DeepTaps {
  int32_t phases, stride, dilation;
  int32_t k, first, step;  // as in WeightSteps
  int64_t padding, length;
  bool ragged;  // some phases lack a tap

#ifdef __CUDACC__
  __device__ bool has(int ci, int tap, int64_t position) const {
    if (phases == 0) return true;
    const int phase = ci % phases;
    const int64_t o = position * stride + int64_t{phase} * dilation - padding;
    return first + phase + step * tap < k && o >= 0 && o < length;
  }
#endif
};

}  // namespace tconv::cuda
