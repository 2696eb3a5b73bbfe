// cuda.simt.bias: the bias gradient.
//
//   for channel, split of its elements (n, o):       a block
//     for turn of kBiasThreads * kBiasSums elements:  each thread's kBiasSums sums += dy[n,co,o]
//     a tree over the block's sums; the splits are added in order by a second kernel (ordered_sum.cuh)
//
// Long rows without gaps are read by lines of 16 bytes, which begin on 16 bytes if the tensor does, and whose
// elements go to as many sums of a thread. The order of a sum depends on the problem alone: where the tensor
// begins elsewhere, elements are read one by one in the same order.
#pragma once

#include <cstdint>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

extern const plan::KernelEntry kSimtBias;

namespace simt {

inline constexpr int kBiasThreads = 256, kBiasSums = 8;

template <class T>
inline constexpr int kBiasLine = 16 / sizeof(T);  // elements of a line
// Rows that are read by lines, by single elements (long ones with gaps), or as all elements come (short
// ones).
enum class BiasRows { lines, elements, any };

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
// whole: lines begin on 16 bytes.
BiasFunction bias_function(core::DType dtype, BiasRows rows, bool whole);

}  // namespace simt
}  // namespace tconv::cuda
