// Splits rows of dy by phase: every stride-th element, widened, zeros outside the row.
#include "cpu/simd/convert-inl.hpp"
#include "cpu/strided/masked-inl.hpp"
#include "cpu/strided/panel.hpp"
#include "cpu/strided/squares-inl.hpp"

#if defined(TCONV_STRIDED_PHASES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_PHASES_INL
#undef TCONV_STRIDED_PHASES_INL
#else
#define TCONV_STRIDED_PHASES_INL
#endif

#include <algorithm>
#include <type_traits>

#include "core/polyphase.hpp"
#include "cpu/dense/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Every second or fourth element: all of them are loaded, and one part is kept.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE int64_t LoadEverySecond(D d, const A* from, int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // The last pair may reach beyond the row, so its vector is left to the scalar loop.
  for (; i + 2 * lanes <= count; i += lanes) {
    hn::Vec<D> even, odd;
    hn::LoadInterleaved2(d, from + 2 * i, even, odd);
    hn::StoreU(even, d, to + i);
  }
  return i;
}

template <class D, class A = hn::TFromD<D>>
HWY_INLINE int64_t LoadEveryFourth(D d, const A* from, int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += lanes) {
    hn::Vec<D> v0, v1, v2, v3;
    hn::LoadInterleaved4(d, from + 4 * i, v0, v1, v2, v3);
    hn::StoreU(v0, d, to + i);
  }
  return i;
}

// Two adjacent lines at stride 2; returns the number of positions loaded. kFetch: rows come from memory
// (panel.cpp).
template <bool kFetch, class D, class A = hn::TFromD<D>>
HWY_INLINE int64_t LoadBoth(D d, const A* from, int64_t count, A* even_to, A* odd_to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<D> even, odd;
    if constexpr (kFetch) FetchAhead(from + 2 * i, 2 * lanes * static_cast<int64_t>(sizeof(A)));
    hn::LoadInterleaved2(d, from + 2 * i, even, odd);
    hn::StoreU(even, d, even_to + i);
    hn::StoreU(odd, d, odd_to + i);
  }
  return i;
}

// Every second element of 16 bits, widened: the lower halves of elements of 32 bits.
template <class D, class T>
HWY_INLINE int64_t WidenEverySecond(D d, const T* from, int64_t count, float* to) {
  const hn::RebindToUnsigned<D> pairs;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes < count; i += lanes) {
    const auto both = hn::LoadU(pairs, reinterpret_cast<const uint32_t*>(from + 2 * i));
    if constexpr (std::is_same_v<T, BF16>) {
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(both)), d, to + i);
    } else {
      const hn::Rebind<uint16_t, D> halves;
      F16 bits[hn::MaxLanes(d)];
      hn::StoreU(hn::TruncateTo(halves, both), halves, reinterpret_cast<uint16_t*>(bits));
      hn::StoreU(simd::HWY_NAMESPACE::LoadAs(d, bits), d, to + i);
    }
  }
  return i;
}

// to[i] = row[(stride*(place + shift + i) + phase) * step]. fetch: rows come from memory (panel.cpp).
template <class T, class A>
HWY_INLINE void LoadPhase(const T* row, int64_t stride, int64_t step, const TapPlace& phase, int64_t place,
                          int64_t count, A* to, bool fetch = false) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = place + phase.shift;
#if HWY_TARGET <= HWY_AVX3
  if constexpr (std::is_same_v<T, A>) {
    const bool few = count <= kMaskedVectors * lanes;
    if (few && stride * step == 1) return LoadShort(d, row, first, phase.end, count, to);
    if (few && stride * step == 2) {
      const int64_t shift = phase.phase * step;
      return LoadShortSecond(d, row, 2 * first + shift, 2 * phase.end + shift - 1, count, to);
    }
  }
#endif
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(phase.end - first, begin, count);
  std::fill(to, to + begin, A(0));
  std::fill(to + end, to + count, A(0));
  if (end == begin) return;
  const T* from = row + (stride * (first + begin) + phase.phase) * step;
  stride *= step;
  to += begin;
  const int64_t valid = end - begin;
  int64_t i = 0;
  if (stride == 1) {
    for (; i + lanes <= valid; i += lanes) {
      if (fetch) FetchAhead(from + i, lanes * static_cast<int64_t>(sizeof(T)));
      hn::StoreU(simd::HWY_NAMESPACE::LoadAs(d, from + i), d, to + i);
    }
  } else if constexpr (std::is_same_v<T, A>) {
    if (stride == 2) i = LoadEverySecond(d, from, valid, to);
    if (stride == 4) i = LoadEveryFourth(d, from, valid, to);
  } else if (stride == 2) {
    i = WidenEverySecond(d, from, valid, to);
  }
  for (; i < valid; ++i) {
    if constexpr (std::is_same_v<T, A>) {
      to[i] = from[i * stride];
    } else {
      to[i] = widen(from[i * stride]);
    }
  }
}

// Lines [first, first + lines) of a sample's row at the positions [place, place + count).
template <class T, class A>
HWY_INLINE void LoadLines(const SplitPanel& s, const T* row, int64_t first, int64_t lines, int64_t place,
                          int64_t count, A* to) {
  for (int64_t line = 0; line < lines; ++line) {
    const TapPlace& tap = s.taps[static_cast<std::size_t>(first + line)];
    LoadPhase(row, s.stride, s.place_step, tap, place, count, to + line * s.line, s.from_memory);
  }
}

// Adjacent lines, the first at element `from` of the row, for the few positions where some lie outside it.
template <class T, class A>
HWY_INLINE void LoadEnd(const SplitPanel& s, const T* row, int64_t from, int64_t lines, int64_t count,
                        A* to) {
  for (int64_t i = 0; i < count; ++i, from += s.stride) {
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t o = from + line;
      to[line * s.line + i] = o >= 0 && o < s.lout ? static_cast<A>(widen(row[o])) : A(0);
    }
  }
}

// LoadLines for adjacent lines: squares of them where all elements of a square exist.
template <class T, class A>
HWY_INLINE void LoadSome(const SplitPanel& s, const T* row, int64_t first, int64_t lines, int64_t place,
                         int64_t count, A* to) {
  const hn::ScalableTag<A> d;
  const hn::CappedTag<A, kSquareLines<A>> narrow;
  for (int64_t done = 0; done < lines; done += kSquareLines<A>) {
    const int64_t line = std::max<int64_t>(0, std::min(done, lines - kSquareLines<A>));
    const int64_t some = std::min(kSquareLines<A>, lines - line);
    const TapPlace& tap = s.taps[static_cast<std::size_t>(first + line)];
    const int64_t begin = std::clamp(tap.whole_begin, place, place + count);
    const int64_t end = std::clamp(tap.whole_end, begin, place + count);
    const int64_t at = tap.at(s.stride);
    A* out = to + line * s.line;
    const T* from = row + (s.stride * begin + at);
    int64_t taken =
        LoadSquares(d, from, s.stride, some, s.line, end - begin, s.from_memory, out + (begin - place));
    if (taken == 0)
      taken = LoadSquares(narrow, from, s.stride, some, s.line, end - begin, s.from_memory,
                          out + (begin - place));
    LoadEnd(s, row, s.stride * place + at, some, begin - place, out);
    const int64_t next = begin + taken;
    LoadEnd(s, row, s.stride * next + at, some, place + count - next, out + (next - place));
  }
}

// The same, some positions at a time where each lies in cache lines of its own: the squares of other lines
// read them too, and find them in L1 then. On a Zen 5 with AVX-512, 9 -> 4, K13 s16 takes 0.77 of the time
// from L2 and 0.93 from memory; with AVX2 1.00 and 1.05.
inline constexpr int64_t kAdjacentBytes = 8 * 1024;

template <class T, class A>
HWY_INLINE void LoadAdjacent(const SplitPanel& s, const T* row, int64_t first, int64_t lines, int64_t place,
                             int64_t count, A* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  const int64_t apart = s.stride * static_cast<int64_t>(sizeof(T));
  const bool some_at_a_time =
      lanes * static_cast<int64_t>(sizeof(A)) >= 64 && apart >= 64 && lines > kSquareLines<A>;
  const int64_t most = some_at_a_time ? std::max<int64_t>(2, kAdjacentBytes / apart / lanes) * lanes : count;
  for (int64_t done = 0; done < count;) {
    const int64_t left = count - done, some = left < most + lanes ? left : most;  // no part of a vector alone
    LoadSome(s, row, first, lines, place + done, some, to + done);
    done += some;
  }
}

// The two lines at stride 2.
template <class A>
HWY_INLINE void LoadPair(const SplitPanel& s, const A* row, int64_t place, int64_t count, A* to) {
  const TapPlace& tap = s.taps.front();
  const int64_t begin = std::clamp(tap.whole_begin, place, place + count);
  const int64_t end = std::clamp(tap.whole_end, begin, place + count);
  const int64_t at = tap.at(s.stride);
#if HWY_TARGET <= HWY_AVX3
  const hn::ScalableTag<A> d;
  if (count <= kMaskedVectors * static_cast<int64_t>(hn::Lanes(d)))
    return LoadShortPair(d, row, s.stride * place + at, s.lout, count, to, to + s.line);
#endif
  A* out = to + (begin - place);
  const hn::ScalableTag<A> tag;
  const A* const from = row + (s.stride * begin + at);
  const int64_t next = begin + (s.from_memory ? LoadBoth<true>(tag, from, end - begin, out, out + s.line)
                                              : LoadBoth<false>(tag, from, end - begin, out, out + s.line));
  LoadEnd(s, row, s.stride * place + at, 2, begin - place, to);
  LoadEnd(s, row, s.stride * next + at, 2, place + count - next, to + (next - place));
}

// What a later channel reads at these positions, of rows that come from memory: in short runs a core's
// prefetchers begin again with every channel. Zen 5, one thread: n256 ci8 co384 l189 k3 s2 22 -> 14.4 ms, n32
// ci8 co1088 l300 k7 8.5 -> 6.9; runs of up to 128 positions alone 15.7 and 7.7, those of all lengths 15.6
// and 7.2.
inline constexpr int64_t kShortRun = 256, kChannelsLater = 4;
template <class T>
HWY_INLINE void FetchLater(const SplitPanel& s, const T* row, int64_t place, int64_t count) {
  const int64_t first = std::clamp<int64_t>(s.stride * place + s.taps.front().at(s.stride), 0, s.lout);
  const char* const later = reinterpret_cast<const char*>(row + first + kChannelsLater * s.channel_step);
  const int64_t bytes = count * s.stride * static_cast<int64_t>(sizeof(T));
  for (int64_t b = 0; b < bytes + kCacheLine; b += kCacheLine) __builtin_prefetch(later + b);
}

// The lines of one channel for the columns [begin, end) of the batch and the taps of a block. dy: the channel
// in sample 0.
template <class T, class A>
HWY_NOINLINE void LoadChannel(const SplitPanel& s, int64_t begin, int64_t end, int64_t tap_begin,
                              int64_t tap_end, const T* dy, A* panel) {
  const int64_t count = core::ceil_div(end - begin, dense::kColumnAlign) * dense::kColumnAlign + s.halo;
  const int64_t lines = s.expanded ? tap_end - tap_begin : s.lines, first = s.expanded ? tap_begin : 0;
  // Strides of 1 and 2 have vector loads of their own; there are no squares of 16-bit elements.
  constexpr bool kPairs = std::is_same_v<T, A> && sizeof(A) > 2;
  const bool squares = sizeof(A) > 2 && s.adjacent && s.stride > 2 && lines > 1;
  const bool pairs = kPairs && s.adjacent && s.stride == 2 && lines == 2 && !s.expanded;
  const bool by_masks = s.contiguous() && MasksSamples<T, A>(s.period);
  int64_t sample = begin / s.period, place = begin % s.period;
  for (int64_t done = 0; done < count; ++sample, place = 0) {
    if (by_masks && place == 0) {
      const int64_t samples = LoadWholeSamples(s, dy, first, lines, sample, count - done, panel + done);
      done += samples * s.period, sample += samples;
      if (done == count) break;
    }
    const int64_t run = std::min(count - done, s.period - place);
    if (s.from_memory && sample < s.n && run < kShortRun)
      FetchLater(s, dy + sample * s.sample_step, place, run);
    if (sample >= s.n) {
      for (int64_t line = 0; line < lines; ++line) std::fill_n(panel + line * s.line + done, run, A(0));
    } else if (squares) {
      if constexpr (sizeof(A) > 2) {
        LoadAdjacent(s, dy + sample * s.sample_step, first, lines, place, run, panel + done);
      }
    } else if (pairs) {
      if constexpr (kPairs) {
        LoadPair(s, dy + sample * s.sample_step, place, run, panel + done);
      }
    } else {
      LoadLines(s, dy + sample * s.sample_step, first, lines, place, run, panel + done);
    }
    done += run;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
