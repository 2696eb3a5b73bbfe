// Parameters of the kernel of planes.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/launch_order.hpp"

namespace tconv::cuda {

inline constexpr int kPlanesThreads = 256;

// planes[n][channel][phase][v] = from[n][channel][stride*v + dilation*phase - padding], zero outside of it.
struct PlanesParams {
  const void* from;
  void* to;
  int64_t from_step[3];      // sample, channel, position
  int64_t channels, length;  // of from
  int64_t stride, dilation, padding;
  int64_t rows, pitch;     // n * channels; elements of a plane, all of which are written
  int32_t phases, chunks;  // blocks that share them
  int32_t lanes, tiles;    // threads of a row, a power of two; blocks of its positions
  LaunchOrder order;
};

}  // namespace tconv::cuda
