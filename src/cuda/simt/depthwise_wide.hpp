// Host side of depthwise_wide.cuh.
#pragma once

#include <cstdint>

#include "cuda/simt/depthwise_flat.hpp"

namespace tconv::cuda::simt {

inline constexpr int kDepthwiseWideThreads = 128;
inline constexpr int kDepthwiseWideCouts = 8;                          // of a thread
inline constexpr int kDepthwiseWideLong = 8, kDepthwiseWideShort = 2;  // outputs of each of them

struct DepthwiseWideParams {
  DepthwiseFlatParams flat;
  int32_t live;     // threads that have outputs, a multiple of the stride: a thread's own lie so far apart
  int32_t columns;  // positions q of these threads
  int32_t tiles;    // of a row's positions
  int32_t cout_blocks;  // of a group
  Divisor by_tiles, by_cout_blocks, by_groups;
};

using DepthwiseWideFunction = void (*)(DepthwiseWideParams);
// For f32, f16 and bf16; outputs: kDepthwiseWideLong or kDepthwiseWideShort.
DepthwiseWideFunction depthwise_wide_function(core::DType dtype, int64_t outputs);

}  // namespace tconv::cuda::simt
