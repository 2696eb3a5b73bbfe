#include "core/reach.hpp"

#include <algorithm>

#include "core/checked.hpp"

namespace tconv::core {

std::string beyond_tiles(const Problem& p) {
  const struct {
    const char* words;
    Size value;
    int64_t limit;
  } rules[] = {
      {"stride times l", (Size(p.l) + 1) * p.stride, kFarthest},
      {"dilation times k", Size(p.k) * p.dilation, kFarthest},
      {"padding", p.padding, kFarthest},
      {"output_padding", p.output_padding, kFarthest},
      {"elements of x", Size(p.n) * p.cin * p.l, kMost},
      {"elements of y", Size(p.n) * p.cout * std::max<int64_t>(1, p.lout()), kMost},
      {"elements of the weight, over all groups", Size(p.cin) * p.cout * p.k, kMost},
      {"the span of x", p.x_span(), kMost},
      {"the first step of x", p.x_steps()[0], kMost},
      {"the second step of x", p.x_steps()[1], kMost},
      {"the third step of x", p.x_steps()[2], kMost},
  };
  for (const auto& rule : rules) {
    if (rule.value < rule.limit) continue;
    return std::string(rule.words) + ": " + (rule.limit == kMost ? "2^46" : "2^40") +
           " or more, beyond what tiles count";
  }
  return "";
}

}  // namespace tconv::core
