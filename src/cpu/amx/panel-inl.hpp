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

using Pairs = hn::ScalableTag<uint32_t>;
using Halves = hn::Rebind<uint16_t, Pairs>;

// to[i] = even[i] and odd[i] side by side, in whole vectors. Magnitudes minus one go into least: a zero wraps
// around to the largest.
template <class V>
HWY_INLINE void MakePairs(const uint16_t* even, const uint16_t* odd, int64_t count, uint32_t* to, V& least) {
  const Pairs d;
  const Halves half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(half, uint16_t{0x7fff}), one = hn::Set(half, uint16_t{1});
  for (int64_t i = 0; i < count; i += lanes) {
    const auto a = hn::LoadU(half, even + i), b = hn::LoadU(half, odd + i);
    hn::StoreU(hn::Or(hn::PromoteTo(d, a), hn::ShiftLeft<16>(hn::PromoteTo(d, b))), d, to + i);
    const auto less = hn::Min(hn::Sub(hn::And(a, magnitude), one), hn::Sub(hn::And(b, magnitude), one));
    least = hn::Min(least, less);
  }
}

// Where the lines of one channel pair go.
struct PairOfPanel {
  const Job& job;
  uint32_t* first;  // line 0
  int64_t columns;  // of the task, in whole tiles

  uint32_t* line(int64_t line) const { return first + line * kPairs * job.split.line; }
};

// Any steps, any lines: two channels are split by phase, then paired. rows: the lines of the two channels,
// whose tails are zeros.
template <class V>
HWY_INLINE void LoadSplitPair(const PairOfPanel& to, const Task& task, const uint16_t* even,
                              const uint16_t* odd, uint16_t* rows, V& least) {
  const strided::SplitPanel& s = to.job.split;
  const int64_t channel = s.channel();
  strided::HWY_NAMESPACE::LoadChannel(s, task.column_begin, task.column_end, 0, s.tap_block, even, rows);
  if (odd != nullptr) {
    strided::HWY_NAMESPACE::LoadChannel(s, task.column_begin, task.column_end, 0, s.tap_block, odd,
                                        rows + channel);
  } else {
    std::fill_n(rows + channel, channel, uint16_t{0});
  }
  for (int64_t line = 0; line < s.lines; ++line) {
    const uint16_t* at = rows + line * s.line;
    MakePairs(at, at + channel, to.columns + s.halo, to.line(line), least);
  }
}

// to[i] = from[step*i].
HWY_INLINE void GatherLine(const uint32_t* from, int64_t step, int64_t count, uint32_t* to) {
  const Pairs d;
  const hn::RebindToSigned<Pairs> index;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto places = hn::Mul(hn::Iota(index, 0), hn::Set(index, static_cast<int32_t>(step)));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::GatherIndex(d, from + step * i, places), d, to + i);
  for (; i < count; ++i) to[i] = from[step * i];
}

// The elements [first, first + count) of two rows of `length`, with zeros outside them, in whole vectors.
template <class V>
HWY_INLINE void PairRows(const uint16_t* even, const uint16_t* odd, int64_t length, int64_t first,
                         int64_t count, uint32_t* to, V& least) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Pairs()));
  const int64_t begin = std::clamp<int64_t>(-first, 0, count),
                end = std::clamp<int64_t>(length - first, begin, count);
  std::fill(to, to + begin, 0u);
  const int64_t whole = (end - begin) / lanes * lanes;
  const uint16_t *a = even + first + begin, *b = odd + first + begin;
  MakePairs(a, b, whole, to + begin, least);
  if (end - begin > whole) {
    uint16_t tails[2][64] = {};
    std::copy(a + whole, a + (end - begin), tails[0]);
    std::copy(b + whole, b + (end - begin), tails[1]);
    MakePairs(tails[0], tails[1], lanes, to + begin + whole, least);
  }
  std::fill(to + end, to + count, 0u);
}

// Contiguous rows: paired, then split by phase. Place v of line f is element stride*v + f*dilation - padding.
template <class V>
HWY_INLINE void GatherPair(const PairOfPanel& to, const Task& task, const uint16_t* even, const uint16_t* odd,
                           uint32_t* row, V& least) {
  const strided::SplitPanel& s = to.job.split;
  const core::Problem& p = to.job.problem;
  const int64_t count = to.columns + s.halo;
  int64_t sample = task.column_begin / s.period, place = task.column_begin % s.period;
  for (int64_t done = 0; done < count; ++sample, place = 0) {
    const int64_t run = std::min(count - done, s.period - place);
    const int64_t length = sample < s.n ? s.lout : 0, shift = sample < s.n ? sample * s.sample_step : 0;
    const int64_t reach = s.stride * (run - 1) + (s.lines - 1) * p.dilation + 1;
    PairRows(even + shift, odd + shift, length, s.stride * place - p.padding, reach, row, least);
    for (int64_t line = 0; line < s.lines; ++line) {
      GatherLine(row + line * p.dilation, s.stride, run, to.line(line) + done);
    }
    done += run;
  }
}

// Loads the channels of the steps [begin, end). in: the group's first channel in sample 0; pair: scratch for
// one channel pair. Returns the least magnitude that is not zero.
HWY_NOINLINE int32_t LoadPanel(const Job& job, const Task& task, int64_t begin, int64_t end,
                               const uint16_t* in, uint32_t* pair, uint32_t* panel) {
  const strided::SplitPanel& s = job.split;
  const Halves half;
  auto least = hn::Set(half, uint16_t{0xffff});
  const int64_t columns = core::ceil_div(task.column_end - task.column_begin, kTile) * kTile;
  const bool gathers = job.gathers();
  if (!gathers) std::fill_n(pair, s.channel(), 0u);
  for (int64_t at = begin * kPairs; at < end * kPairs; ++at) {
    const PairOfPanel to{job, panel + (at / kPairs - begin) * job.step_elements() + at % kPairs * s.line,
                         columns};
    if (2 * at >= job.in_channels) {
      for (int64_t line = 0; line < s.lines; ++line) std::fill_n(to.line(line), s.line, 0u);
      continue;
    }
    const uint16_t* even = in + 2 * at * s.channel_step;
    const uint16_t* odd = 2 * at + 1 < job.in_channels ? even + s.channel_step : nullptr;
    if (gathers && odd != nullptr) {
      GatherPair(to, task, even, odd, pair, least);
    } else {
      if (gathers) std::fill_n(pair, s.channel(), 0u);
      LoadSplitPair(to, task, even, odd, reinterpret_cast<uint16_t*>(pair), least);
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
