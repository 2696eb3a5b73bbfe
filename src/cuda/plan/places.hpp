// How many blocks a GPU has at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device_info.hpp"
#include "core/polyphase.hpp"

namespace tconv::cuda {

// Places for blocks in clusters of `cluster`, if an SM has room for `resident` of them.
//
// All blocks of a cluster must be in one GPC, and a GPC's places do not divide evenly into clusters. On an
// H200 with one block an SM, clusters of 4 and 8 can use only 120 of the 132 SMs; with two, 256 blocks in
// clusters of 8 need a second wave. Clusters of 3, 5, 6 and 7 can use fewer still: with two blocks an SM, 240
// blocks in clusters of 5 need a second wave. Single blocks and pairs can use all places. Which SMs a GPC
// lacks differs from one GPU to the next, but plans should not: hence fixed shares.
inline int64_t block_places(const core::DeviceInfo& device, int64_t resident, int cluster) {
  const int64_t all = std::max(1, device.sm_count) * std::max<int64_t>(1, resident);
  if (cluster <= 2) return all;
  const int64_t percent = cluster % 4 == 0 ? 93 : 85;
  return std::max<int64_t>(1, all * percent / 100 / cluster) * cluster;
}

// Blocks that share the columns of each of `rows`, tiles of columns in turn: as many as all have places at
// once; or more, which begin as others end, where fewer tiles then follow one another. (With 132 places and
// 86 rows of 11 tiles, 11 follow one another with one block a row, and 8 with three.) To start a block costs
// about as much as a tile.
inline int64_t walkers_of(int64_t rows, int64_t places, int64_t tiles) {
  constexpr int64_t kMostWaves = 8;
  const auto evenly = [&](int64_t most) {
    return core::ceil_div(tiles, core::ceil_div(tiles, std::max<int64_t>(1, most)));
  };
  const auto turns = [&](int64_t walkers) {
    return core::ceil_div(rows * walkers, places) * (core::ceil_div(tiles, walkers) + 1);
  };
  int64_t best = evenly(places / rows), best_turns = turns(best);
  for (int64_t wave = 2; wave <= kMostWaves; ++wave) {
    const int64_t most = wave * places / rows, walkers = evenly(most), its_turns = turns(walkers);
    if (15 * its_turns < 14 * best_turns) best = walkers, best_turns = its_turns;
    if (most >= tiles) break;  // more have no tile
  }
  return best;
}

}  // namespace tconv::cuda
