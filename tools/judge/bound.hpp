// How far a right result may be from the float64 one, element by element.
//
// Let the exact sum have T products x*w and a bias, m = sum|x*w| + |bias|, and let the kernel add in any
// order with a relative error of at most u an addition (FMA or product first: the product's own rounding is
// one more). Then in the worst case
//     |sum - exact| <= ((1+u)^(T+1) - 1) * m  ~  (T+2) * u * m.
// Where additions round to nearest, their errors are as good as independent with mean zero, and the sum of T
// of them stays under lambda * sqrt(T) * u * m with a probability of 1 - 2T*exp(-lambda^2/2) (N. Higham and
// T. Mary, A new approach to probabilistic rounding error analysis, 2019). lambda is 8: one wrong verdict in
// more than 10^10 elements of 1000 terms. So
//     acc = c(T) * u * m + (T+2) * floor,   c(T) = T+2, and at most 8*sqrt(T+2) where rounding is unbiased,
// floor being the absolute error of an addition whose result is subnormal.
//
// tf32 changes a product by |x*w - r(x)*r(w)|, r rounding to nearest at 10 mantissa bits. The judge sums
// those very differences over the element's own operands (deviation), so that rounding passes and truncation,
// which is twice as far off on average and always to the same side, does not. Ties may go either way: of a
// product with such operands the largest difference counts. Tensor cores truncate where they add: there u is
// twice as large.
//
// One more rounding stores the result: half a unit in the last place of the storage dtype at that value. For
// f32 and f64 the last addition has done it.
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
  // Whether got is right. NaN and infinities must be there exactly where float64 has them; a value so near
  // the storage dtype's largest that it may round beyond may be infinite.
  bool right(double got, const Exact& exact) const;

 private:
  core::DType dtype_;
  double factor_, floor_;
};

}  // namespace tconv::judge
