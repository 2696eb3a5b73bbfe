// From the arguments of an operator to a problem and the pointers that a plan runs on. Everything is checked
// here, before memory is touched; a refusal is a std::runtime_error (Python's RuntimeError) that names the
// argument, its value and the rule.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>

#include "plan_cache.hpp"

namespace tconv::torch_binding {

using torch::stable::Tensor;

enum class Precision : int64_t { ieee = 0, tf32 = 1, ambient = 2 };  // ambient: as PyTorch is set now

// The numbers of conv_transpose1d.
struct Settings {
  int64_t stride, padding, output_padding, groups, dilation;
  Precision precision;
};

struct Operands {
  Tensor input;                // (n, cin, l) or (cin, l), any strides
  Tensor weight;               // (cin, cout/groups, k), contiguous
  std::optional<Tensor> bias;  // (cout), contiguous
  bool batched;
  int32_t dtype;  // PyTorch's number
  PlanKey key;
};

Operands check_operands(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                        const Settings& settings);

// Python's answer to "which float32 mode is set now", for Precision::ambient: 0 ieee, 1 tf32.
using PrecisionQuery = int (*)();

}  // namespace tconv::torch_binding

// Called once by the Python package. Without a query Precision::ambient is ieee.
extern "C" __attribute__((visibility("default"))) void tconv_torch_set_precision_query(
    tconv::torch_binding::PrecisionQuery query);
