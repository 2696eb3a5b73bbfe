// cuda.simt.bias: the bias gradient.
//
//   for channel, split of its elements (n, o):       a block
//     for elements, a thread each kBiasThreads-th:   one of kBiasSums sums in turn += dy[n,co,o]
//     a tree over the block's sums; the splits are added in order by a second kernel (ordered_sum.cuh)
//
// Elements are read one by one, so that neither the order of a sum depends on how rows are aligned nor is a
// row that begins anywhere slower.
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
  int64_t lout, cout, splits, elements, split_elements;  // elements: of a channel
};

using BiasFunction = void (*)(BiasParams);
BiasFunction bias_function(core::DType dtype);

}  // namespace simt
}  // namespace tconv::cuda
