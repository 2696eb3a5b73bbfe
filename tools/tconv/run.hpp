// What tconv run was asked for, its arrays, and the problem that they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "npy.hpp"

namespace tconv::cli {

// The names of --op.
const std::vector<std::string>& run_operations();

struct RunArguments {
  std::string op = "forward";
  std::string input, weight, bias, grad_output, output;
  std::string dtype, kernel, precision = "ieee", device = "cpu", simd;
  // What is not given keeps PyTorch's default.
  std::optional<int64_t> stride, padding, output_padding, dilation, groups;
  int threads = 0;
  bool json = false, no_clobber = false;
};

struct Arrays {
  Array x, weight, bias, grad_output;
  bool batched = true;
};

// The arrays that the operation reads; refuses files that it does not read, or that do not fit each other.
Arrays read_arrays(const RunArguments& arguments);

// Valid. A gradient's problem has the sizes of the forward call: what its arrays do not tell (the length of
// grad_input, the kernel size of grad_weight) follows from the output's length. Of a Conv1d, arrays change
// their places to those that they have in the problem.
core::Problem problem_of(const RunArguments& arguments, Arrays& arrays);

}  // namespace tconv::cli
