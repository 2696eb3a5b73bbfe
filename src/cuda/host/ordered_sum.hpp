// Queues the ordered sum of partial sums (cuda/device/ordered_sum.cuh).
#pragma once

#include "cuda/device/ordered_sum.hpp"
#include "cuda/host/launch.hpp"

namespace tconv::cuda {

// What partial sums are held in, and added in: what the dtype is summed in, or float64.
enum class Parts { accumulator, float64 };

// y (n, cout, lout) = bias + its partial sums, which lie as y does. Without a bias: any tensor of as many
// elements. Sets the chunk.
core::Status sum_partials(const Launcher& launcher, core::DType dtype, Parts parts, FlatSumParams params);

// Of partial sums in rows (cout, phase) of the polyphase form. Sets the chunks and the divisors of rows.
core::Status sum_partials(const Launcher& launcher, const core::Problem& problem, PhaseSumParams params);

}  // namespace tconv::cuda
