// The tile shapes of cuda.simt.dense: what the planner chooses from, and what dense_types.cuh instantiates.
#pragma once

namespace tconv::cuda {

// The numbers of the cost model are fitted to the times of all tiles and splits on 45 layers (H200; the model
// is 12% off on average, and its choices at most 11% slower than the best ones; f64 by analogy).
struct DenseTile {
  const char* name;
  int rows, columns, threads;
  double full;    // share of the multiply-add rate of an SM that holds several blocks
  double lone;    // of that share, what a block alone on its SM reaches
  double cycles;  // of a block beside its products: first loads and stores
};

inline constexpr DenseTile kDenseTiles[] = {{"128x128", 128, 128, 256, 0.78, 0.81, 1950},
                                            {"128x64", 128, 64, 128, 0.64, 0.85, 1130},
                                            {"128x32", 128, 32, 128, 0.60, 0.69, 210},
                                            {"32x128", 32, 128, 128, 0.66, 0.75, 580}};
inline constexpr DenseTile kDenseTilesF64[] = {{"64x64", 64, 64, 128, 0.65, 0.75, 1000},
                                               {"64x32", 64, 32, 128, 0.55, 0.75, 500},
                                               {"32x64", 32, 64, 128, 0.55, 0.75, 500}};

}  // namespace tconv::cuda
