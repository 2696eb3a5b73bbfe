#include "operands.hpp"

#include <torch/csrc/stable/ops.h>

#include <limits>
#include <string>

namespace tconv::torch_binding {
namespace {

void check_weight(const View& weight) {
  if (weight.dim == 3) return;
  refuse("weight has shape " + weight.shape() +
         ": it must be (in_channels, out_channels/groups, kernel_size)");
}

void check_channels(const View& moving, const View& weight, int64_t expected) {
  if (moving.channels() == expected) return;
  refuse("input has " + std::to_string(moving.channels()) + " channels (shape " + moving.shape() +
         "): weight of shape " + weight.shape() + " needs " + std::to_string(expected));
}

void check_bias(const View& bias, const View& weight, int64_t groups, int64_t channels) {
  if (bias.dim == 1 && bias.sizes[0] == channels) return;
  refuse("bias has shape " + bias.shape() + ": weight of shape " + weight.shape() + " and groups " +
         std::to_string(groups) + " need [" + std::to_string(channels) + "]");
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

// What y's length has beyond the least that x's length gives.
int64_t output_padding_of(const tconv_problem& p, int64_t y_length) {
  const __int128 least = static_cast<__int128>(p.l - 1) * p.stride - 2 * static_cast<__int128>(p.padding) +
                         static_cast<__int128>(p.dilation) * (p.k - 1) + 1;
  const __int128 rest = y_length - least;
  if (rest < 0 || rest > std::numeric_limits<int64_t>::max()) {
    refuse("length is " + std::to_string(p.l) + ": it does not belong to an input of length " +
           std::to_string(y_length));
  }
  return static_cast<int64_t>(rest);
}

Tensor dense(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

// On a GPU only the slow path sums a y with gaps: a copy costs less.
Tensor readable(const Tensor& y) {
  return View(y).on_cuda() ? dense(y) : y;
}

Operands with_weight(const Tensor& moving, const View& view, const Tensor& weight,
                     const std::optional<Tensor>& bias, const PlanKey& key) {
  return {moving,         dense(weight), bias ? std::optional<Tensor>(dense(*bias)) : std::nullopt,
          view.batched(), view.dtype,    key};
}

}  // namespace

Operands transposed_operands(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                             const Settings& settings) {
  const View input(x), w(weight);
  PlanKey key = key_of("input", input, settings.precision);
  check_same("weight", w, "input", input);
  check_dimensions("input", input);
  check_weight(w);
  check_channels(input, w, w.sizes[0]);
  tconv_problem& p = key.problem;
  p.n = input.batch();
  p.cin = w.sizes[0];
  p.cout = product("out_channels", w.sizes[1], settings.groups);
  p.l = input.length();
  p.k = w.sizes[2];
  set_numbers(p, settings);
  set_x(p, x, input);
  if (bias) {
    const View b(*bias);
    check_same("bias", b, "input", input);
    check_bias(b, w, settings.groups, p.cout);
    p.has_bias = 1;
  }
  return with_weight(x, input, weight, bias, key);
}

Operands strided_operands(const Tensor& y, const Tensor& weight, const std::optional<Tensor>& bias,
                          int64_t length, const Settings& settings) {
  const View input(y), w(weight);
  PlanKey key = key_of("input", input, settings.precision);
  check_same("weight", w, "input", input);
  check_dimensions("input", input);
  check_weight(w);
  tconv_problem& p = key.problem;
  p.operation = TCONV_STRIDED;
  p.n = input.batch();
  p.cin = w.sizes[0];
  p.cout = product("in_channels", w.sizes[1], settings.groups);
  check_channels(input, w, p.cout);
  p.l = length;
  p.k = w.sizes[2];
  set_numbers(p, settings);
  p.output_padding = output_padding_of(p, input.length());
  set_y(p, y, input);
  if (bias) {
    const View b(*bias);
    check_same("bias", b, "input", input);
    check_bias(b, w, settings.groups, p.cin);
    p.has_bias = 1;
  }
  return with_weight(y, input, weight, bias, key);
}

WeightOperands weight_operands(const Tensor& x, const Tensor& grad, int64_t kernel_size,
                               const Settings& settings) {
  const Tensor y = readable(grad);
  const View input(x), other(y);
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
  p.output_padding = output_padding_of(p, other.length());
  set_x(p, x, input);
  set_y(p, y, other);
  return {x, y, input.dtype, key};
}

BiasOperands bias_operands(const Tensor& given) {
  const Tensor grad = readable(given);
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

int64_t conv1d_length(const Tensor& input, const Tensor& weight, int64_t stride, int64_t padding,
                      int64_t dilation) {
  const View x(input), w(weight);
  check_dimensions("input", x);
  check_weight(w);
  if (stride < 1) refuse("stride is " + std::to_string(stride) + ": it must be 1 or more");
  if (padding < 0) refuse("padding is " + std::to_string(padding) + ": it must be 0 or more");
  const __int128 reach = static_cast<__int128>(dilation) * (w.sizes[2] - 1) + 1;
  const __int128 room = x.length() + 2 * static_cast<__int128>(padding) - reach;
  if (room < 0) {
    refuse("input has shape " + x.shape() + ": with padding " + std::to_string(padding) +
           " it is shorter than the kernel");
  }
  return static_cast<int64_t>(room / stride) + 1;
}

}  // namespace tconv::torch_binding
