// The gradients of weight and bias, of a conv_transpose1d and of a conv1d: operators of operators.cpp.
#pragma once

#include <tuple>

#include "views.hpp"

namespace tconv::torch_binding {

Tensor weight(const Tensor& input, const Tensor& grad, int64_t kernel_size, int64_t stride, int64_t padding,
              int64_t groups, int64_t dilation, int64_t precision);

Tensor bias(const Tensor& grad);

// Both in one call. bias_of_input: input is the gradient of a conv1d's output, and the bias sums it; else the
// bias sums grad.
std::tuple<Tensor, Tensor> weight_bias(const Tensor& input, const Tensor& grad, int64_t kernel_size,
                                       int64_t stride, int64_t padding, int64_t groups, int64_t dilation,
                                       int64_t precision, bool bias_of_input);

}  // namespace tconv::torch_binding
