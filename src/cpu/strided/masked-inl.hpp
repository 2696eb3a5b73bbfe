// Short rows of dy by masked loads and stores, ends and all.
#if defined(TCONV_STRIDED_MASKED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_MASKED_INL
#undef TCONV_STRIDED_MASKED_INL
#else
#define TCONV_STRIDED_MASKED_INL
#endif

#include <algorithm>
#include <type_traits>

#include "core/polyphase.hpp"
#include "cpu/simd/targets.hpp"
#include "cpu/strided/panel.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3
// Rows of up to this many vectors go by masked loads and stores, ends and all: a fill, whole vectors and
// single elements take longer. On a Zen 5, 9 -> 18, K9 L15, 147 samples: 0.133 ms, and 0.077 with them; 1 ->
// 512, K7 L19, 32 samples 0.156, 0.114; rows of 50 positions and more 0.98 to 1.03 of the time without.
inline constexpr int64_t kMaskedVectors = 8;

// Which of the elements [at, at + lanes) lie in a row of `end`.
template <class D>
HWY_INLINE hn::Mask<D> InsideOf(D d, int64_t at, int64_t end) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t low = std::clamp<int64_t>(-at, 0, lanes), high = std::clamp(end - at, low, lanes);
  return hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(low)),
                    hn::FirstN(d, static_cast<std::size_t>(high)));
}

// Those elements; zeros outside the row.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadInside(D d, const A* row, int64_t at, int64_t end) {
  return hn::MaskedLoad(InsideOf(d, at, end), d, row + at);
}

// Stores the first `count` lanes.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> v, int64_t count, A* to) {
  if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
}

template <class D, class A = hn::TFromD<D>>
HWY_INLINE void LoadShort(D d, const A* row, int64_t at, int64_t end, int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    StoreFirst(d, LoadInside(d, row, at + i, end), count - i, to + i);
  }
}

// One line of `samples` whole samples, `period` elements each: every sample has the same masks. row: element
// `at` of the first sample's row, [0, end) of which exist.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE void LoadShortSamples(D d, const A* row, int64_t step, int64_t at, int64_t end, int64_t period,
                                 int64_t samples, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), vectors = core::ceil_div(period, lanes);
  hn::Mask<D> inside[kMaskedVectors], kept[kMaskedVectors];
  for (int64_t v = 0; v < vectors; ++v) {
    inside[v] = InsideOf(d, at + v * lanes, end);
    kept[v] = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, period - v * lanes)));
  }
  for (int64_t sample = 0; sample < samples; ++sample, row += step, to += period) {
    for (int64_t v = 0; v < vectors; ++v) {
      hn::BlendedStore(hn::MaskedLoad(inside[v], d, row + v * lanes), kept[v], d, to + v * lanes);
    }
  }
}

// Every second element.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE void LoadShortSecond(D d, const A* row, int64_t at, int64_t end, int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto low = LoadInside(d, row, at + 2 * i, end), high = LoadInside(d, row, at + 2 * i + lanes, end);
    StoreFirst(d, hn::ConcatEven(d, high, low), count - i, to + i);
  }
}

// Two adjacent lines at stride 2, the first one from element `at` on.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE void LoadShortPair(D d, const A* row, int64_t at, int64_t end, int64_t count, A* even_to,
                              A* odd_to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto low = LoadInside(d, row, at + 2 * i, end), high = LoadInside(d, row, at + 2 * i + lanes, end);
    StoreFirst(d, hn::ConcatEven(d, high, low), count - i, even_to + i);
    StoreFirst(d, hn::ConcatOdd(d, high, low), count - i, odd_to + i);
  }
}

// Whether LoadWholeSamples loads samples of `period` columns at stride 1.
template <class T, class A>
HWY_INLINE bool MasksSamples(int64_t period) {
  return std::is_same_v<T, A> &&
         period <= kMaskedVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
}

// Whole samples at stride 1, `lines` lines of each from `sample` on, as many of `count` columns as they take;
// returns how many samples it loaded. dy: the channel in sample 0.
template <class T, class A>
HWY_INLINE int64_t LoadWholeSamples(const SplitPanel& s, const T* dy, int64_t first, int64_t lines,
                                    int64_t sample, int64_t count, A* to) {
  if constexpr (std::is_same_v<T, A>) {
    const int64_t samples = std::max<int64_t>(0, std::min(count / s.period, s.n - sample));
    for (int64_t line = 0; line < lines && samples > 0; ++line) {
      const TapPlace& tap = s.taps[static_cast<std::size_t>(first + line)];
      LoadShortSamples(hn::ScalableTag<A>(), dy + sample * s.sample_step + tap.shift, s.sample_step,
                       tap.shift, tap.end, s.period, samples, to + line * s.line);
    }
    return samples;
  } else {
    return 0;
  }
}

#else  // a fill, whole vectors and single elements are quicker there

template <class T, class A>
HWY_INLINE bool MasksSamples(int64_t) {
  return false;
}
template <class T, class A>
HWY_INLINE int64_t LoadWholeSamples(const SplitPanel&, const T*, int64_t, int64_t, int64_t, int64_t, A*) {
  return 0;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
