// Which elements of an operand are special, and what they are: infinities, NaN, zeros of both signs and
// subnormal numbers. Their number and places are drawn anew for every problem and operand, because each
// density finds different bugs: a single infinite weight at the first or last tap exposes a product with a
// position outside x; many of them expose sums in which infinities meet.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace tconv::judge {

class Specials {
 public:
  Specials() = default;  // none
  // role as in fill_operand. The bias takes part; so does grad_output.
  Specials(const core::Problem& problem, uint64_t seed, int role);

  // Whether the element at place `inner` of its row (position, tap or channel) is special, and then its
  // value. bits: the element's random bits, which the ordinary value uses too.
  bool pick(uint64_t bits, int64_t inner, double& value) const;
  int64_t row() const { return row_; }  // elements of a row: inner lies in [0, row)

 private:
  double value_of(uint64_t bits) const;

  bool any_ = false;
  int64_t row_ = 1, edge_ = 0;       // elements of a row, and how many at either end count as near it
  double rate_ = 0, edge_rate_ = 0;  // share of infinities and NaN
  double small_rate_ = 0;            // share of zeros and subnormals
  int kinds_ = 0;                    // 0: Inf, -Inf and NaN; 1: Inf and -Inf; 2: Inf; 3: -Inf; 4: NaN
  int subnormal_ = -1070;            // exponent of subnormal values
};

}  // namespace tconv::judge
