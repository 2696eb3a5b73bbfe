// Float64 scalar loops for every operation, dtype and valid problem: the judge of the other kernels, and the
// last entry of the list.
//
// clang-format off
//   transposed:   y[n,co,o]    = bias[co] + sum_{ci,k} x[n,ci,i] * w[ci,co',k]     stride*i = o + padding - k*dilation
//   strided:      dx[n,ci,i]   = bias[ci] + sum_{co,k} dy[n,co,o] * w[ci,co',k]    o = stride*i - padding + k*dilation
//   weight:       dw[ci,co',k] = sum_{n,i} x[n,ci,i] * dy[n,co,o]                  the same o
//   bias:         db[co]       = sum_{n,o} dy[n,co,o]                              weight with a bias: both
// clang-format on
//
// Sums run in the order written, in float64, and are rounded once at the end.
#pragma once

#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::reference {

// Typed reads of a tensor's element as double, and a rounded write.
double load(core::DType dtype, const void* data, int64_t index);
void store(core::DType dtype, void* data, int64_t index, double value);

// One element of the operation's output, or at index output_elements() + c the gradient of a bias, before
// rounding, and the scale of its error bound.
struct Element {
  double value = 0;
  double magnitude = 0;  // |bias| + sum of |x*w| over the element's terms
  int64_t terms = 0;     // products, bias not counted
};
Element element_at(const core::Problem& problem, const plan::Operands& raw, int64_t index);

extern const plan::KernelEntry kEntry;  // "reference"

}  // namespace tconv::reference
