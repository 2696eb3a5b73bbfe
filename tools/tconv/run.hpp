// The request of tconv run, its arrays, and the problem that they form.
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
  std::string op = "transposed";
  std::string input, weight, bias, grad_output, output, grad_bias;
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

// The arrays that the operation reads; refuses files that it does not read and arrays that do not match.
Arrays read_arrays(const RunArguments& arguments);

// A valid problem. The problem of a gradient has the sizes of the forward call: sizes that its arrays do not
// show (the length of grad_input, the kernel size of grad_weight) follow from the length of the output. The
// arrays of a Conv1d move to the places that they have in the problem.
core::Problem problem_of(const RunArguments& arguments, Arrays& arrays);

}  // namespace tconv::cli
