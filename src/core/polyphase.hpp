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
// Costs O(min(stride, lout) + K).
std::vector<Residue> residues_of(const Problem& problem);

int64_t floor_div(int64_t a, int64_t b);  // towards minus infinity, b > 0
inline int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

}  // namespace tconv::core
