#include "core/polyphase.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tconv::core {

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

Polyphase::Polyphase(const Problem& p)
    : stride(p.stride),
      dilation(p.dilation),
      padding(p.padding),
      l(p.l),
      k(p.k),
      gcd(std::gcd(p.stride, p.dilation)),
      tap_stride(p.stride / gcd),
      step(p.dilation / gcd),
      count(std::min(p.k, tap_stride)),
      taps(ceil_div(p.k, tap_stride)),
      inverse(inverse_modulo(step, tap_stride)) {}

int64_t Polyphase::phase_of(int64_t q) const {
  const int64_t r = q % stride;
  if (r % gcd != 0) return -1;
  const auto product = static_cast<unsigned __int128>(r / gcd) * static_cast<uint64_t>(inverse);
  const auto phase = static_cast<int64_t>(product % static_cast<uint64_t>(tap_stride));
  return phase < count ? phase : -1;
}

Polyphase::Taps Polyphase::taps_at(int64_t o) const {
  const int64_t q = o + padding, farthest = (l - 1) * stride;
  const int64_t first = phase_of(q), last = std::min(k - 1, q / dilation);
  if (first < 0 || first > last) return {};
  // From the first tap whose input lies before l.
  const int64_t least = q > farthest ? ceil_div(q - farthest, dilation) : 0;
  int64_t from = first;
  if (least > first) {
    const int64_t beyond = (least - first) % tap_stride, ahead = beyond == 0 ? 0 : tap_stride - beyond;
    if (least > last || ahead > last - least) return {};
    from = least + ahead;
  }
  return {from, (q - from * dilation) / stride, (last - from) / tap_stride + 1};
}

}  // namespace tconv::core
