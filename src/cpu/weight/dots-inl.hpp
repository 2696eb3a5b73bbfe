// kRows x 6 sums of products along the depth.
#if defined(TCONV_WEIGHT_DOTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_WEIGHT_DOTS_INL
#undef TCONV_WEIGHT_DOTS_INL
#else
#define TCONV_WEIGHT_DOTS_INL
#endif

#include "cpu/simd/lanes-inl.hpp"
#include "cpu/simd/targets.hpp"
#include "cpu/weight/contract.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::weight {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class A>
struct Columns {
  const A* at[kTileColumns];
};

// Rows of x, `line` apart, of which the first `whole` columns lie there. The next 16, zeros where there are
// none, are the rows of `tail`, unless it is null. Of every `period` columns, a multiple of 16, the first
// `used` are multiplied.
template <class A>
struct Rows {
  const A* first;
  int64_t line, whole;
  const A* tail;
  int64_t used, period;

  Rows from(int64_t row) const {
    return {first + row * line, line, whole, tail ? tail + 16 * row : nullptr, used, period};
  }
};

// Named members rather than an array: compilers keep these in registers.
template <class D>
struct Six {
  hn::Vec<D> v0, v1, v2, v3, v4, v5;
};

template <class D>
HWY_INLINE Six<D> Zeros(D d) {
  const auto zero = hn::Zero(d);
  return {zero, zero, zero, zero, zero, zero};
}

template <class D>
HWY_INLINE void AddProducts(Six<D>& sums, hn::Vec<D> x, const Six<D>& y) {
  sums.v0 = hn::MulAdd(x, y.v0, sums.v0);
  sums.v1 = hn::MulAdd(x, y.v1, sums.v1);
  sums.v2 = hn::MulAdd(x, y.v2, sums.v2);
  sums.v3 = hn::MulAdd(x, y.v3, sums.v3);
  sums.v4 = hn::MulAdd(x, y.v4, sums.v4);
  sums.v5 = hn::MulAdd(x, y.v5, sums.v5);
}

// totals[row][column] += the sums over the lanes of `sums`.
template <int kTileRows, class D, class A = hn::TFromD<D>>
HWY_INLINE void AddLanes(D d, const Six<D> (&sums)[kTileRows], double (*totals)[kTileColumns]) {
  constexpr int kSums = kTileRows * kTileColumns, kLanes = static_cast<int>(hn::MaxLanes(d));
  hn::Vec<D> v[kSums];
#pragma GCC unroll 4
  for (int r = 0; r < kTileRows; ++r) {
    const Six<D>& s = sums[r];
    hn::Vec<D>* const row = v + r * kTileColumns;
    row[0] = s.v0, row[1] = s.v1, row[2] = s.v2, row[3] = s.v3, row[4] = s.v4, row[5] = s.v5;
  }
  simd::HWY_NAMESPACE::AddLanes<kSums>(d, v);
  A out[(kSums + kLanes - 1) / kLanes * kLanes];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; i += kLanes) hn::StoreU(v[i / kLanes], d, out + i);
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) totals[i / kTileColumns][i % kTileColumns] += static_cast<double>(out[i]);
}

// totals[row][column] += the sums over the columns of x, multiples of 16.
template <int kTileRows, class A>
HWY_NOINLINE void AddDots(const Rows<A>& x, const Columns<A>& y, double (*totals)[kTileColumns]) {
  using D = hn::ScalableTag<A>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Six<D> s0 = Zeros(d), s1 = Zeros(d), s2 = Zeros(d), s3 = Zeros(d);
  const A *y0 = y.at[0], *y1 = y.at[1], *y2 = y.at[2], *y3 = y.at[3], *y4 = y.at[4], *y5 = y.at[5];
  const auto add = [&](int64_t i, const A* HWY_RESTRICT from, int64_t line) HWY_ATTR {
    const Six<D> in{hn::LoadU(d, y0 + i), hn::LoadU(d, y1 + i), hn::LoadU(d, y2 + i),
                    hn::LoadU(d, y3 + i), hn::LoadU(d, y4 + i), hn::LoadU(d, y5 + i)};
    AddProducts(s0, hn::LoadU(d, from), in);
    if constexpr (kTileRows > 1) AddProducts(s1, hn::LoadU(d, from + line), in);
    if constexpr (kTileRows > 2) {
      AddProducts(s2, hn::LoadU(d, from + 2 * line), in);
      AddProducts(s3, hn::LoadU(d, from + 3 * line), in);
    }
  };
  const A* const first = x.first;
  const int64_t whole = x.whole, line = x.line;
  for (int64_t sample = 0; sample < whole; sample += x.period) {
    const int64_t end = std::min(whole, sample + x.used);
    for (int64_t i = sample; i < end; i += lanes) add(i, first + i, line);
  }
  for (int64_t i = 0; x.tail != nullptr && i < 16; i += lanes) add(whole + i, x.tail + i, 16);
  if constexpr (kTileRows == 1) AddLanes<1>(d, {s0}, totals);
  if constexpr (kTileRows == 2) AddLanes<2>(d, {s0, s1}, totals);
  if constexpr (kTileRows == 4) AddLanes<4>(d, {s0, s1, s2, s3}, totals);
}

// rows: 4, 2 or 1.
template <class A>
HWY_INLINE void AddDots(int64_t rows, const Rows<A>& x, const Columns<A>& y, double (*totals)[kTileColumns]) {
  if (rows == 4) return AddDots<4>(x, y, totals);
  if (rows == 2) return AddDots<2>(x, y, totals);
  AddDots<1>(x, y, totals);
}

#if TCONV_32_REGISTERS
inline constexpr int64_t kTileRows = 4;
#else
inline constexpr int64_t kTileRows = 2;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::weight
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
