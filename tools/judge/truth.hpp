// The operation in float64, with what the error bound needs: all elements if that is affordable, otherwise
// elements sampled at corners, near the edges of tiles and at random. A weight problem's gradient of the bias
// counts as elements behind those of the weight.
#pragma once

#include <cstdint>
#include <vector>

#include "judge/bound.hpp"
#include "judge/rng.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::judge {

// Elements of all that the operation writes.
inline int64_t written_elements(const core::Problem& p) {
  return p.output_elements() + p.grad_bias_elements();
}

class Truth {
 public:
  // raw: host operands. tf32: deviations are wanted.
  static Truth all(const core::Problem& problem, const plan::Operands& raw, bool tf32);
  static Truth sampled(const core::Problem& problem, const plan::Operands& raw, bool tf32, Rng& rng);

  int64_t count() const { return static_cast<int64_t>(value_.size()); }
  int64_t index(int64_t i) const { return indices_.empty() ? i : indices_[static_cast<std::size_t>(i)]; }
  Exact at(int64_t i) const {
    const auto j = static_cast<std::size_t>(i);
    return {value_[j], magnitude_[j], deviation_.empty() ? 0 : deviation_[j]};
  }

 private:
  friend struct TruthMaker;
  std::vector<double> value_, magnitude_, deviation_;
  std::vector<int64_t> indices_;  // of sampled elements; empty: all
};

// One element straight from the formula: slow, and the reference for the fast loops in the tests.
Exact exact_at(const core::Problem& problem, const plan::Operands& raw, bool tf32, int64_t index);

// r(v) of bound.hpp: to nearest at 10 mantissa bits, ties away from zero. v is a float32 value.
double round_tf32(double v);
// The other nearest number if v lies halfway between two, otherwise the same one.
double other_tf32(double v);
// How far a product of operands that are rounded to tf32 is from the exact one, at most: ties go either way.
double deviation_tf32(double x, double w);

}  // namespace tconv::judge
