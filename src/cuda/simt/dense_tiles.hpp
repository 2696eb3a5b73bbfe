// The tiles of cuda.simt.dense: what the planner chooses from, and what dense_types.cuh instantiates.
#pragma once

#include "cuda/device/fma_accumulator.hpp"

namespace tconv::cuda {

// Part of the cost model, fitted to the times of all tiles and splits on 45 layers (H200; the model is off by
// 12% on average, its choices are at most 11% slower than the best ones; f64 by analogy). `tconv bench
// --device cuda --kernel cuda.simt.dense` gives the times.
struct DenseRates {
  double full;    // share of the multiply-add rate that an SM with several blocks reaches
  double lone;    // the part of that share that a block alone on its SM reaches
  double cycles;  // cycles of a block beside its products: first loads and stores
};

struct DenseTile {
  const char* name;
  int rows, columns, thread_rows, thread_columns;
  int blocks;  // an SM
  DenseRates rates;

  constexpr FmaAccumulator map(int sum_bytes) const {
    return {rows, columns, thread_rows, thread_columns, 16 / sum_bytes};
  }
  constexpr int threads() const { return map(4).threads(); }
};

// clang-format off
inline constexpr DenseTile kDenseTiles[] = {
    // name     tile      a thread  blocks  full  lone  cycles
    {"128x128", 128, 128, 8, 8,     2,     {0.78, 0.81, 1950}},
    {"128x64",  128,  64, 8, 8,     3,     {0.64, 0.85, 1130}},
    {"128x32",  128,  32, 8, 4,     4,     {0.60, 0.69,  210}},
    {"32x128",   32, 128, 4, 8,     4,     {0.66, 0.75,  580}}};
inline constexpr DenseTile kDenseTilesF64[] = {
    {"64x64",    64,  64, 8, 4,     3,     {0.65, 0.75, 1000}},
    {"64x32",    64,  32, 4, 4,     3,     {0.55, 0.75,  500}},
    {"32x64",    32,  64, 4, 4,     3,     {0.55, 0.75,  500}}};
// clang-format on

}  // namespace tconv::cuda
