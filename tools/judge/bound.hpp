// How far a correct result may differ from the float64 result, element by element.
//
// Let the exact sum have T products x*w and a bias, m = sum|x*w| + |bias|, and let the kernel add in any
// order with a relative error of at most u for each addition (without FMA, rounding the product counts as one
// more). Then in the worst case
//     |sum - exact| <= ((1+u)^(T+1) - 1) * m  ~  (T+2) * u * m.
// If additions round to nearest, their errors are nearly independent with mean zero, and the sum of T of them
// stays below lambda * sqrt(T) * u * m with a probability of 1 - 2T*exp(-lambda^2/2) (N. Higham and T. Mary,
// A new approach to probabilistic rounding error analysis, 2019). With lambda = 8 fewer than one in 10^10
// elements of 1000 terms gets a wrong verdict. So
//     acc = c(T) * u * m + (T+2) * floor,   c(T) = T+2, and at most 8*sqrt(T+2) where rounding is unbiased,
// floor being the absolute error of an addition whose result is subnormal.
//
// tf32 changes a product by |x*w - r(x)*r(w)|, where r rounds to nearest at 10 mantissa bits. The judge sums
// exactly these differences over the element's own operands (deviation). So rounding passes, and truncation,
// whose error is twice as large on average and always has the same sign, does not. Ties may go either way:
// for a product of such operands the largest difference counts. Tensor cores truncate when they add, so u is
// twice as large for them.
//
// Storing the result rounds once more: half a unit in the last place of the storage dtype at that value. For
// f32 and f64 the last addition has already done so.
//     |y - exact| <= acc + deviation + half_ulp(|exact| + acc + deviation)
#pragma once

#include "core/problem.hpp"
#include "judge/target.hpp"

namespace tconv::judge {

struct Exact {  // one element in float64
  double value = 0;
  double magnitude = 0;  // |bias| + sum|x*w|
  double deviation = 0;  // sum of max|x*w - r(x)*r(w)|; 0 unless tf32 counts
};

double growth(double terms, const Arithmetic& arithmetic);  // c(T)
double half_ulp(core::DType dtype, double value);           // 0 for f32 and f64, see above
double largest(core::DType dtype);                          // largest finite value

// terms: the most products that any element of the problem has.
struct Bound {
  Bound(const core::Problem& problem, const Arithmetic& arithmetic, double terms);
  double of(const Exact& exact) const;
  // Whether got is correct. NaN and infinities must appear exactly where float64 has them. A value so close
  // to the largest one of the storage dtype that it may round beyond it may be infinite.
  bool right(double got, const Exact& exact) const;

 private:
  core::DType dtype_;
  double factor_, floor_;
};

}  // namespace tconv::judge
