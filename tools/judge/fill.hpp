// What the operands hold. A value is a function of (seed, place in memory), so the data of a problem do not
// depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace tconv::judge {

enum class Fill {
  integers,  // small: every sum is exact in the accumulation, so the result must be the rounded exact one
  uniform,   // x in [-1, 1), weights of a usual initialisation's size
  positive,  // all above zero: errors that lean to one side add up
  spread,    // magnitudes over many powers of two: small operands count as much as large ones
  special    // uniform, with infinities, NaN, zeros and subnormals in any operand, more at its ends
             // (special.hpp)
};
const char* name_of(Fill fill);

// The most products that any element of the operation's output sums; of a weight problem, of the weight.
int64_t most_terms(const core::Problem& problem);

// Fills one operand. role: 0 x, 1 weight, 2 bias, 3 grad_output; data points at its first element. Elements
// between the strides, which no index reaches, are left unchanged.
void fill_operand(const core::Problem& problem, Fill fill, uint64_t seed, int role, void* data);

}  // namespace tconv::judge
