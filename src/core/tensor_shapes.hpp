// From the shapes of a call's tensors, as a framework has them, to a problem. The rules about how the
// tensors of a call fit together are here and nowhere else: every binding asks tconv_problem_from_shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/problem.hpp"

namespace tconv::core {

using Shape = std::span<const int64_t>;

struct TensorShapes {
  Shape input;                // (n, channels, length), or (channels, length): x of transposed, y of strided
  Shape weight;               // (cin, cout/groups, k)
  std::optional<Shape> bias;  // of as many elements as the output has channels
};

// `numbers` with n, cin, cout, l, k and has_bias from the shapes. Its operation is transposed or strided. A
// strided product has the given length, which decides output_padding; without one it has that of a Conv1d. A
// refusal names the framework's tensors; the resulting problem is valid.
Result<Problem> problem_of(const Problem& numbers, const TensorShapes& shapes, std::optional<int64_t> length);

// Sets output_padding so that p has an output of lout positions, for the operations that read y. All other
// sizes of p are set.
Status set_lout(Problem& p, int64_t lout);

}  // namespace tconv::core
