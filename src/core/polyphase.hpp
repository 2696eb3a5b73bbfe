// The polyphase form of a problem: which taps meet which outputs.
//
// With o + padding = stride*Q + r, outputs of residue r are reached by tap k exactly where r - k*dilation is
// divisible by the stride; the input position is then Q + shift, shift = (r - k*dilation)/stride <= 0:
//
//   for each residue, t in [0, count):                       o = first + stride*t,   Q = q_first + t
//     y[co, o] = bias[co] + sum over (ci, tap) x[ci, Q + tap.shift] * w[ci, co, tap.k]
//
// x outside [0, L) counts as zero. Residues that are no multiple of gcd(stride, dilation) have no taps: those
// outputs are bias alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.hpp"

namespace tconv::core {

struct Tap {
  int64_t k;      // index into the weight
  int64_t shift;  // input position minus Q, zero or negative
};

struct Residue {
  int64_t r;              // (first + padding) mod stride
  int64_t first;          // its lowest output, which is also its place in the list
  int64_t q_first;        // Q of that output
  int64_t count;          // outputs: those of [0, lout) that are first + stride*t
  std::vector<Tap> taps;  // by rising k, hence falling shift
};

// The min(stride, lout) residues that occur, so that output o belongs to residues[o % stride].
// Costs O(min(stride, lout) + K): for tests and tables of a few thousand. Planning uses TapGrid.
std::vector<Residue> residues_of(const Problem& problem);

// The same in closed form, of one output at a time and over the whole range of valid problems. With g =
// gcd(stride, dilation), the taps of an output are every k_step-th from one below k_step on.
class TapGrid {
 public:
  explicit TapGrid(const Problem& problem);

  int64_t k_step() const { return k_step_; }  // stride/g: from a tap to the next
  int64_t x_step() const { return x_step_; }  // dilation/g: how far its input lies before

  // The lowest k >= 0, also beyond K, for which q - k*dilation is divisible by the stride; -1: none.
  int64_t first_tap(int64_t q) const;

  // The taps of output o that meet x: tap k + j*k_step reads input i - j*x_step, j in [0, count).
  struct Run {
    int64_t k = 0, i = 0, count = 0;
  };
  Run run_of(int64_t o) const;

 private:
  int64_t stride_, dilation_, padding_, l_, k_;
  int64_t gcd_, k_step_, x_step_;
  int64_t inverse_;  // of x_step modulo k_step
};

// a with a*value = 1 modulo m, of coprime numbers; 0 where m is 1.
int64_t inverse_modulo(int64_t value, int64_t m);

int64_t floor_div(int64_t a, int64_t b);  // towards minus infinity, b > 0
inline int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

}  // namespace tconv::core
