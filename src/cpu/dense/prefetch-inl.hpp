// Prefetches the next panel's x towards L2 while this panel computes: loading a panel is one stream from
// memory that nothing else would hide.
#if defined(TCONV_DENSE_PREFETCH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_PREFETCH_INL
#undef TCONV_DENSE_PREFETCH_INL
#else
#define TCONV_DENSE_PREFETCH_INL
#endif

#include <algorithm>

#include "cpu/dense/contract.hpp"
#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/dense/panel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// Cache lines of some channels, the same range of positions of each.
struct Ahead {
  const char* channel = nullptr;  // its first line
  int64_t channel_bytes = 0, channels = 0, lines = 0, line = 0;

  int64_t lines_left() const { return channels * lines; }
  HWY_INLINE void fetch(int64_t count) {
    for (; count > 0 && channels > 0; --count) {
      __builtin_prefetch(channel + line * kLineBytes, 0, 2);
      if (++line < lines) continue;
      line = 0;
      channel += channel_bytes;
      --channels;
    }
  }
};

// What one task reads of the first sample that it touches, where positions are contiguous.
template <class T>
HWY_INLINE Ahead AheadOf(const Geometry& g, const Config& c, const Task& task, const DepthBlock& depth,
                         const T* x) {
  Ahead out;
  if (g.x_steps[2] != 1) return out;
  const int64_t sample = task.column_begin / c.period, place = task.column_begin % c.period;
  const int64_t reach = depth.tap_begin * g.delta + c.halo;
  const int64_t begin = std::max<int64_t>(0, g.q_first + place - reach);
  const int64_t end = std::min(g.l, g.q_first + place - reach + c.halo + task.column_end - task.column_begin);
  if (sample >= g.n || begin >= end) return out;
  const T* from = x + sample * g.x_steps[0] + (task.group * g.cin + depth.ci_begin) * g.x_steps[1] + begin;
  out.channel = reinterpret_cast<const char*>(from);
  out.channel_bytes = g.x_steps[1] * static_cast<int64_t>(sizeof(T));
  out.channels = depth.ci_end - depth.ci_begin;
  out.lines = core::ceil_div((end - begin) * static_cast<int64_t>(sizeof(T)), kLineBytes);
  return out;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
