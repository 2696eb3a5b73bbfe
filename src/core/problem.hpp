// What is computed. A Problem is plain data; everything else in the library is a function of it.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   bias (Cout)   y (N, Cout, Lout)
//   y[n,co,o] = bias[co] + sum of x[n,ci,i] * w[ci, co mod (Cout/groups), k]
//               over ci in co's group and k with o + padding - k*dilation = stride*i, 0 <= i < L
//
// The same as torch.nn.functional.conv_transpose1d. Gradients are operations of the same problem: its sizes
// are always those of the forward call that they belong to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace tconv::core {

enum class Operation : int32_t { forward, grad_input, grad_weight, grad_bias };
enum class DType : int32_t { f32, f64, f16, bf16 };
enum class Precision : int32_t { ieee, tf32 };

std::size_t size_of(DType dtype);
const char* name_of(Operation operation);  // "fwd", "gx", "gw", "gb": the words of the text form
const char* name_of(DType dtype);          // "f32", ...
const char* name_of(Precision precision);  // "ieee", "tf32"

struct Problem {
  Operation operation = Operation::forward;
  DType dtype = DType::f32;
  Precision precision = Precision::ieee;
  bool has_bias = false;
  int64_t n = 1, cin = 0, cout = 0, l = 0, k = 0;
  int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
  // Steps of x in elements (sample, channel, position). Kept as given only where x_contiguous is false.
  bool x_contiguous = true;
  std::array<int64_t, 3> x_stride = {0, 0, 0};

  bool operator==(const Problem&) const = default;

  // The rest is for valid problems only.
  int64_t lout() const;
  int64_t cin_per_group() const { return cin / groups; }
  int64_t cout_per_group() const { return cout / groups; }
  std::array<int64_t, 3> x_steps() const;  // x_stride, or what contiguous means
  bool positions_contiguous() const { return x_steps()[2] == 1 || l == 1; }
  int64_t x_elements() const { return n * cin * l; }
  int64_t x_span() const;  // elements from the first to one past the last that x touches
  int64_t weight_elements() const { return cin * cout_per_group() * k; }
  int64_t y_elements() const { return n * cout * lout(); }
  int64_t output_elements() const;  // of the operation's own output
};

// Refuses what semantics forbid (Code::invalid_problem), naming the argument, its value and the rule; also
// whatever would overflow 63 bits in a size, an offset or a byte count.
Status validate(const Problem& problem);

// One-line text: words in any order, each at most once; canonical order is that of text().
//   [fwd|gx|gw|gb] n# ci# co# l# k# s# p# [op#] [d#] [g#] [bias] [xs#,#,#] f32|f64|f16|bf16 [tf32|ieee]
// ci, co, l and k must be there. parse(text(p)) == p for every p without negative numbers. parse does not
// validate.
Result<Problem> parse(std::string_view line);
std::string text(const Problem& problem);

// What a forward call does at least. A gradient of x or w does as many operations on as many bytes.
struct Work {
  double flops = 0;  // two per product that the formula has, products with padding left out
  double bytes = 0;  // every operand read once, the output written once
};
Work work_of(const Problem& problem);

}  // namespace tconv::core
