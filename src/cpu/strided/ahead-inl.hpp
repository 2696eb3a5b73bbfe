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

// The cache lines of dy that hold the columns [begin, end), those in the same sample as the first, of
// channels from `row` on.
template <class T>
HWY_INLINE LinesAhead LinesOf(const SplitPanel& s, const T* row, int64_t channels, int64_t begin,
                              int64_t end) {
  LinesAhead lines;
  if (s.place_step != 1 || begin >= end) return lines;
  const int64_t sample = begin / s.period, place = begin % s.period;
  const int64_t low = s.stride * place + s.taps.front().at(s.stride);
  const int64_t high = s.stride * std::min(place + end - begin, s.l) + s.taps.back().at(s.stride);
  const int64_t first = std::clamp<int64_t>(low, 0, s.lout), last = std::clamp(high, first, s.lout);
  const int64_t element = static_cast<int64_t>(sizeof(T));
  lines.at = reinterpret_cast<const char*>(row + sample * s.sample_step + first);
  lines.of_run = std::max<int64_t>(1, core::ceil_div((last - first) * element, kLineBytes));
  lines.run_step = s.channel_step * element;
  lines.left = first < last ? channels * lines.of_run : 0;
  return lines;
}

// Prefetches what the next panel reads while this panel's tiles are computed: nothing else would hide that
// stream.
class PanelAhead {
 public:
  HWY_INLINE PanelAhead() {}
  HWY_INLINE PanelAhead(const LinesAhead& lines, int64_t tiles)
      : lines_(lines), a_tile_(core::ceil_div(lines.left, tiles)) {}
  HWY_INLINE void fetch() { lines_.fetch(a_tile_); }

 private:
  LinesAhead lines_ = {};
  int64_t a_tile_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
