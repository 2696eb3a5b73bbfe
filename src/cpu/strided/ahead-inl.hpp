// Prefetches what later steps read while tiles are computed.
#if defined(TCONV_STRIDED_AHEAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_AHEAD_INL
#undef TCONV_STRIDED_AHEAD_INL
#else
#define TCONV_STRIDED_AHEAD_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/strided/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {

using dense::HWY_NAMESPACE::kLineBytes;
using dense::HWY_NAMESPACE::LinesAhead;

// The cache lines of dy that hold the columns [begin, end) of a panel's lines, those in the same sample as
// the first, of channels from `row` on.
template <class T>
HWY_INLINE LinesAhead LinesOf(const SplitPanel& s, const T* row, int64_t channels, int64_t begin,
                              int64_t end) {
  LinesAhead lines;
  if (s.place_step != 1 || begin >= end) return lines;
  const int64_t sample = begin / s.period, place = begin % s.period;
  const int64_t low = s.stride * place + s.taps.front().at(s.stride);
  const TapPlace& last_line = s.expanded ? s.taps.back() : s.taps[static_cast<std::size_t>(s.lines - 1)];
  const int64_t high = s.stride * (std::min(place + end - begin, s.period) - 1) + last_line.at(s.stride) + 1;
  const int64_t first = std::clamp<int64_t>(low, 0, s.lout), last = std::clamp(high, first, s.lout);
  const int64_t element = static_cast<int64_t>(sizeof(T));
  lines.at = reinterpret_cast<const char*>(row + sample * s.sample_step + first);
  lines.of_run = std::max<int64_t>(1, core::ceil_div((last - first) * element, kLineBytes));
  lines.run_step = s.channel_step * element;
  lines.left = first < last ? channels * lines.of_run : 0;
  return lines;
}

// A panel of more samples has only those of its first one fetched: to find the lines of each takes longer
// than it saves (n256 ci16 co64 l5 k3 takes 1.12 times as long).
inline constexpr int64_t kMostSamples = 6;

// Prefetches what the next panel reads, sample after sample, while this panel's tiles are computed: nothing
// else would hide that stream.
template <class T>
class PanelAhead {
 public:
  HWY_INLINE PanelAhead(const SplitPanel& s, const T* row, int64_t channels, int64_t begin, int64_t end,
                        int64_t tiles)
      : s_(s), row_(row), channels_(channels), begin_(begin), end_(end) {
    if (end - begin > kMostSamples * s.period) end_ = std::min(end, (begin / s.period + 1) * s.period);
    int64_t lines = 0;
    while (begin_ < end_) {
      Next();
      lines += lines_.left;
    }
    begin_ = begin, lines_.left = 0;
    a_tile_ = core::ceil_div(lines, tiles);
  }
  // A tile's share, at once.
  HWY_INLINE void fetch() {
    if (lines_.left >= a_tile_) {
      lines_.fetch(a_tile_);
    } else {
      Fetch(a_tile_);
    }
  }
  // The same, but most of it for the tile to fetch on its way.
  HWY_INLINE LinesAhead take() {
    if (lines_.left == 0 && begin_ < end_) Next();
    LinesAhead some = lines_;
    some.left = std::min(a_tile_, lines_.left);
    lines_.skip(some.left);
    Fetch(a_tile_ - some.left);
    return some;
  }

 private:
  HWY_NOINLINE void Fetch(int64_t left) {
    while (left > 0) {
      if (lines_.left == 0) {
        if (begin_ >= end_) return;
        Next();
      }
      const int64_t some = std::min(left, lines_.left);
      lines_.fetch(some);
      left -= std::max<int64_t>(some, 1);
    }
  }
  // To the columns of the next sample. Not in the loops of tiles, which it would slow down.
  HWY_NOINLINE void Next() {
    lines_ = LinesOf(s_, row_, channels_, begin_, end_);
    begin_ += s_.period - begin_ % s_.period;
  }

  const SplitPanel& s_;
  const T* row_;
  int64_t channels_, begin_, end_;  // begin: of what lines_ does not have yet
  LinesAhead lines_ = {};
  int64_t a_tile_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
