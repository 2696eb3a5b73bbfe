// torch.nn.functional.conv1d as a problem of this library.
//
//   x (N, Cin, L)   w (Cout, Cin/groups, K)   bias (Cout)   y (N, Cout, Lout)
//   y[n,co,o] = bias[co] + sum over ci, k of x[n,ci,i] * w[co,ci,k]     i = stride*o - padding + dilation*k
//   Lout = floor((L + 2*padding - dilation*(K-1) - 1) / stride) + 1
//
// A strided product sees it the other way round: its y is Conv1d's x and its x is Conv1d's y. So cin and cout
// are exchanged, l is Conv1d's Lout, and output_padding is the remainder of the division. The weight keeps
// its memory layout.
#pragma once

#include <string_view>

#include "core/problem.hpp"

namespace tconv::core {

// What is computed for a Conv1d, and the operation that it is:
//
//   forward       strided        bias over cout, if there is one
//   grad_input    transposed     Conv1d's dy is x
//   grad_weight   weight         Conv1d's x is y, and its dy is x, which the gradient of a bias sums
//   grad_bias     bias           Conv1d's dy is y; the other sizes are 1
enum class Conv1dPass : int32_t { forward, grad_input, grad_weight, grad_bias };

const char* name_of(Conv1dPass pass);  // "conv1d", "conv1d_gx", "conv1d_gw", "conv1d_gb": words of the text

// call: the numbers of a Conv1d in its own terms, with output_padding 0; its operation is not read. x_stride
// and y_stride belong to Conv1d's x and y (or dy). Invalid calls are refused as by validate(), with the names
// of the call; the resulting problem is valid.
Result<Problem> conv1d_problem(const Problem& call, Conv1dPass pass);

}  // namespace tconv::core
