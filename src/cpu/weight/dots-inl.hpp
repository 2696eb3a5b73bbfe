// kRows x 6 sums of products along the depth.
#if defined(TCONV_WEIGHT_DOTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_WEIGHT_DOTS_INL
#undef TCONV_WEIGHT_DOTS_INL
#else
#define TCONV_WEIGHT_DOTS_INL
#endif

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

template <class D>
HWY_INLINE void AddLanes(D d, const Six<D>& sums, double* totals) {
  totals[0] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v0)));
  totals[1] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v1)));
  totals[2] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v2)));
  totals[3] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v3)));
  totals[4] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v4)));
  totals[5] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums.v5)));
}

// totals[row][column] += the sums over `count` places, a multiple of 16; rows of x lie x_line apart.
template <int kTileRows, class A>
HWY_NOINLINE void AddDots(const A* HWY_RESTRICT x, int64_t x_line, const Columns<A>& y, int64_t count,
                          double (*totals)[kTileColumns]) {
  using D = hn::ScalableTag<A>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Six<D> s0 = Zeros(d), s1 = Zeros(d), s2 = Zeros(d), s3 = Zeros(d);
  const A *y0 = y.at[0], *y1 = y.at[1], *y2 = y.at[2], *y3 = y.at[3], *y4 = y.at[4], *y5 = y.at[5];
  for (int64_t i = 0; i < count; i += lanes) {
    const Six<D> in{hn::LoadU(d, y0 + i), hn::LoadU(d, y1 + i), hn::LoadU(d, y2 + i),
                    hn::LoadU(d, y3 + i), hn::LoadU(d, y4 + i), hn::LoadU(d, y5 + i)};
    AddProducts(s0, hn::LoadU(d, x + i), in);
    if constexpr (kTileRows > 1) AddProducts(s1, hn::LoadU(d, x + x_line + i), in);
    if constexpr (kTileRows > 2) {
      AddProducts(s2, hn::LoadU(d, x + 2 * x_line + i), in);
      AddProducts(s3, hn::LoadU(d, x + 3 * x_line + i), in);
    }
  }
  AddLanes(d, s0, totals[0]);
  if constexpr (kTileRows > 1) AddLanes(d, s1, totals[1]);
  if constexpr (kTileRows > 2) {
    AddLanes(d, s2, totals[2]);
    AddLanes(d, s3, totals[3]);
  }
}

// rows: 4, 2 or 1.
template <class A>
HWY_INLINE void AddDots(int64_t rows, const A* x, int64_t x_line, const Columns<A>& y, int64_t count,
                        double (*totals)[kTileColumns]) {
  if (rows == 4) return AddDots<4>(x, x_line, y, count, totals);
  if (rows == 2) return AddDots<2>(x, x_line, y, count, totals);
  AddDots<1>(x, x_line, y, count, totals);
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
