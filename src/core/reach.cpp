#include "core/reach.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"

namespace tconv::core {
namespace {

// Tiles give every position all taps of its residue, those outside x too. Where x is short and the kernel
// long, nearly all are outside: then loops over the products that exist are faster, however slow each of them
// is.
bool nearly_all_outside(const Problem& p) {
  if (p.operation == Operation::bias) return false;
  const int64_t taps = Polyphase(p).taps;
  const bool transposed = p.operation == Operation::transposed;
  const double multiplied = transposed ? static_cast<double>(p.lout()) * static_cast<double>(taps)
                                       : static_cast<double>(p.l) * static_cast<double>(p.k);
  constexpr double kAnyway = 1 << 22;
  if (multiplied <= kAnyway) return false;  // the usual case, kept short: every kernel of the list asks
  const double pairs_of_channels =
      static_cast<double>(p.n) * static_cast<double>(p.cin) * static_cast<double>(p.cout_per_group());
  const double products = work_of(p).flops / 2 / std::max(1.0, pairs_of_channels);
  return multiplied > 256 * products + kAnyway;
}

}  // namespace

std::string beyond_tiles(const Problem& p) {
  // How many positions tiles may reach beyond either end of x or of y.
  const Size reach = Size(std::max({p.l, p.padding, p.output_padding})) + (Size(p.l) + 1) * p.stride +
                     Size(p.k) * p.dilation;
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
      {"the third step of x times the positions", reach * p.x_steps()[2], kMost},
      {"the span of y", p.y_span(), kMost},
      {"the first step of y", p.y_steps()[0], kMost},
      {"the second step of y", p.y_steps()[1], kMost},
      {"the third step of y", p.y_steps()[2], kMost},
      {"the third step of y times the positions", reach * p.y_steps()[2], kMost},
  };
  for (const auto& rule : rules) {
    if (rule.value < rule.limit) continue;
    return std::string(rule.words) + ": " + (rule.limit == kMost ? "2^46" : "2^40") +
           " or more, beyond what tiles count";
  }
  return nearly_all_outside(p) ? "nearly all taps of an output lie outside x" : "";
}

}  // namespace tconv::core
