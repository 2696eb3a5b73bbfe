// Stores the sums of a row block in dx.
#if defined(TCONV_STRIDED_STORE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_STORE_INL
#undef TCONV_STRIDED_STORE_INL
#else
#define TCONV_STRIDED_STORE_INL
#endif

#include <algorithm>

#include "cpu/common/short_vectors.hpp"
#include "cpu/simd/tiles-inl.hpp"
#include "cpu/strided/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
HWY_INLINE bool HasNan(const A* values, int64_t count) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, values + i);
    if (!hn::AllTrue(d, hn::Eq(v, v))) return true;
  }
  for (; i < count; ++i) {
    if (values[i] != values[i]) return true;
  }
  return false;
}

// Whether a sum of a row at the positions [place, place + count) is NaN where taps lie outside dy. An
// infinite or NaN weight times a zero shows there and nowhere else, so raw weights need not be searched.
template <class A>
HWY_INLINE bool NanAtEnds(const Inside& inside, const A* sums, int64_t place, int64_t count) {
  const int64_t before = std::clamp<int64_t>(inside.begin - place, 0, count);
  const int64_t after = std::clamp<int64_t>(inside.end - place, before, count);
  return HasNan(sums, before) || HasNan(sums + after, count - after);
}

// Whether the lines of dx are fetched when a tile begins: on a Zen 3 eight layers of 64 to 1024 channels gain
// 5%, and 64 -> 32, K2 s2 20%. With 5 products an output it would lose 15%. With AVX-512 on a Zen 5, 60
// layers lose 1%, those of up to 128 products up to 4%.
template <class A>
inline constexpr bool kFetchOutputs = short_vectors(sizeof(hn::Vec<hn::ScalableTag<A>>));
inline constexpr int64_t kFetchDepth = 32;

// Fetches the lines of dx in which a tile's first sample ends up, while the tile is multiplied.
template <class T>
HWY_INLINE void FetchOutputs(const Job& job, const Task& task, int64_t block, int64_t column, int64_t columns,
                             const T* dx) {
  const core::Problem& p = job.problem;
  const int64_t sample = (task.column_begin + column) / job.split.period,
                place = (task.column_begin + column) % job.split.period;
  const int64_t count = std::min(columns, p.l - place), rows = std::min(kRows, job.cin - block * kRows);
  const T* to = dx + (sample * p.cin + task.group * job.cin + block * kRows) * p.l + place;
  for (int64_t row = 0; count > 0 && row < rows; ++row, to += p.l) {
    for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(to + i, 1, 3);
    __builtin_prefetch(to + count - 1, 1, 3);
  }
}

// Stores `count` elements of each row.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void StoreRows(D d, const A* from, int64_t from_line, int64_t rows, int64_t count, T* to,
                          int64_t to_line) {
#if HWY_TARGET <= HWY_AVX3
  // All rows of a short sample have the same mask: 2 -> 1024, K3 s2, 128 samples of 7 positions, takes
  // 0.67 of the time on a Zen 5.
  if constexpr (std::is_same_v<T, A>) {
    if (count <= static_cast<int64_t>(hn::Lanes(d))) {
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
      for (; rows > 0; --rows, from += from_line, to += to_line) {
        hn::BlendedStore(simd::HWY_NAMESPACE::Canonical(d, hn::MaskedLoad(mask, d, from)), mask, d, to);
      }
      return;
    }
  }
#endif
  for (; rows > 0; --rows, from += from_line, to += to_line) {
    simd::HWY_NAMESPACE::NarrowRow(d, from, count, to);
  }
}

// Stores rows of C in dx, without the columns between samples. Returns whether a sum at an end of dy is NaN.
template <class T, class A>
HWY_INLINE bool StoreBlock(const Job& job, const Task& task, const Inside& inside, int64_t block,
                           int64_t column, int64_t columns, const A* sums, int64_t sums_line, T* dx) {
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const int64_t period = job.split.period, rows = std::min(kRows, job.cin - block * kRows);
  int64_t sample = (task.column_begin + column) / period, place = (task.column_begin + column) % period;
  // Of short samples, every few positions would be looked at for a NaN at an end: all rows at once instead.
  bool ends = place + columns <= p.l;
  for (int64_t row = 0; !ends && row < rows; ++row) ends = HasNan(sums + row * sums_line, columns);
  bool nan = false;
  for (int64_t done = 0; done < columns; ++sample, place = 0) {
    const int64_t run = std::min(columns - done, period - place), count = std::min(run, p.l - place);
    T* to = dx + (sample * p.cin + task.group * job.cin + block * kRows) * p.l + place;
    if (count > 0) StoreRows(d, sums + done, sums_line, rows, count, to, p.l);
    for (int64_t row = 0; ends && count > 0 && row < rows; ++row) {
      nan = nan || NanAtEnds(inside, sums + row * sums_line + done, place, count);
    }
    done += run;
  }
  return nan;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
