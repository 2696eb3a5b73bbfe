// Host side of depthwise_flat.cuh.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cuda/device/divisor.hpp"

namespace tconv::cuda::simt {

inline constexpr int kDepthwiseFlatThreads = 128;

// x, y and the weights have fewer than 2^31 elements, and so have positions: indices have 32 bits.
struct DepthwiseFlatParams {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  int64_t x_sample, x_channel, x_position;  // strides of x
  int64_t l, lout, padding;
  int64_t w_channel;  // weights of an input channel: cout_per_group*k
  // From one group's channels of x to the next's, and from behind its last row of weights for its first
  // channel to the next group's first.
  uint32_t x_group, w_group;
  int32_t total, past;  // elements of y, and from the last 16-byte boundary to its first
  int32_t n, cout, cout_per_group, cin_per_group;
  int32_t k, stride;
  int32_t taps, more;        // a residue has k/stride taps, the first k%stride residues have one more
  int32_t steps;             // taps of a channel that can meet x at one output, at most
  int32_t first_q, first_r;  // of output 0 of a row
  Divisor by_lout, by_cout, by_cout_per_group, by_stride;
};

using DepthwiseFlatFunction = void (*)(DepthwiseFlatParams);
// For f32, f16 and bf16, and rows of this length.
DepthwiseFlatFunction depthwise_flat_function(core::DType dtype, int64_t lout);

}  // namespace tconv::cuda::simt
