// The tile shapes of cuda.simt.dense: what the planner chooses from, and what dense_types.cuh instantiates.
#pragma once

namespace tconv::cuda {

struct DenseTile {
  const char* name;
  int rows, columns, threads;
  double efficiency;  // share of the multiply-add rate that full SMs reach, from the layers in tests/shapes
};

inline constexpr DenseTile kDenseTiles[] = {{"128x128", 128, 128, 256, 0.80},
                                            {"128x64", 128, 64, 128, 0.75},
                                            {"128x32", 128, 32, 128, 0.60},
                                            {"32x128", 32, 128, 128, 0.60}};
inline constexpr DenseTile kDenseTilesF64[] = {
    {"64x64", 64, 64, 128, 0.85}, {"64x32", 64, 32, 128, 0.70}, {"32x64", 32, 64, 128, 0.70}};

}  // namespace tconv::cuda
