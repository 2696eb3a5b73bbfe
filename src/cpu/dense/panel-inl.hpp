// Loads x into a panel: widened, zeros outside [0, L) and between samples, any strides.
#if defined(TCONV_DENSE_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_PANEL_INL
#undef TCONV_DENSE_PANEL_INL
#else
#define TCONV_DENSE_PANEL_INL
#endif

#include <algorithm>
#include <cstring>

#include "core/polyphase.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/dense/ranges-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

template <class A>
HWY_INLINE void ZeroRange(A* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0;
}

// to[i] = x[first + i] of one channel of one sample.
template <class T, class A>
HWY_INLINE void LoadPositions(const T* x, int64_t step, int64_t l, int64_t first, int64_t count, A* to) {
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(l - first, begin, count);
  ZeroRange(to, begin);
  if (step == 1) {
    WidenRange(x + (first + begin), to + begin, end - begin);
  } else {
    for (int64_t i = begin; i < end; ++i) to[i] = widen(x[(first + i) * step]);
  }
  ZeroRange(to + end, count - end);
}

// What one line of the panel holds: `count` places of the batch's sequence, from place `from` on. A
// sample's place v is x position q_first - reach + v.
struct PanelLine {
  int64_t from, count, reach;
};

// The line of one channel; x points at the channel in sample 0. Past the last period there are only zeros.
template <class T, class A>
HWY_INLINE void LoadLine(const Geometry& g, const Config& c, const T* x, const PanelLine& line, A* to) {
  int64_t sample = line.from / c.period, place = line.from % c.period;
  for (int64_t done = 0; done < line.count;) {
    const int64_t run = std::min(line.count - done, c.period - place);
    if (sample < g.n) {
      LoadPositions(x + sample * g.x_steps[0], g.x_steps[2], g.l, g.q_first - line.reach + place, run,
                    to + done);
    } else {
      ZeroRange(to + done, run);
    }
    done += run;
    place = 0;
    ++sample;
  }
}

struct DepthBlock {
  int64_t ci_begin, ci_end, tap_begin, tap_end;
};

template <class T, class A>
HWY_NOINLINE void LoadPanel(const Geometry& g, const Config& c, const Task& task, const DepthBlock& depth,
                            const T* x, A* panel) {
  const int64_t columns = core::ceil_div(task.column_end - task.column_begin, kColumnAlign) * kColumnAlign;
  const T* group = x + task.group * g.cin * g.x_steps[1];
  for (int64_t ci = depth.ci_begin; ci < depth.ci_end; ++ci, panel += c.line) {
    const T* channel = group + ci * g.x_steps[1];
    if (!c.expanded) {
      const int64_t reach = depth.tap_begin * g.delta + c.halo;
      LoadLine(g, c, channel, {task.column_begin, columns + c.halo, reach}, panel);
      continue;
    }
    for (int64_t tap = depth.tap_begin; tap < depth.tap_end; ++tap) {
      LoadLine(g, c, channel, {task.column_begin, columns, tap * g.delta},
               panel + (tap - depth.tap_begin) * columns);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
