// X of a task's columns: of each channel the outputs that the taps of a position meet.
#if defined(TCONV_DOTS_COLUMNS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DOTS_COLUMNS_INL
#undef TCONV_DOTS_COLUMNS_INL
#else
#define TCONV_DOTS_COLUMNS_INL
#endif

#include <algorithm>
#include <cstring>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/dots/contract.hpp"
#include "cpu/simd/convert-inl.hpp"
#include "cpu/simd/targets.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dots {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether taps may be read by masked loads: on other targets these may read beyond the mask. Those of AVX2,
// which it has for float32 and float64 alone, read nothing beyond it.
template <class T>
constexpr bool kMaskedTaps = HWY_TARGET == HWY_AVX2 ? std::is_same_v<T, Accumulator<T>>
                                                    : !HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_SCALAR;

// Lanes [begin, end) of a vector that lies at `from`; the others are zero.
template <class D>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const hn::TFromD<D>* from, int64_t begin, int64_t end) {
  const auto mask = hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(begin)),
                               hn::FirstN(d, static_cast<std::size_t>(end)));
  return hn::MaskedLoad(mask, d, from);
}

// The same, widened to accumulators.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadLanesAs(D d, const T* from, int64_t begin, int64_t end) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return LoadLanes(d, from, begin, end);
  } else {
    const hn::Rebind<uint16_t, D> d16;
    alignas(64) uint16_t lanes[hn::MaxLanes(d16)];
    hn::Store(LoadLanes(d16, reinterpret_cast<const uint16_t*>(from), begin, end), d16, lanes);
    return simd::HWY_NAMESPACE::LoadAs(d, reinterpret_cast<const T*>(lanes));
  }
}

// Output channels whose products are added at once.
struct Depth {
  int64_t co_begin, co_end;
};

// What a column takes of each channel: of `count` taps, `step` apart in dy, those of [begin, end) meet it.
struct Taps {
  int64_t count, begin, end;
  int64_t step, channel_step;
};

// X of one column where taps lie side by side and fit a vector: one a channel, which may reach into the next
// channel's place before that is stored. room: elements of `to`. Taps one by one would take half of the time
// of batches (Xeon, n128 ci16 co128 l4 k4 s2: 0.44 ms, so 0.17).
template <class T, class A>
HWY_INLINE void LoadTaps(const T* from, const Taps& taps, int64_t channels, int64_t room, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = std::min(channels, room < lanes ? 0 : (room - lanes) / taps.count + 1);
  for (int64_t co = 0; co < whole; ++co, from += taps.channel_step, to += taps.count) {
    hn::StoreU(LoadLanesAs(d, from, taps.begin, taps.end), d, to);
  }
  for (int64_t co = whole; co < channels; ++co, from += taps.channel_step, to += taps.count) {
    for (int64_t k = 0; k < taps.count; ++k) {
      to[k] = k >= taps.begin && k < taps.end ? widen(from[k]) : A(0);
    }
  }
}

// X of one column and some channels. from: tap 0 of the first one, which may not exist; room: elements of
// `to`.
template <class T, class A>
HWY_INLINE void LoadColumn(const T* from, const Taps& taps, int64_t channels, int64_t room, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t meet = taps.end - taps.begin;
  if (taps.count == 1 && meet == 1) {  // the loops below take 1.5 times as long
    for (int64_t c = 0; c < channels; ++c) to[c] = widen(from[c * taps.channel_step]);
    return;
  }
  if constexpr (kMaskedTaps<T>) {
    if (taps.step == 1 && taps.count <= static_cast<int64_t>(hn::Lanes(d))) {
      return LoadTaps(from, taps, channels, room, to);
    }
  }
  for (int64_t co = 0; co < channels; ++co, from += taps.channel_step, to += taps.count) {
    if (meet < taps.count) std::fill(to, to + taps.count, A(0));
    if (taps.count < kPad || taps.step != 1) {
      for (int64_t k = taps.begin; k < taps.end; ++k) to[k] = widen(from[k * taps.step]);
    } else {
      simd::HWY_NAMESPACE::WidenRow(d, from + taps.begin, 1, meet, to + taps.begin);
    }
  }
}

// X of a task's columns and a depth block. dy: of the group, in sample 0.
template <class T, class A>
HWY_INLINE void LoadColumns(const Job& job, const Task& task, const Depth& depth, const T* dy, A* x) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t channels = depth.co_end - depth.co_begin, room = job.x_pitch();
  for (int64_t n = task.sample_begin; n < task.sample_end; ++n) {
    for (int64_t i = 0; i < p.l; ++i, x += room) {
      const int64_t first = p.stride * i - p.padding;
      const int64_t low = first >= 0 ? 0 : core::ceil_div(-first, p.dilation);
      const int64_t begin = std::min(p.k, low);
      const int64_t end =
          first >= job.lout ? begin : std::clamp((job.lout - 1 - first) / p.dilation + 1, begin, p.k);
      const T* from = dy + n * steps[0] + depth.co_begin * steps[1] + first * steps[2];
      LoadColumn(from, {p.k, begin, end, p.dilation * steps[2], steps[1]}, channels, room, x);
      std::fill(x + channels * p.k, x + room, A(0));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dots
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
