// Models of cost add what partly hides each other as the root of a sum of cubes.
#pragma once

namespace tconv::cuda::simt {

inline double cube(double v) {
  return v * v * v;
}

}  // namespace tconv::cuda::simt
