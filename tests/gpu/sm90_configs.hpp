// Configurations of cuda.sm90.dense that tests name.
#pragma once

#include <vector>

#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::gpu_test {

// Those in which x comes by tensor copies; not all of them fit.
inline std::vector<cuda::Sm90Config> tma_configs(const core::Problem& p) {
  std::vector<cuda::Sm90Config> configs;
  const cuda::Arithmetic mode = cuda::arithmetic_of(p);
  for (int tile = 0; tile < static_cast<int>(cuda::sm90_tiles().size()); ++tile) {
    for (const int way : {0, 1, 2}) {
      cuda::Sm90Config c;
      c.tile = tile;
      c.resident = way > 0;
      c.drawn = way == 2;
      c.scaled = cuda::sm90_scales(mode);
      if (cuda::sm90_tile(c).tma && cuda::sm90_has(mode, c.scaled, tile)) configs.push_back(c);
    }
  }
  return configs;
}

}  // namespace tconv::gpu_test
