// The polyphase form (core/polyphase.hpp) as a table by output, and what it says about the ends of x.
//
// The outputs o = f + stride*t, f in [0, min(stride, lout)), belong to one phase, k0, and its position is t +
// offset:
//   y[co, f + stride*t] = bias[co] + sum over ci, j in [0, count) of
//                         x[ci, t + offset - j*x_step] * w[ci, co, k0 + j*k_step]
// k_step and x_step are the form's tap_stride and step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/executor.hpp"
#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cpu {

struct Residue {
  int64_t k0 = 0;
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Residue&) const = default;
};

struct Residues {
  int64_t k_step = 1, x_step = 1;
  int64_t lowest = 0, highest = 0;  // of x position minus t over all taps
  std::vector<Residue> table;       // by f

  std::size_t table_bytes() const { return table.capacity() * sizeof(Residue); }
};

Residues residues_of(const core::Problem& problem);

// Kernels stage x with zeros around it; a zero times an infinite or NaN weight is a NaN that the operation
// does not have. If weights are not finite, this recomputes, with raw weights, the outputs that have a tap
// outside x. This is rare, hence scalar.
void repair_ends(const core::Problem& problem, const Residues& residues, const plan::Operands& raw,
                 const core::Executor& executor);

// An output without any product is its bias, including -0.0. Sums that begin with the bias and add zeros
// around x lose that sign; if a bias is -0.0, this stores it.
void store_bias_alone(const core::Problem& problem, const Residues& residues, const plan::Operands& raw,
                      const core::Executor& executor);

}  // namespace tconv::cpu
