#include "judge/bound.hpp"

#include <algorithm>
#include <cmath>

namespace tconv::judge {

using core::DType;

double growth(double terms, const Arithmetic& arithmetic) {
  const double worst = terms + 2;
  return arithmetic.unbiased ? std::min(worst, 8 * std::sqrt(worst)) : worst;
}

double half_ulp(DType dtype, double value) {
  if (dtype != DType::f16 && dtype != DType::bf16) return 0;
  const int digits = dtype == DType::f16 ? 11 : 8;  // of the mantissa, the leading one included
  const int lowest = dtype == DType::f16 ? -14 : -126;
  const int exponent = value == 0 ? lowest : std::max(lowest, std::ilogb(value));
  return std::ldexp(1.0, exponent - digits);
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1.fffffep127;
    case DType::f64:
      return 0x1.fffffffffffffp1023;
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
  }
  return 0;
}

Bound::Bound(const core::Problem& problem, const Arithmetic& arithmetic, double terms)
    : dtype_(problem.dtype),
      factor_(growth(terms, arithmetic) * arithmetic.unit * (arithmetic.tf32 ? 2 : 1)),
      floor_((terms + 2) * arithmetic.floor) {}

double Bound::of(const Exact& exact) const {
  const double sum = factor_ * exact.magnitude + floor_ + exact.deviation;
  return sum + half_ulp(dtype_, std::fabs(exact.value) + sum);
}

bool Bound::right(double got, const Exact& exact) const {
  if (std::isnan(exact.value)) return std::isnan(got);
  if (std::isinf(exact.value)) return got == exact.value;
  if (std::isnan(got)) return false;
  const double allowed = of(exact);
  if (std::isinf(got)) {
    return std::signbit(got) == std::signbit(exact.value) &&
           std::fabs(exact.value) + allowed > largest(dtype_);
  }
  return std::fabs(got - exact.value) <= allowed;
}

}  // namespace tconv::judge
