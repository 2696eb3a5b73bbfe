#include "core/polyphase.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tconv::core {

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

std::vector<Residue> residues_of(const Problem& p) {
  const int64_t s = p.stride, lout = p.lout();
  const int64_t occurring = std::min(s, lout);  // a stride far beyond lout must not cost memory
  std::vector<Residue> residues(static_cast<std::size_t>(std::max<int64_t>(0, occurring)));
  for (int64_t first = 0; first < occurring; ++first) {
    const int64_t q = first + p.padding;
    residues[static_cast<std::size_t>(first)] = {q % s, first, q / s, ceil_div(lout - first, s), {}};
  }
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = k * p.dilation;
    const int64_t offset = reach % s - p.padding % s;
    const int64_t first = offset < 0 ? offset + s : offset;
    if (first < occurring) residues[static_cast<std::size_t>(first)].taps.push_back({k, -(reach / s)});
  }
  return residues;
}

int64_t inverse_modulo(int64_t value, int64_t m) {
  if (m == 1) return 0;
  int64_t r0 = m, r1 = value % m, t0 = 0, t1 = 1;  // |t| stays below m
  while (r1 != 0) {
    const int64_t quotient = r0 / r1;
    r0 = std::exchange(r1, r0 - quotient * r1);
    t0 = std::exchange(t1, t0 - quotient * t1);
  }
  return t0 < 0 ? t0 + m : t0;
}

TapGrid::TapGrid(const Problem& p)
    : stride_(p.stride),
      dilation_(p.dilation),
      padding_(p.padding),
      l_(p.l),
      k_(p.k),
      gcd_(std::gcd(p.stride, p.dilation)),
      k_step_(p.stride / gcd_),
      x_step_(p.dilation / gcd_),
      inverse_(inverse_modulo(x_step_, k_step_)) {}

int64_t TapGrid::first_tap(int64_t q) const {
  const int64_t r = q % stride_;
  if (r % gcd_ != 0) return -1;
  const auto product = static_cast<unsigned __int128>(r / gcd_) * static_cast<uint64_t>(inverse_);
  return static_cast<int64_t>(product % static_cast<uint64_t>(k_step_));
}

TapGrid::Run TapGrid::run_of(int64_t o) const {
  const int64_t q = o + padding_, farthest = (l_ - 1) * stride_;
  const int64_t first = first_tap(q), last = std::min(k_ - 1, q / dilation_);
  if (first < 0 || first > last) return {};
  // From the first tap whose input lies before l.
  const int64_t least = q > farthest ? ceil_div(q - farthest, dilation_) : 0;
  int64_t k = first;
  if (least > first) {
    const int64_t beyond = (least - first) % k_step_, ahead = beyond == 0 ? 0 : k_step_ - beyond;
    if (least > last || ahead > last - least) return {};
    k = least + ahead;
  }
  return {k, (q - k * dilation_) / stride_, (last - k) / k_step_ + 1};
}

}  // namespace tconv::core
