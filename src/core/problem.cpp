#include "core/problem.hpp"

#include <algorithm>

#include "core/polyphase.hpp"

namespace tconv::core {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f64:
      return 8;
    case DType::f16:
    case DType::bf16:
      return 2;
  }
  return 0;
}

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::forward:
      return "fwd";
    case Operation::grad_input:
      return "gx";
    case Operation::grad_weight:
      return "gw";
    case Operation::grad_bias:
      return "gb";
  }
  return "?";
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

const char* name_of(Precision precision) {
  return precision == Precision::tf32 ? "tf32" : "ieee";
}

int64_t Problem::lout() const {
  return (l - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1;
}

std::array<int64_t, 3> Problem::x_steps() const {
  if (x_contiguous) return {cin * l, l, 1};
  return x_stride;
}

int64_t Problem::x_span() const {
  if (n == 0) return 0;
  const auto steps = x_steps();
  return (n - 1) * steps[0] + (cin - 1) * steps[1] + (l - 1) * steps[2] + 1;
}

int64_t Problem::output_elements() const {
  switch (operation) {
    case Operation::forward:
      return y_elements();
    case Operation::grad_input:
      return x_elements();
    case Operation::grad_weight:
      return weight_elements();
    case Operation::grad_bias:
      return cout;
  }
  return 0;
}

// Inputs i for which stride*i + offset lies in [0, lout): a tap's share of the products.
static int64_t inputs_in_range(const Problem& p, int64_t k) {
  const int64_t offset = k * p.dilation - p.padding;
  const int64_t first = std::max<int64_t>(0, ceil_div(-offset, p.stride));
  const int64_t last = std::min(p.l - 1, floor_div(p.lout() - 1 - offset, p.stride));
  return std::max<int64_t>(0, last - first + 1);
}

Work work_of(const Problem& p) {
  const double element = static_cast<double>(size_of(p.dtype));
  const double x = static_cast<double>(p.x_elements()), y = static_cast<double>(p.y_elements());
  const double w = static_cast<double>(p.weight_elements());
  const double bias = p.has_bias ? static_cast<double>(p.cout) : 0.0;
  if (p.operation == Operation::grad_bias) return {y, element * (y + static_cast<double>(p.cout))};
  double products = 0;
  for (int64_t k = 0; k < p.k; ++k) products += static_cast<double>(inputs_in_range(p, k));
  products *= static_cast<double>(p.n) * static_cast<double>(p.cin) * static_cast<double>(p.cout_per_group());
  const bool forward = p.operation == Operation::forward;
  return {2 * products + (forward && p.has_bias ? y : 0.0), element * (x + y + w + (forward ? bias : 0.0))};
}

}  // namespace tconv::core
