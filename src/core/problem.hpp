// What is computed. A Problem is plain data; everything else in the library is a function of it.
//
//   x (N, Cin, L)   w (Cin, Cout/groups, K)   y (N, Cout, Lout)   o = stride*i - padding + dilation*k
//
//   transposed   y[n,co,o]   = bias[co] + sum over ci, k of x[n,ci,i] * w[ci,co,k]
//   strided      x[n,ci,i]   = bias[ci] + sum over co, k of y[n,co,o] * w[ci,co,k]
//   weight       w[ci,co,k]  = sum over n, i of x[n,ci,i] * y[n,co,o]
//   bias         b[co]       = sum over n, o of y[n,co,o]
//
// weight with a bias computes both gradients: w, and b of the tensor that is the gradient of the output. That
// is y, or x where the problem belongs to a Conv1d (bias_of_x): b[ci] = sum over n, i of x[n,ci,i].
//
// co runs over the channels of ci's group, and the weight is indexed by co mod (Cout/groups). transposed is
// torch.nn.functional.conv_transpose1d, and the others are its gradients, where y is the gradient of its
// output. strided is also Conv1d, whose gradients are transposed, weight and bias (conv1d.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace tconv::core {

enum class Operation : int32_t { transposed, strided, weight, bias };
enum class DType : int32_t { f32, f64, f16, bf16 };
enum class Precision : int32_t { ieee, tf32 };

std::size_t size_of(DType dtype);
const char* name_of(Operation operation);  // "transposed", "strided", "weight", "dbias": words of the text
const char* name_of(DType dtype);          // "f32", ...
const char* name_of(Precision precision);  // "ieee", "tf32"

struct Problem {
  Operation operation = Operation::transposed;
  DType dtype = DType::f32;
  Precision precision = Precision::ieee;
  bool has_bias = false;   // of weight: its gradient is written too
  bool bias_of_x = false;  // of weight with a bias: that gradient sums x, else y
  int64_t n = 1, cin = 0, cout = 0, l = 0, k = 0;
  int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
  // Strides of x and y in elements (sample, channel, position), if the operation reads them. Kept as given
  // only if the tensor is not contiguous.
  bool x_contiguous = true, y_contiguous = true;
  std::array<int64_t, 3> x_stride = {0, 0, 0}, y_stride = {0, 0, 0};

  bool operator==(const Problem&) const = default;

  bool reads_x() const { return operation == Operation::transposed || operation == Operation::weight; }
  bool reads_y() const { return operation != Operation::transposed; }
  bool reads_weight() const { return operation == Operation::transposed || operation == Operation::strided; }
  bool reads_bias() const { return has_bias && reads_weight(); }
  bool writes_grad_bias() const { return has_bias && operation == Operation::weight; }

  // What follows is for valid problems only.
  int64_t lout() const;
  int64_t cin_per_group() const { return cin / groups; }
  int64_t cout_per_group() const { return cout / groups; }
  std::array<int64_t, 3> x_steps() const;  // x_stride, or the steps of a contiguous x
  std::array<int64_t, 3> y_steps() const;
  bool positions_contiguous() const { return x_steps()[2] == 1 || l == 1; }
  int64_t x_elements() const { return n * cin * l; }
  int64_t x_span() const;  // elements from the first that x touches to one past the last
  int64_t y_span() const;
  int64_t bias_channels() const { return operation == Operation::strided || bias_of_x ? cin : cout; }
  int64_t weight_elements() const { return cin * cout_per_group() * k; }
  int64_t y_elements() const { return n * cout * lout(); }
  int64_t output_elements() const;  // of the operation's own output
  int64_t grad_bias_elements() const { return writes_grad_bias() ? bias_channels() : 0; }
};

// The operation bias that a weight problem with a bias contains: its y is the tensor that is summed.
Problem grad_bias_of(const Problem& problem);

// Refuses problems that break a rule of the operation (Code::invalid_problem), naming the argument, its value
// and the rule, and problems in which a size, an offset or a byte count would overflow 63 bits.
Status validate(const Problem& problem);

// One-line text: words in any order, each at most once; canonical order is that of text().
//   [transposed|strided|weight|dbias] n# ci# co# l# k# s# p# [op#] [d#] [g#] [bias|xbias] [xs#,#,#]
//   [ys#,#,#] f32|f64|f16|bf16 [tf32|ieee]
// ci, co, l and k are required. parse(text(p)) == p for every p without negative numbers. parse does not
// validate, except for a line with conv1d, whose problem exists only if the line is valid.
Result<Problem> parse(std::string_view line);
std::string text(const Problem& problem);

// The least work that the operation takes; strided and weight take as much as transposed, except for the
// bias.
struct Work {
  double flops = 0;  // two for each product of the formula, without those with padding
  double bytes = 0;  // every operand read once, the output written once
};
Work work_of(const Problem& problem);

}  // namespace tconv::core
