// Host side of depthwise.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtDepthwise;

namespace simt {

inline constexpr int kDepthwiseMaxCin = 8;

struct DepthwiseParams {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  int64_t x_sample, x_channel, x_position;  // strides of x
  int64_t l, lout, padding;
  int64_t cout, cout_per_group;
  int64_t rows, windows, tiles;  // n*cout, windows of a row, rows*windows
  int32_t cin_per_group, k;
  int32_t blocks_of_taps;  // ceil(ceil(k/S) / (R/S))
  int32_t pitch;           // shared floats a channel of x
  bool small;              // tiles < 2^31: indices are divided by multiplication
  Divisor by_windows, by_cout, by_cout_per_group;
};

// For f32, f16 and bf16, stride 1, 2, 4 or 8.
using DepthwiseFunction = void (*)(DepthwiseParams);
DepthwiseFunction depthwise_function(core::DType dtype, int64_t stride);

}  // namespace simt
}  // namespace tconv::cuda
