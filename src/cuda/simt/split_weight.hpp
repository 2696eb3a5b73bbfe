// How the simt kernels of a weight gradient run: a grid of tiles and splits, then the splits' ordered sum.
#pragma once

#include "cuda/host/ordered_sum.hpp"

namespace tconv::cuda::simt {

// params: without pointers. One split stores dw itself.
template <class Params>
core::Status run_weight(const Launcher& launcher, core::DType dtype, void (*kernel)(Params), const Grid& grid,
                        Params params, const plan::Operands& operands, const plan::RunContext& context) {
  core::Status status = launcher.check(operands);
  if (!status.ok()) return status;
  params.x = operands.x;
  params.y = operands.grad_output;
  params.output = operands.output;
  params.parts = params.splits > 1 ? context.workspace : nullptr;
  status = launcher.run(kernel, grid, params);
  if (!status.ok() || params.splits == 1) return status;
  return sum_partials(launcher, dtype, Parts::accumulator,
                      flat_sum_params(params.parts, params.output, params.elements, params.splits));
}

}  // namespace tconv::cuda::simt
