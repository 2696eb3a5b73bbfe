// Host side of depthwise.cuh.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cuda/device/divisor.hpp"

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtDepthwise;

namespace simt {

inline constexpr int kDepthwiseMaxCin = 8;
inline constexpr int kDepthwiseThreads = 128, kDepthwiseSmallThreads = 32;
// Shared floats before a channel's first value, for the elements that its first word holds before it.
inline constexpr int kDepthwiseLead = 4;

struct DepthwiseParams {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  int64_t x_sample, x_channel, x_position;  // strides of x
  int64_t l, lout, padding;
  int64_t cout, cout_per_group;
  int64_t windows, parts;  // windows of a part, parts of a row; a block takes a part
  int64_t tiles;           // n*cout*parts
  int32_t cin_per_group, k;
  int32_t blocks_of_taps;  // ceil(ceil(k/S) / (R/S))
  int32_t values, words;   // of a window of x: needed, and words of 4 bytes that hold them at any alignment
  int32_t pitch;           // shared floats of a channel of x, kDepthwiseLead of them before the first value
  int32_t weights_pitch;   // shared floats of a channel of weights
  bool small;              // tiles < 2^31: indices are divided by multiplication
  Divisor by_parts, by_cout, by_cout_per_group;
};

// For f32, f16 and bf16, stride 1, 2, 4 or 8; in words (blocks of kDepthwiseThreads) or element by element
// (kDepthwiseSmallThreads).
using DepthwiseFunction = void (*)(DepthwiseParams);
DepthwiseFunction depthwise_function(core::DType dtype, int64_t stride, bool words);

}  // namespace simt
}  // namespace tconv::cuda
