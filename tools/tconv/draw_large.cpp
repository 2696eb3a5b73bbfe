#include "draw_large.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"

namespace tconv::cli {
namespace {

using core::ceil_div;
using core::Problem;
using judge::Rng;

constexpr int64_t kLongest = int64_t{1} << 22;  // positions of a sample; larger problems have more samples
constexpr int64_t kShortest = 64;
constexpr int kDraws = 10'000;

// Of a group: what models use, or any number.
int64_t draw_channels(Rng& rng) {
  if (rng.chance(60)) return rng.pick<int64_t>({16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768});
  return rng.log_between(16, 768);
}

void draw_shape(Rng& rng, Problem& p) {
  p.stride = rng.chance(35) ? 1 : rng.chance(60) ? rng.pick<int64_t>({2, 4, 5, 8}) : rng.between(2, 16);
  p.dilation = rng.chance(70) ? 1 : rng.between(2, 9);
  const int64_t apart = core::Polyphase(p).tap_stride;  // of k, from one tap of a phase to its next
  const int64_t taps = rng.chance(80) ? rng.between(1, 8) : rng.log_between(9, 64);
  p.k = rng.chance(50) ? taps * apart : rng.between((taps - 1) * apart + 1, taps * apart);
  p.groups = rng.chance(80) ? 1 : rng.between(2, 8);
  p.cin = draw_channels(rng) * p.groups;
  p.cout = draw_channels(rng) * p.groups;
  const int64_t reach = p.dilation * (p.k - 1);
  p.padding = rng.chance(30)   ? 0
              : rng.chance(50) ? std::max<int64_t>(0, reach - p.stride + 1) / 2
                               : rng.between(0, reach);
  if (rng.chance(30)) p.output_padding = rng.between(0, std::max(p.stride, p.dilation) - 1);
  p.has_bias = rng.chance(50);
}

double data_bytes(const Problem& p) {
  return static_cast<double>(p.x_elements() + p.y_elements()) * static_cast<double>(size_of(p.dtype));
}

// Sets n and l for the bytes wanted; false if no length suits.
bool draw_length(Rng& rng, const LargeSpace& space, Problem& p) {
  const double element = static_cast<double>(size_of(p.dtype));
  const double each =
      static_cast<double>(p.cin + p.stride * p.cout);  // elements for each position of x, roughly
  const double flops = 2.0 * static_cast<double>(p.cin * p.cout_per_group() * p.k);
  const double affordable = 0.98 * space.most_flops * each * element / flops;
  const double most = std::min(space.most_bytes, affordable);
  if (most < space.least_bytes) return false;
  const double bytes = space.least_bytes * std::pow(most / space.least_bytes, rng.unit());
  const auto positions = static_cast<int64_t>(bytes / (element * each));
  const int64_t window = p.dilation * (p.k - 1) / p.stride + 1;
  const int64_t most_n = std::min<int64_t>(128, positions / std::max(kShortest, 4 * window));
  const int64_t least_n = ceil_div(positions, kLongest);
  if (least_n < 1 || least_n > most_n) return false;
  p.n = rng.log_between(least_n, most_n);
  p.l = positions / p.n;
  if (rng.chance(50)) {
    p.l |= 1;
  } else if (rng.chance(50)) {
    p.l = (p.l + 32) / 64 * 64;
  }
  return true;
}

}  // namespace

std::optional<Problem> draw_large(Rng& rng, const LargeSpace& space) {
  const Mode mode =
      space.modes[static_cast<std::size_t>(rng.between(0, static_cast<int64_t>(space.modes.size()) - 1))];
  for (int draw = 0; draw < kDraws; ++draw) {
    Problem p = in_mode(Problem{}, mode);
    draw_shape(rng, p);
    if (!draw_length(rng, space, p) || !validate(p).ok()) continue;
    const double bytes = data_bytes(p);
    const bool fits = bytes >= space.least_bytes && bytes <= space.most_bytes;
    if (fits && work_of(p).flops <= space.most_flops) return p;
  }
  return std::nullopt;
}

}  // namespace tconv::cli
