// What the kernels of cuda.simt.strided are told of a problem, however they cut the work.
#pragma once

#include <algorithm>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda::simt {

template <class Params>
void set_operands(Params& a, const core::Problem& p, const plan::Operands& operands) {
  a.dy = operands.grad_output, a.weight = operands.weight, a.dx = operands.output;
  a.bias = p.has_bias ? operands.bias : nullptr;
  std::ranges::copy(p.y_steps(), a.dy_step);
  a.l = p.l, a.lout = p.lout(), a.k = p.k;
  a.stride = p.stride, a.padding = p.padding, a.dilation = p.dilation;
  a.cin = p.cin, a.cin_group = p.cin_per_group(), a.cout_group = p.cout_per_group(), a.groups = p.groups;
}

}  // namespace tconv::cuda::simt
