#include "cpu/strided/panel.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dense/contract.hpp"

namespace tconv::cpu::strided {

using core::ceil_div;
using core::floor_div;

namespace {
// Taps of a depth block where there are more than kMaxTapBlock: a tile reads a line of each, and those of 24
// columns stay in L1. With 1024 of them n1 ci512 co1 l1700 k1920 s240 and n1 ci1026 co1 l400 k1920 s480 take
// 1.06 to 1.08 times as long (Zen, AVX2).
constexpr int64_t kLongTapBlock = 256;
constexpr int64_t kMinColumns = 192;  // that a shared line must have room for, besides its halo
// Gap times rows up to which short samples share lines: expanded ones have a line for each tap, whose load
// takes longer than so many unused columns. On a Zen 5 (AVX-512), 24 layers of batches of 1 to 19 positions
// 1.15 times as fast with it, from 0.8 (L1, strides from 3 on) to 1.56; their weight gradients by cpu.weight
// 1.27 times.
constexpr int64_t kLeastGap = 256;
// The same where masks copy whole samples (masked-inl.hpp). On the Zen 5, 16 layers of batches of 4 to 91
// positions 1.07 times as fast as with the limit above, from 0.98 to 1.27; with AVX2 0.97.
constexpr int64_t kLeastGapByMasks = 96;
// Rows of dy from memory, whose neighbouring positions lie in the same cache lines: a core's prefetchers
// begin again at each page. n256 ci6 co10 l808 k8 s4 takes 0.83 of the time on a Zen 5 if squares fetch 2 KiB
// ahead, n1 ci4 co32 l200000 k5 0.91 if runs at stride 1 do; dy from L3, or a stride of 16, take 1.05
// to 1.12.
constexpr int64_t kFarBytes = 16 << 20, kFarStep = 32;
}  // namespace

void SplitPanel::set_columns(int64_t panel_columns) {
  // An odd number of cache lines, so that lines spread over the sets of L1.
  const int64_t elements = round_up(panel_columns, dense::kColumnAlign) + halo;
  line = (ceil_div(elements, dense::kColumnAlign) | 1) * dense::kColumnAlign;
  offsets.resize(taps.size());
  for (std::size_t tap = 0; tap < taps.size(); ++tap) {
    const std::size_t first = tap % static_cast<std::size_t>(lines);
    offsets[tap] = static_cast<int64_t>(first) * line;
    if (!expanded) offsets[tap] += taps[tap].shift - taps[first].shift;
  }
}

SplitPanel split_panel(const core::Problem& p, int64_t rows, bool masks) {
  SplitPanel s;
  s.n = p.n, s.l = p.l, s.lout = p.lout(), s.stride = p.stride;
  const auto steps = p.y_steps();
  s.sample_step = steps[0], s.channel_step = steps[1], s.place_step = steps[2];
  const int64_t element = static_cast<int64_t>(core::size_of(p.dtype));
  s.from_memory =
      s.place_step == 1 && p.y_elements() * element >= kFarBytes && p.stride * element <= kFarStep;
  const int64_t square = 16 / static_cast<int64_t>(accumulator_size(p.dtype));
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t at = k * p.dilation - p.padding, shift = floor_div(at, p.stride);
    const int64_t phase = at - shift * p.stride;
    s.taps.push_back({phase, shift, ceil_div(s.lout - phase, p.stride), ceil_div(-at, p.stride),
                      floor_div(s.lout - square - at, p.stride) + 1});
  }
  const core::Polyphase form(p);
  const int64_t halo = (form.taps - 1) * form.step, phases = form.count;
  const int64_t gap = p.n > 1 ? halo : 0;  // unused columns between samples
  const bool far = halo > 2 * kPanelElements / phases - kMinColumns;
  const bool by_masks = masks && s.contiguous() && accumulator_size(p.dtype) == core::size_of(p.dtype);
  const int64_t least = by_masks ? kLeastGapByMasks : kLeastGap;
  s.expanded = p.k > kMaxTapBlock || far || gap > 8 * p.l || gap * rows > std::max(8 * p.l, least);
  s.tiled = p.k == 1 && p.padding == 0;
  s.tap_block = p.k > kMaxTapBlock ? kLongTapBlock : p.k;
  s.adjacent = p.dilation == 1 && s.place_step == 1;
  s.lines = s.expanded ? s.tap_block : phases;
  s.halo = s.expanded ? 0 : halo;
  s.period = p.l + s.halo;
  s.columns = p.n == 0 ? 0 : (p.n - 1) * s.period + p.l;
  return s;
}

}  // namespace tconv::cpu::strided
