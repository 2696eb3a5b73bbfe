// Loads the input into a panel of channel pairs, and finds its least magnitude.
#include "cpu/strided/phases-inl.hpp"

#if defined(TCONV_AMX_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_AMX_PANEL_INL
#undef TCONV_AMX_PANEL_INL
#else
#define TCONV_AMX_PANEL_INL
#endif

#include <algorithm>

#include "cpu/amx/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::amx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = even[i] and odd[i] side by side. Magnitudes less one go into least, so that zero counts as the
// largest.
template <class V>
HWY_INLINE void MakePairs(const uint16_t* even, const uint16_t* odd, int64_t count, uint32_t* to, V& least) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(half, uint16_t{0x7fff}), one = hn::Set(half, uint16_t{1});
  // Lines have room for whole vectors, with zeros behind their end.
  for (int64_t i = 0; i < count; i += lanes) {
    const auto a = hn::LoadU(half, even + i), b = hn::LoadU(half, odd + i);
    const auto pairs = hn::Or(hn::PromoteTo(d, a), hn::ShiftLeft<16>(hn::PromoteTo(d, b)));
    hn::StoreU(pairs, d, to + i);
    const auto less = hn::Min(hn::Sub(hn::And(a, magnitude), one), hn::Sub(hn::And(b, magnitude), one));
    least = hn::Min(least, less);
  }
}

// in: the group's first channel in sample 0; pair: room for the lines of two channels. Returns the least
// magnitude that is not zero.
HWY_NOINLINE int32_t LoadPanel(const Job& job, const Task& task, const uint16_t* in, uint16_t* pair,
                               uint32_t* panel) {
  const strided::SplitPanel& s = job.split;
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  auto least = hn::Set(half, uint16_t{0xffff});
  const int64_t lines = s.expanded ? s.tap_block : s.lines, channel = s.channel();
  const int64_t count = core::ceil_div(task.column_end - task.column_begin, kTile) * kTile + s.halo;
  const int64_t pairs = job.config.steps * kPairs;
  for (int64_t line = 0; line < 2 * lines; ++line)
    std::fill(pair + line * s.line + count, pair + (line + 1) * s.line, uint16_t{0});
  for (int64_t at = 0; at < pairs; ++at, panel += channel) {
    for (int64_t which = 0; which < 2; ++which) {
      const int64_t c = 2 * at + which;
      uint16_t* to = pair + which * channel;
      if (c < job.in_channels) {
        strided::HWY_NAMESPACE::LoadChannel(s, task.column_begin, task.column_end, 0, s.tap_block,
                                            in + c * s.channel_step, to);
      } else {
        std::fill_n(to, channel, uint16_t{0});
      }
    }
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t begin = line * s.line;
      MakePairs(pair + begin, pair + channel + begin, count, panel + begin, least);
    }
  }
  uint16_t lanes[hn::MaxLanes(half)];
  hn::StoreU(least, half, lanes);
  const uint16_t less = *std::min_element(lanes, lanes + hn::Lanes(half));
  return less == 0xffff ? kNoMagnitude : less + 1;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::amx
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
