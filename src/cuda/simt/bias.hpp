// cuda.simt.bias: the bias gradient.
//
//   for channel, split of its elements (n, o):       a block
//     for turn of kBiasThreads * kBiasSums elements:  each thread's kBiasSums sums += dy[n,co,o]
//     a tree over the block's sums; the splits are added in order by a second kernel (ordered_sum.cuh)
//
// Elements are read one by one, so that the order of a sum does not depend on the alignment of rows, and a
// row may begin anywhere at no cost.
#pragma once

#include <cstdint>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtBias;

namespace simt {

inline constexpr int kBiasThreads = 256, kBiasSums = 8;

struct BiasParams {
  const void* y;
  void* output;
  void* parts;  // null: one split
  int64_t y_step[3];
  int64_t lout, cout, elements;        // elements: in a channel
  int64_t splits, turns, split_turns;  // turns of a channel
  int64_t row_turns;                   // of a row, where rows are long
};

using BiasFunction = void (*)(BiasParams);
BiasFunction bias_function(core::DType dtype, bool long_rows);

}  // namespace simt
}  // namespace tconv::cuda
