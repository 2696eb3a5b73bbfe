// The strided product of stride 1 as a transposed one, so that one kernel serves both: with o = i - p + d*k,
//
//   dx[n,ci,i] = sum over co, k of dy[n,co,o] * w[ci,co,k]
//
// is a transposed product of dy with the two sides' channels exchanged, taps in falling order and padding
// d*(K-1) - p, which may be negative. So may be the output padding, that of the problem's with the other
// sign, which makes the output as long as x is.
#pragma once

#include "core/problem.hpp"
#include "cuda/device/weight_steps.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

// Empty where a problem has such a form (or is one), else why not.
std::string no_transposed_form(const core::Problem& problem);

// The form as a problem, for the formulas of plans: its padding and output padding may be negative, which
// core::validate would refuse. A transposed product is its own.
core::Problem transposed_form(const core::Problem& problem);

// Of the form's channels and taps.
WeightSteps weight_steps(const core::Problem& problem);

// What the form has as x.
const void* form_input(const core::Problem& problem, const plan::Operands& operands);

}  // namespace tconv::cuda
