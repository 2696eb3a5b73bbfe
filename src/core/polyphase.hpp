// The polyphase form of a transposed product. Everything that padding, dilation and stride mean to a kernel
// is derived from it: the loop nests of the CPU families and of the CUDA ones name these terms.
//
// With g = gcd(stride, dilation), every product of the operation is one of
//
//   for phase a in [0, count), tap j in [0, taps_of(a)), position u:
//     o = stride*u + a*dilation - padding        the output
//     i = u - j*step                             the input; outside [0, l) it counts as zero
//     k = a + j*tap_stride                       the weight
//
// so all phases read the same inputs, and a phase can be a row of a matrix product. An output o has at most
// one phase: the a with (o + padding - a*dilation) divisible by the stride. Outputs without one are bias
// alone.
//
// The strided product is the transpose: it reads y at these o and adds up for i.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace tconv::core {

// In closed form, over the whole range of valid problems: making one costs a few divisions.
struct Polyphase {
  explicit Polyphase(const Problem& problem);

  int64_t stride, dilation, padding, l, k;  // the problem's
  int64_t gcd;                              // of stride and dilation
  int64_t tap_stride;                       // stride/g: of k, from one tap of a phase to its next
  int64_t step;                             // dilation/g: of inputs, from one tap to the next
  int64_t count;                            // phases: min(K, tap_stride)
  int64_t taps;                             // of the longest phase, which is phase 0
  int64_t inverse;                          // of step modulo tap_stride

  int64_t taps_of(int64_t phase) const { return (k - 1 - phase) / tap_stride + 1; }
  // Phases below this one have `taps` taps, the others one less.
  int64_t longer() const { return k - (taps - 1) * tap_stride < count ? k - (taps - 1) * tap_stride : count; }

  // The phase of the outputs with o + padding = q; -1: none.
  int64_t phase_of(int64_t q) const;
  // The position u of phase a with stride*u + a*dilation = q, which the two must have.
  int64_t position_of(int64_t q, int64_t phase) const { return (q - phase * dilation) / stride; }

  // The taps of output o that meet x: tap k + j*tap_stride reads input i - j*step, j in [0, count).
  struct Taps {
    int64_t k = 0, i = 0, count = 0;
  };
  Taps taps_at(int64_t o) const;
};

// a with a*value = 1 modulo m, of coprime numbers; 0 where m is 1.
int64_t inverse_modulo(int64_t value, int64_t m);

// Towards minus infinity, b > 0.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

}  // namespace tconv::core
