#include "cuda/sm80/pointwise_operands.hpp"

#include "cuda/sm80/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

int64_t address(const void* operand) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand) % 16);
}

// The widest copies that an operand's address allows.
int narrowed(int copy, const void* operand, int element) {
  return address(operand) % copy == 0 ? copy : pointwise_copy(address(operand), element);
}

}  // namespace

void set_pointwise_operands(PointwiseParams& params, const core::Problem& p, const plan::Operands& operands) {
  const auto element = static_cast<int>(size_of(p.dtype));
  params.x = p.operation == core::Operation::strided ? operands.grad_output : operands.x;
  params.y = operands.output;
  params.x_copy = narrowed(params.x_copy, params.x, element);
  params.x_shifted = params.x_copy < 4 && address(params.x) % 4 == 0;
  params.weight_copy = narrowed(params.weight_copy, params.weight, element);
  params.vectors = params.vectors && address(params.y) == 0;
}

}  // namespace tconv::cuda
