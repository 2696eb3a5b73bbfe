// What happens to an element of x on its way into the product, on hosts and devices:
//
//   y = epilogue(sum of prologue(x, channel) * w)
//
// A kernel calls it once for each element that it loads, before it rounds, scales or splits the element. The
// result is rounded to x's storage type, so a fused product has the bits of one that reads a stored
// prologue(x). Beyond the ends of x there are zeros, which kernels cannot always tell from zeros of x: a
// prologue must keep zero (leaky ReLU and snake do), and says so by kKeepsZero.
#pragma once

#include <concepts>

#include "epilogue/epilogue.hpp"

namespace tconv::epilogue {

struct NoPrologue {
  static constexpr bool kKeepsZero = true;
  template <class V>
  TCONV_FUNCTOR V operator()(V v, int /*channel*/) const {
    return v;
  }
};

// channel: of x, of all its groups.
template <class P, class V>
concept PrologueSlot = P::kKeepsZero && requires(const P prologue, V v, int channel) {
  { prologue(v, channel) } -> std::same_as<V>;
};

}  // namespace tconv::epilogue
