#include "judge/special.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/polyphase.hpp"
#include "judge/fill.hpp"
#include "judge/rng.hpp"

namespace tconv::judge {
namespace {

using core::DType;
using core::Problem;

int64_t row_length(const Problem& p, int role) {
  const int64_t lengths[] = {p.l, p.k, p.bias_channels(), p.lout()};
  return std::max<int64_t>(1, lengths[role]);
}

// Elements at an end of a row whose products meet that end of x or of the taps.
int64_t edge_of(const Problem& p, int role) {
  const double reach = static_cast<double>(p.dilation) * static_cast<double>(p.k - 1);
  const double positions = role == 0 ? reach / static_cast<double>(p.stride) : role == 3 ? reach : 0;
  return 1 + static_cast<int64_t>(std::min(positions, 64.0));
}

// Large enough to keep tf32's 10 mantissa bits, so that rounding never turns an operand into zero.
int subnormal_exponent(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return -1030;
    case DType::f16:
      return -18;
    case DType::f32:
    case DType::bf16:
      return -128;
  }
  return 0;
}

}  // namespace

Specials::Specials(const Problem& p, uint64_t seed, int role)
    : row_(row_length(p, role)), edge_(edge_of(p, role)), subnormal_(subnormal_exponent(p.dtype)) {
  Rng rng(seed, 91 + static_cast<uint64_t>(role));
  any_ = rng.chance(role == 2 ? 40 : 70);
  // From one in five outputs that meet a special operand, to nearly all of them.
  const double terms = static_cast<double>(std::max<int64_t>(1, most_terms(p)));
  rate_ = rng.chance(30) ? 0 : rng.chance(70) ? rng.unit() / terms : 1.0 / 97;
  edge_rate_ = rng.chance(50) ? rate_ : std::min(0.5, 1 / std::sqrt(terms));
  if (role == 2) rate_ = edge_rate_ = 0.2;
  small_rate_ = rng.chance(50) ? 0 : 1.0 / 31;
  kinds_ = static_cast<int>(rng.between(0, 4));
}

bool Specials::pick(uint64_t bits, int64_t inner, double& value) const {
  if (!any_) return false;
  const uint64_t own = mix(bits + 0x632be59bd9b4e019u);  // the ordinary value uses the bits themselves
  const double unit = unit_of(own);
  const bool at_edge = inner < edge_ || inner >= row_ - edge_;
  const double rate = at_edge ? edge_rate_ : rate_;
  if (unit < rate) {
    value = value_of(own);
    return true;
  }
  if (unit >= 1 - small_rate_) {
    const double sizes[] = {0.0, -0.0, std::ldexp(1.25, subnormal_), -std::ldexp(1.5, subnormal_)};
    value = sizes[own % 4];
    return true;
  }
  return false;
}

double Specials::value_of(uint64_t bits) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  switch (kinds_) {
    case 0:
      return bits % 3 == 0 ? kNaN : bits % 3 == 1 ? kInfinity : -kInfinity;
    case 1:
      return bits % 2 == 0 ? kInfinity : -kInfinity;
    case 2:
      return kInfinity;
    case 3:
      return -kInfinity;
    default:
      return kNaN;
  }
}

}  // namespace tconv::judge
