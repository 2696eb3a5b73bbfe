#include "cuda/host/phases.hpp"

#include <algorithm>
#include <numeric>

#include "core/polyphase.hpp"

namespace tconv::cuda {

Phases phases_of(const core::Problem& p) {
  // Slots of a tile's row are counted in 32 bits.
  constexpr int64_t kMaxInterleavedStride = 1 << 23;
  const int64_t g = std::gcd(p.stride, p.dilation);
  Phases f{};
  f.stride = p.stride;
  f.dilation = p.dilation;
  f.padding = p.padding;
  f.step = p.dilation / g;
  f.tap_stride = p.stride / g;
  f.count = std::min(p.k, f.tap_stride);
  f.taps = core::ceil_div(p.k, f.tap_stride);
  f.interleaved = (p.dilation == 1 || f.count == 1) && p.stride <= kMaxInterleavedStride;
  f.gaps = !f.interleaved && f.count < p.stride;
  // Interleaved rows need every u whose slots meet the output; skewed ones every u of a phase's output.
  const int64_t reach = f.interleaved ? 0 : (f.count - 1) * p.dilation;
  f.first = f.interleaved ? p.padding / p.stride : core::ceil_div(p.padding - reach, p.stride);
  const int64_t last = core::floor_div(p.lout() - 1 + p.padding, p.stride);
  f.positions = std::max<int64_t>(0, last - f.first + 1);
  return f;
}

}  // namespace tconv::cuda
