// Host side of depthwise.cuh.
#pragma once

#include <cstdint>

#include "cuda/simt/types.hpp"
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
  Half half;
};

// By stride 1, 2, 4, 8; the 16-bit functions serve float16 and bfloat16.
using DepthwiseFunction = void (*)(DepthwiseParams);
DepthwiseFunction depthwise_function(int element_bytes, int64_t stride);

}  // namespace simt
}  // namespace tconv::cuda
