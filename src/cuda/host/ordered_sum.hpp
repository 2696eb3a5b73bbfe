// Queues the ordered sum of partial sums (cuda/device/ordered_sum.cuh).
#pragma once

#include "cuda/device/ordered_sum.hpp"
#include "cuda/host/launch.hpp"

namespace tconv::cuda {

// The type in which partial sums are held and added: the dtype's accumulation type, or float64.
enum class Parts { accumulator, float64 };

// For a transposed product whose partial sums are in the workspace: for each split, as many as y has
// elements. split.
FlatSumParams flat_sum_params(const core::Problem& problem, const plan::Operands& operands,
                              const void* workspace, int splits);

// For one row of `elements` outputs without a bias, such as a gradient.
FlatSumParams flat_sum_params(const void* partial, void* output, int64_t elements, int64_t splits);

// y (n, cout, lout) = bias + its partial sums, which lie like y. Without a bias, a tensor of any shape with
// as many elements. Sets the chunk.
core::Status sum_partials(const Launcher& launcher, core::DType dtype, Parts parts, FlatSumParams params);

// For partial sums in the workspace, in rows (cout, phase) of the polyphase form. params: without pointers,
// chunks and the divisors of rows.
core::Status sum_partials(const Launcher& launcher, const core::Problem& problem,
                          const plan::Operands& operands, const void* workspace, PhaseSumParams params);

// Which thread adds up an output: for partial sums in the order of `elements` outputs, for those in rows
// (n, cout), and for those of phases.
struct SumPosition {
  int64_t block;
  int thread, index;  // its index-th
  bool operator==(const SumPosition&) const = default;
};
SumPosition sum_position(int64_t elements, int64_t element);
SumPosition sum_position(int64_t rows, int64_t lout, int64_t row, int64_t o);
SumPosition sum_position(const PhaseSumParams& params, int64_t rows, int64_t row, int64_t o);

}  // namespace tconv::cuda
