// What the operators read from a tensor, and the rules that they share. A refusal is a std::runtime_error
// (Python's RuntimeError) that names the argument, its value and the rule.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <string>

#include "plans.hpp"

namespace tconv::torch_binding {

using torch::stable::Tensor;

// What an operator's precision may be beside tconv_precision's: as PyTorch is set now.
inline constexpr int64_t kAmbientPrecision = 2;

[[noreturn]] void refuse(const std::string& message);

struct View {
  explicit View(const Tensor& tensor);
  std::string shape() const;
  bool on_cuda() const;
  bool batched() const { return dim == 3; }
  int64_t batch() const { return batched() ? sizes[0] : 1; }
  int64_t channels() const { return sizes[dim - 2]; }
  int64_t length() const { return sizes[dim - 1]; }

  torch::headeronly::IntHeaderOnlyArrayRef sizes, strides;
  int64_t dim;
  int32_t dtype = 0, device_type = 0, device_index = 0;  // PyTorch's numbers
};

// A problem with its dtype, float32 mode, device and threads set, from the tensor that is an operator's
// first. precision: of tconv_precision, or kAmbientPrecision.
PlanKey key_of(const char* name, const View& first, int64_t precision);

void check_same(const char* name, const View& tensor, const char* first_name, const View& first);
void check_dimensions(const char* name, const View& tensor);  // (batch, channels, length) or without batch

// Python's answer to "which float32 mode is set now", for kAmbientPrecision: a tconv_precision.
using PrecisionQuery = int (*)();

}  // namespace tconv::torch_binding

// Called once by the Python package. Without a query kAmbientPrecision is TCONV_IEEE.
extern "C" __attribute__((visibility("default"))) void tconv_torch_set_precision_query(
    tconv::torch_binding::PrecisionQuery query);
