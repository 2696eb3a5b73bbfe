#include <algorithm>
#include <array>
#include <limits>

#include "core/checked.hpp"
#include "judge/draw.hpp"

namespace tconv::judge {
namespace {

using core::DType;
using core::Operation;
using core::Problem;
using core::Size;

// Any length, often a power of two or one beside it.
int64_t far_number(Rng& rng) {
  const int64_t power = int64_t{1} << rng.between(8, 62);
  if (rng.chance(50)) return power + rng.between(-1, 1);
  return power + static_cast<int64_t>(rng.next() % static_cast<uint64_t>(power));
}

void draw_steps(Rng& rng, Problem& p) {
  p.stride = rng.chance(30) ? rng.between(1, 9) : far_number(rng);
  p.dilation = rng.chance(30) ? rng.between(1, 9) : far_number(rng);
  if (rng.chance(10)) p.dilation = p.stride;
  if (rng.chance(20)) {  // a large common divisor
    const int64_t divisor = far_number(rng) / 16 + 1;
    p.stride = divisor * rng.between(1, 7);
    p.dilation = divisor * rng.between(1, 7);
  }
  // So that the full length is at most 2^62.
  constexpr int64_t kRoom = std::numeric_limits<int64_t>::max() / 4;
  p.stride = std::min(p.stride, p.l > 1 ? kRoom / (p.l - 1) : std::numeric_limits<int64_t>::max());
  p.dilation = std::min(p.dilation, p.k > 1 ? kRoom / (p.k - 1) : std::numeric_limits<int64_t>::max());
}

// Cuts the output to `lout` positions, if possible around a position where an input meets a tap.
void cut(Rng& rng, Problem& p, int64_t lout) {
  const int64_t full = (p.l - 1) * p.stride + p.dilation * (p.k - 1) + 1;  // at most 2^62
  const int64_t place = rng.between(0, p.l - 1) * p.stride + rng.between(0, p.k - 1) * p.dilation;
  const int64_t most = std::max(p.stride, p.dilation) - 1;
  p.padding = std::max<int64_t>(0, place - rng.between(0, lout));
  p.output_padding = lout - (full - 2 * p.padding);
  if (p.padding <= full && p.output_padding >= 0 && p.output_padding <= most) return;
  p.output_padding = rng.chance(50) ? 0 : rng.between(0, std::min(most, Size::kLargest - full));
  p.padding = std::max<int64_t>(0, full + p.output_padding - lout) / 2;
}

}  // namespace

Problem draw_far(Rng& rng, const DrawOptions& options) {
  Problem p;
  const bool wide = rng.chance(25);  // channels enough for tiles of tensor cores
  p.n = rng.chance(5) ? 0 : rng.between(1, 4);
  p.groups = rng.chance(70) ? 1 : rng.between(2, 4);
  p.cin = p.groups * rng.between(1, wide ? 40 : 5);
  p.cout = p.groups * rng.between(1, wide ? 40 : 5);
  p.l = rng.chance(40) ? 1 : rng.between(2, 12);
  p.k = rng.chance(20) ? 1 : rng.between(2, 26);
  draw_steps(rng, p);
  cut(rng, p, rng.between(0, rng.chance(80) ? 12 : 200));
  p.has_bias = rng.chance(50);
  p.dtype = rng.pick({DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
  if (options.tf32 && p.dtype == DType::f32 && rng.chance(30)) p.precision = core::Precision::tf32;
  if (options.gradients && rng.chance(20)) {
    p.operation = rng.pick({Operation::strided, Operation::weight, Operation::bias});
  }
  if (options.operation) p.operation = *options.operation;
  p.bias_of_x = p.writes_grad_bias() && rng.chance(40);
  return p;
}

Problem draw_vast(Rng& rng) {
  Problem p = draw_far(rng);
  const auto grow = [&](int64_t& value) {
    if (rng.chance(25)) value = rng.chance(50) ? rng.log_between(1, 1 << 20) : far_number(rng);
  };
  grow(p.n);
  grow(p.groups);
  int64_t cin = rng.between(1, 70), cout = rng.between(1, 70);
  grow(cin);
  grow(cout);
  p.cin = (Size(p.groups) * cin).value();
  p.cout = (Size(p.groups) * cout).value();
  grow(p.l);
  grow(p.k);
  if (rng.chance(50)) p.stride = rng.log_between(1, 300);
  if (rng.chance(50)) p.dilation = rng.log_between(1, 300);
  const Size full = Size(p.l - 1) * p.stride + Size(p.dilation) * (p.k - 1) + p.output_padding + 1;
  if (rng.chance(60)) p.padding = p.output_padding = 0;
  if (rng.chance(40) && full.fits()) {
    p.padding = std::max<int64_t>(0, full.value() - rng.log_between(1, 1'000'000)) / 2;
  }
  const auto far_steps = [&](bool read, bool& contiguous, std::array<int64_t, 3>& steps) {
    if (!read || !rng.chance(20)) return;
    contiguous = false;
    for (int64_t& step : steps) step = rng.chance(50) ? rng.between(0, 9) : far_number(rng);
  };
  far_steps(p.reads_x(), p.x_contiguous, p.x_stride);
  far_steps(p.reads_y(), p.y_contiguous, p.y_stride);
  return p;
}

}  // namespace tconv::judge
