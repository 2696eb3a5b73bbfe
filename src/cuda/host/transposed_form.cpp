#include "cuda/host/transposed_form.hpp"

#include <utility>

namespace tconv::cuda {

using core::Operation;
using core::Problem;

std::string no_transposed_form(const Problem& p) {
  if (p.operation == Operation::forward) return "";
  const std::string operation = std::string("operation ") + name_of(p.operation);
  if (p.operation != Operation::grad_input) {
    return operation + ": this kernel is for fwd, and for gx of stride 1";
  }
  if (p.stride != 1) return operation + " of stride " + std::to_string(p.stride) + ": for stride 1";
  return p.lout() < 1 ? operation + " of no outputs" : "";
}

Problem transposed_form(const Problem& p) {
  if (p.operation == Operation::forward) return p;
  Problem form = p;
  form.operation = Operation::forward;
  form.has_bias = false;
  std::swap(form.cin, form.cout);
  form.l = p.lout();
  form.padding = p.dilation * (p.k - 1) - p.padding;
  form.output_padding = -p.output_padding;
  form.x_contiguous = true;
  form.x_stride = {0, 0, 0};
  return form;
}

WeightSteps weight_steps(const Problem& p) {
  const int64_t group = p.cin_per_group() * p.cout_per_group() * p.k, row = p.cout_per_group() * p.k;
  if (p.operation == Operation::forward) return {0, group, row, p.k, 1};
  return {p.k - 1, group, p.k, row, -1};
}

const void* form_input(const Problem& p, const plan::Operands& operands) {
  return p.operation == Operation::forward ? operands.x : operands.grad_output;
}

}  // namespace tconv::cuda
