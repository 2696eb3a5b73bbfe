// From the arguments of an operator to a problem and the tensors that a plan runs on. Everything is checked
// before memory is touched: dtypes and devices here, shapes by the library.
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
struct ProductOperands {
  Tensor moving;               // (n, channels, length) or (channels, length), any strides
  Tensor weight;               // (cin, cout/groups, k), contiguous
  std::optional<Tensor> bias;  // contiguous
  bool batched;
  int32_t dtype;  // PyTorch's number
  PlanKey key;
};

// settings.output_padding says which of the lengths that give y's is x's.
ProductOperands transposed_operands(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                    const Settings& settings);
// length: of x, the output; without one it is that of a conv1d. settings.output_padding is 0: it follows from
// the lengths.
ProductOperands strided_operands(const Tensor& y, const Tensor& weight, const std::optional<Tensor>& bias,
                                 std::optional<int64_t> length, const Settings& settings);

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

}  // namespace tconv::torch_binding
