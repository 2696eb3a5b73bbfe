#include "cuda/host/phases.hpp"

#include <algorithm>

#include "core/polyphase.hpp"

namespace tconv::cuda {

namespace {

Phases computed(const core::Problem& p) {
  // The slots of a tile's row are counted with 32 bits.
  constexpr int64_t kMaxInterleavedStride = 1 << 23;
  const core::Polyphase form(p);
  Phases f{};
  f.stride = form.stride;
  f.dilation = form.dilation;
  f.padding = form.padding;
  f.step = form.step;
  f.tap_stride = form.tap_stride;
  f.count = form.count;
  f.taps = form.taps;
  f.interleaved = (p.dilation == 1 || f.count == 1) && p.stride <= kMaxInterleavedStride;
  f.gaps = !f.interleaved && f.count < p.stride;
  // Interleaved rows need every u whose slots meet the output; skewed ones, every u of a phase's output.
  const int64_t reach = f.interleaved ? 0 : (f.count - 1) * p.dilation;
  f.first = f.interleaved ? p.padding / p.stride : core::ceil_div(p.padding - reach, p.stride);
  const int64_t last = core::floor_div(p.lout() - 1 + p.padding, p.stride);
  f.positions = std::max<int64_t>(0, last - f.first + 1);
  return f;
}

}  // namespace

// A search asks once for every candidate of one problem.
Phases phases_of(const core::Problem& p) {
  static thread_local core::Problem last;
  static thread_local Phases found = computed(last);
  if (!(p == last)) found = computed(p), last = p;
  return found;
}

}  // namespace tconv::cuda
