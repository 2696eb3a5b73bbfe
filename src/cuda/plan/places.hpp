// How many blocks a GPU has at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device_info.hpp"

namespace tconv::cuda {

// Places for blocks in clusters of `cluster`, if an SM has room for `resident` of them.
//
// The blocks of a cluster share a GPC, whose SMs are no multiple of it. On an H200, clusters of 4 and 8 get
// 120 of 132 SMs for one block an SM; for two, 256 blocks in clusters of 8 do not fit either, take two waves
// and twice as long as 224. Blocks alone and in pairs get all places. Clusters of 3, 5, 6 and 7 get less: 240
// blocks in clusters of 5 took two waves as well. Which SMs a GPC lacks differs from one GPU to the next, and
// plans should not: hence shares.
inline int64_t block_places(const core::DeviceInfo& device, int64_t resident, int cluster) {
  const int64_t all = std::max(1, device.sm_count) * std::max<int64_t>(1, resident);
  if (cluster <= 2) return all;
  const int64_t percent = cluster % 4 == 0 ? 93 : 85;
  return std::max<int64_t>(1, all * percent / 100 / cluster) * cluster;
}

}  // namespace tconv::cuda
