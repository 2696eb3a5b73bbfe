#include "gradients.hpp"

#include <torch/csrc/stable/ops.h>

#include "launch.hpp"
#include "operands.hpp"
#include "pytorch_convolution.hpp"

namespace tconv::torch_binding {
namespace {

// The output, and what is read; the caller adds a second output and launches.
Tensor weight_output(const WeightOperands& o, tconv_arguments& a) {
  const tconv_problem& p = o.key.problem;
  const int64_t sizes[] = {p.cin, p.cout / p.groups, p.k};
  Tensor output = allocate("gradient of the weight", o.key, o.dtype, 3, sizes);
  tconv_arguments_init(&a);
  a.x = o.x.data_ptr();
  a.grad_output = o.y.data_ptr();
  a.output = output.data_ptr();
  return output;
}

}  // namespace

Tensor weight(const Tensor& input, const Tensor& grad, int64_t kernel_size, int64_t stride, int64_t padding,
              int64_t groups, int64_t dilation, int64_t precision) {
  const WeightOperands o =
      weight_operands(input, grad, kernel_size, {stride, padding, 0, groups, dilation, precision});
  const auto cached = plan_for(o.key);  // refuses what is invalid, of no elements too
  const tconv_problem& p = o.key.problem;
  if (o.x.numel() == 0 || o.y.numel() == 0) {  // which have no address
    return torch::stable::new_zeros(o.x, {p.cin, p.cout / p.groups, p.k});
  }
  if (cached->slow_path) return pytorch_weight(o.key, o.x, o.y);
  tconv_arguments a;
  Tensor output = weight_output(o, a);
  launch(o.key, *cached, a);
  return output;
}

Tensor bias(const Tensor& grad) {
  const BiasOperands o = bias_operands(grad);
  if (o.grad.numel() == 0) return pytorch_bias(o.grad);  // no address, and a problem has a position
  const auto cached = plan_for(o.key);
  if (cached->slow_path) return pytorch_bias(o.grad);
  Tensor output = allocate("gradient of the bias", o.key, o.dtype, 1, &o.key.problem.cout);
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.grad_output = o.grad.data_ptr();
  a.output = output.data_ptr();
  launch(o.key, *cached, a);
  return output;
}

std::tuple<Tensor, Tensor> weight_bias(const Tensor& input, const Tensor& grad, int64_t kernel_size,
                                       int64_t stride, int64_t padding, int64_t groups, int64_t dilation,
                                       int64_t precision, bool bias_of_input) {
  const Settings settings{stride, padding, 0, groups, dilation, precision};
  WeightOperands o = weight_operands(input, grad, kernel_size, settings);
  o.key.problem.grad_bias = bias_of_input ? TCONV_GRAD_BIAS_OF_X : TCONV_GRAD_BIAS_OF_Y;
  const auto cached = plan_for(o.key);
  // A tensor of no elements has no address; and the two calls choose by themselves what PyTorch computes.
  if (o.x.numel() == 0 || o.y.numel() == 0 || cached->slow_path) {
    return {weight(input, grad, kernel_size, stride, padding, groups, dilation, precision),
            bias(bias_of_input ? input : grad)};
  }
  tconv_arguments a;
  Tensor output = weight_output(o, a);
  const tconv_problem& p = o.key.problem;
  Tensor sums = allocate("gradient of the bias", o.key, o.dtype, 1, bias_of_input ? &p.cin : &p.cout);
  a.grad_bias = sums.data_ptr();
  launch(o.key, *cached, a);
  return {output, sums};
}

}  // namespace tconv::torch_binding
