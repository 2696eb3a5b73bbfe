// The product of a panel of weights with columns of x, vectors along the weights' rows:
//
//   tile[c][row] (+)= sum over ci < depth, j < taps of panel[ci][j][row] * x[ci*x_pitch + c - j*x_step]
//
// A panel is at most kPanelVectors vectors of rows wide, a block of columns at most kPanelColumns: the
// accumulators, one panel row and one broadcast fill the registers. One FMA chain per element, in the order
// written, so that the bits do not depend on how rows, depth and columns are split.
#include <algorithm>

#include "cpu/simd/tiles-inl.hpp"
#include "hwy/cache_control.h"

#if defined(TCONV_CPU_SIMD_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_CPU_SIMD_PANEL_INL_H
#undef TCONV_CPU_SIMD_PANEL_INL_H
#else
#define TCONV_CPU_SIMD_PANEL_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kPanelColumns = 6;
#if TCONV_32_REGISTERS
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif

// A narrower panel with more columns.
#if TCONV_32_REGISTERS
constexpr int kWideColumns = 8, kWideVectors = 3;
#else
constexpr int kWideColumns = kPanelColumns, kWideVectors = kPanelVectors;
#endif

template <class D>
HWY_INLINE int64_t PanelRows(D d) {
  return kPanelVectors * static_cast<int64_t>(hn::Lanes(d));
}

// W: the weights' type, which is widened as it is loaded.
template <class A, class W = A>
struct PanelOperands {
  const W* w;
  int64_t w_tap, w_pitch;  // from one j to the next, and from one ci
  const A* x;
  int64_t x_pitch, x_step;
  int64_t depth, taps;
  A* tile;
  int64_t tile_pitch;
  bool add;                  // to the values in the tile
  const W* ahead = nullptr;  // with one tap and several columns: what to prefetch; null: nothing
};

template <int C, int kVectors, bool kOneTap = false, class D, class A, class W>
HWY_NOINLINE void PanelBlock(D d, const PanelOperands<A, W>& p) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[C][kVectors];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[c][v] = p.add ? hn::LoadU(d, p.tile + c * p.tile_pitch + v * lanes) : hn::Zero(d);
    }
  }
  const auto step = [&](const W* HWY_RESTRICT w, const A* HWY_RESTRICT x) HWY_ATTR {
    hn::Vec<D> wv[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) wv[v] = LoadAs(d, w + v * lanes);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const auto xc = hn::Set(d, x[c]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[c][v] = hn::MulAdd(wv[v], xc, acc[c][v]);
    }
  };
  const W* w = p.w;
  const A* x = p.x;
  if constexpr (kOneTap) {
    const W* ahead = C > 1 ? p.ahead : nullptr;
    for (int64_t ci = p.depth; ci > 0; --ci, x += p.x_pitch, w += p.w_pitch) {
      if (C > 1 && ahead != nullptr) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) hwy::Prefetch(ahead + v * lanes);
        ahead += p.w_pitch;
      }
      step(w, x);
    }
  } else {
    for (int64_t ci = p.depth; ci > 0; --ci, x += p.x_pitch, w += p.w_pitch) {
      const A* xj = x;
      const W* wj = w;
      for (int64_t j = p.taps; j > 0; --j, xj -= p.x_step, wj += p.w_tap) step(wj, xj);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(acc[c][v], d, p.tile + c * p.tile_pitch + v * lanes);
    }
  }
}

template <int kVectors, bool kOneTap = false, class D, class A, class W>
HWY_INLINE void PanelColumns(D d, const PanelOperands<A, W>& p, int64_t columns) {
  switch (columns) {
    case 1:
      return PanelBlock<1, kVectors, kOneTap>(d, p);
    case 2:
      return PanelBlock<2, kVectors, kOneTap>(d, p);
    case 3:
      return PanelBlock<3, kVectors, kOneTap>(d, p);
    case 4:
      return PanelBlock<4, kVectors, kOneTap>(d, p);
    case 5:
      return PanelBlock<5, kVectors, kOneTap>(d, p);
    default:
      return PanelBlock<6, kVectors, kOneTap>(d, p);
  }
}

template <bool kOneTap = false, class D, class A, class W>
HWY_INLINE void PanelProduct(D d, const PanelOperands<A, W>& p, int64_t columns, int64_t vectors) {
#if TCONV_32_REGISTERS
  if (vectors == 4) return PanelColumns<4, kOneTap>(d, p, columns);
  if (vectors == 3) return PanelColumns<3, kOneTap>(d, p, columns);
#endif
  if (vectors == 2) return PanelColumns<2, kOneTap>(d, p, columns);
  PanelColumns<1, kOneTap>(d, p, columns);
}

// At most kWideVectors vectors, up to kWideColumns columns.
template <bool kOneTap = false, class D, class A, class W>
HWY_INLINE void WidePanelProduct(D d, const PanelOperands<A, W>& p, int64_t columns, int64_t vectors) {
#if TCONV_32_REGISTERS
  if (columns > kPanelColumns) {
    if (vectors == 3) return columns == 8 ? PanelBlock<8, 3, kOneTap>(d, p) : PanelBlock<7, 3, kOneTap>(d, p);
    if (vectors == 2) return columns == 8 ? PanelBlock<8, 2, kOneTap>(d, p) : PanelBlock<7, 2, kOneTap>(d, p);
    return columns == 8 ? PanelBlock<8, 1, kOneTap>(d, p) : PanelBlock<7, 1, kOneTap>(d, p);
  }
#endif
  PanelProduct<kOneTap>(d, p, columns, vectors);
}

// One row of a panel of `width` rows: `rows` elements widened, then zeros.
template <class D, class T, class A = hn::TFromD<D>>
HWY_INLINE void PackPanelRow(D d, const T* w, int64_t rows, int64_t width, A* HWY_RESTRICT out) {
  if (rows >= width) return WidenRow(d, w, 1, width, out);
  WidenRow(d, w, 1, rows, out);
  std::fill(out + rows, out + width, A{0});
}

}  // namespace tconv::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
