// Where units that were turned in shared memory lie (turned_stages.cuh, weight_turner.cuh).
#pragma once

#include <algorithm>

namespace tconv::cuda {

// Units of a stage lie so far apart that the 8 rows that stmatrix stores at once, neighbours in a row of x,
// meet different banks: 1 unit, then 2, ... of 16 bytes by the stride. With an odd one, phase and column then
// follow the position.
inline int turned_pitch(int columns, int stride) {
  constexpr int kRest[] = {0, 0, 4, 3, 2, 5, 7, 7, 1};
  const int rest = kRest[std::min(stride, 8)];
  return columns + ((rest - columns) % 8 + 8) % 8;
}

}  // namespace tconv::cuda
