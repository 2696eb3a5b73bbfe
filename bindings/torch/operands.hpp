// From the arguments of an operator to a problem and the tensors that a plan runs on. Everything is checked
// here, before memory is touched.
#pragma once

#include <optional>

#include "views.hpp"

namespace tconv::torch_binding {

// The numbers of an operator, in the order of its schema. precision: of tconv_precision, or
// kAmbientPrecision.
struct Settings {
  int64_t stride, padding, output_padding, groups, dilation, precision;
};

// Of the products that read a weight: transposed (moving: x) and strided (moving: y).
struct Operands {
  Tensor moving;               // (n, channels, length) or (channels, length), any strides
  Tensor weight;               // (cin, cout/groups, k), contiguous
  std::optional<Tensor> bias;  // contiguous
  bool batched;
  int32_t dtype;  // PyTorch's number
  PlanKey key;
};

// settings.output_padding says which of the lengths that give y's is x's.
Operands transposed_operands(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                             const Settings& settings);
// length: of x, the output. settings.output_padding is not read: the lengths say it.
Operands strided_operands(const Tensor& y, const Tensor& weight, const std::optional<Tensor>& bias,
                          int64_t length, const Settings& settings);

struct WeightOperands {
  Tensor x, y;  // any strides; y on a GPU contiguous
  int32_t dtype;
  PlanKey key;
};
WeightOperands weight_operands(const Tensor& x, const Tensor& grad, int64_t kernel_size,
                               const Settings& settings);

struct BiasOperands {
  Tensor grad;
  int32_t dtype;
  PlanKey key;
};
BiasOperands bias_operands(const Tensor& grad);

// Length of conv1d's output.
int64_t conv1d_length(const Tensor& input, const Tensor& weight, int64_t stride, int64_t padding,
                      int64_t dilation);

}  // namespace tconv::torch_binding
