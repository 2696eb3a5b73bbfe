#include "operands.hpp"

#include <torch/csrc/stable/ops.h>

#include <string>

namespace tconv::torch_binding {
namespace {

// A refusal in the library's words.
void check(tconv_status status) {
  if (status != TCONV_OK) refuse(tconv_last_error());
}

int32_t count(const View& view) {
  return static_cast<int32_t>(view.dim);
}

void set_numbers(tconv_problem& p, const Settings& s) {
  p.stride = s.stride;
  p.padding = s.padding;
  p.output_padding = s.output_padding;
  p.dilation = s.dilation;
  p.groups = s.groups;
}

void set_strides(int64_t (&steps)[3], const View& view) {
  steps[0] = view.batched() ? view.strides[0] : 0;
  steps[1] = view.strides[view.dim - 2];
  steps[2] = view.strides[view.dim - 1];
}

void set_y(tconv_problem& p, const Tensor& tensor, const View& view) {
  if (tensor.is_contiguous()) return;
  p.y_strided = 1;
  set_strides(p.y_stride, view);
}

void set_x(tconv_problem& p, const Tensor& tensor, const View& view) {
  if (tensor.is_contiguous()) return;
  p.x_contiguous = 0;
  set_strides(p.x_stride, view);
}

Tensor dense(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

// moving: x of the transposed product, y of the strided one.
ProductOperands with_weight(int32_t operation, const Tensor& moving, const Tensor& weight,
                            const std::optional<Tensor>& bias, std::optional<int64_t> length,
                            const Settings& settings) {
  const View input(moving), w(weight);
  PlanKey key = key_of("input", input, settings.precision);
  check_same("weight", w, "input", input);
  std::optional<View> b;
  if (bias) check_same("bias", b.emplace(*bias), "input", input);
  tconv_problem& p = key.problem;
  p.operation = operation;
  set_numbers(p, settings);
  check(tconv_problem_from_shapes(&p, input.sizes.data(), count(input), w.sizes.data(), count(w),
                                  b ? b->sizes.data() : nullptr, b ? count(*b) : -1, length.value_or(-1)));
  if (operation == TCONV_FORWARD) {
    set_x(p, moving, input);
  } else {
    set_y(p, moving, input);
  }
  return {moving,          dense(weight), bias ? std::optional<Tensor>(dense(*bias)) : std::nullopt,
          input.batched(), input.dtype,   key};
}

}  // namespace

ProductOperands transposed_operands(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                    const Settings& settings) {
  return with_weight(TCONV_FORWARD, x, weight, bias, std::nullopt, settings);
}

ProductOperands strided_operands(const Tensor& y, const Tensor& weight, const std::optional<Tensor>& bias,
                                 std::optional<int64_t> length, const Settings& settings) {
  if (length && *length < 0) refuse("length is " + std::to_string(*length) + ": it must be 1 or more");
  return with_weight(TCONV_STRIDED, y, weight, bias, length, settings);
}

WeightOperands weight_operands(const Tensor& x, const Tensor& grad, int64_t kernel_size,
                               const Settings& settings) {
  const View input(x), other(grad);
  PlanKey key = key_of("input", input, settings.precision);
  check_same("grad", other, "input", input);
  check_dimensions("input", input);
  check_dimensions("grad", other);
  if (input.dim != other.dim || input.batch() != other.batch()) {
    refuse("grad has shape " + other.shape() + " and input " + input.shape() + ": they must have one batch");
  }
  tconv_problem& p = key.problem;
  p.operation = TCONV_GRAD_WEIGHT;
  p.n = input.batch();
  p.cin = input.channels();
  p.cout = other.channels();
  p.l = input.length();
  p.k = kernel_size;
  set_numbers(p, settings);
  check(tconv_problem_set_output_length(&p, other.length()));
  set_x(p, x, input);
  set_y(p, grad, other);
  return {x, grad, input.dtype, key};
}

BiasOperands bias_operands(const Tensor& grad) {
  const View y(grad);
  PlanKey key = key_of("grad", y, TCONV_IEEE);
  check_dimensions("grad", y);
  tconv_problem& p = key.problem;
  p.operation = TCONV_GRAD_BIAS;
  p.n = y.batch();
  p.cin = 1;
  p.cout = y.channels();
  p.l = y.length();
  p.k = 1;
  set_y(p, grad, y);
  return {grad, y.dtype, key};
}

}  // namespace tconv::torch_binding
