// The rules that a transposed convolution and a Conv1d have in common. Both call their sizes n, cin, cout, l,
// k, stride, padding, output_padding, dilation and groups, so a refusal names what the caller passed.
#pragma once

#include <array>
#include <string>

#include "core/checked.hpp"
#include "core/problem.hpp"

namespace tconv::core {

inline constexpr int64_t kMaxBytes = Size::kLargest / 4;  // room for a kernel's own padding

Status refuse(const std::string& argument, int64_t value, const std::string& rule);
Status too_large(const char* what);

Status check_words(const Problem& p);   // operation, dtype, precision, xbias: whether they go together
Status check_ranges(const Problem& p);  // each number by itself, and groups with channels

// Outputs of a transposed product before padding is cut off at both ends; for numbers in their ranges.
Size full_length(const Problem& p);

// Refuses a product between x (n, cin, l) and y (n, cout, lout) whose tensors, or tables of them, are too
// large.
Status check_sizes(const Problem& p, int64_t lout);

// Steps of tensor `name`, of the given shape; operation is what the caller calls it.
Status check_steps(const Problem& p, const char* name, bool read, const std::string& operation,
                   const std::array<int64_t, 3>& shape, const std::array<int64_t, 3>& steps);

}  // namespace tconv::core
