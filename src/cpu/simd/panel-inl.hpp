// The product of a panel of weights with columns of x, vectors along the weights' rows:
//
//   tile[c][row] (+)= sum over ci < depth, j < taps of panel[ci][j][row] * x[ci*x_pitch + c - j*x_step]
//
// A panel is at most kPanelVectors vectors of rows wide, a block of columns at most kPanelColumns: the
// accumulators, one panel row and one broadcast fill the registers. One FMA chain per element, in the order
// written, so that the bits do not depend on how rows, depth and columns are split.
#include <algorithm>

#include "cpu/simd/tiles-inl.hpp"

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
  bool add;  // to what the tile holds
};

template <int C, int kVectors, class D, class A, class W>
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
  const W* w = p.w;
  const A* x = p.x;
  for (int64_t ci = p.depth; ci > 0; --ci, x += p.x_pitch, w += p.w_pitch) {
    const A* xj = x;
    const W* wj = w;
    for (int64_t j = p.taps; j > 0; --j, xj -= p.x_step, wj += p.w_tap) {
      hn::Vec<D> wv[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) wv[v] = LoadAs(d, wj + v * lanes);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const auto xc = hn::Set(d, xj[c]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) acc[c][v] = hn::MulAdd(wv[v], xc, acc[c][v]);
      }
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

template <int kVectors, class D, class A, class W>
HWY_INLINE void PanelColumns(D d, const PanelOperands<A, W>& p, int64_t columns) {
  switch (columns) {
    case 1:
      return PanelBlock<1, kVectors>(d, p);
    case 2:
      return PanelBlock<2, kVectors>(d, p);
    case 3:
      return PanelBlock<3, kVectors>(d, p);
    case 4:
      return PanelBlock<4, kVectors>(d, p);
    case 5:
      return PanelBlock<5, kVectors>(d, p);
    default:
      return PanelBlock<6, kVectors>(d, p);
  }
}

// A panel of the full width.
template <class D, class A, class W>
HWY_INLINE void PanelProduct(D d, const PanelOperands<A, W>& p, int64_t columns) {
  PanelColumns<kPanelVectors>(d, p, columns);
}

template <class D, class A, class W>
HWY_INLINE void PanelProduct(D d, const PanelOperands<A, W>& p, int64_t columns, int64_t vectors) {
#if TCONV_32_REGISTERS
  if (vectors == 3) return PanelColumns<3>(d, p, columns);
  if (vectors == 2) return PanelColumns<2>(d, p, columns);
#endif
  if (vectors == 1) return PanelColumns<1>(d, p, columns);
  PanelColumns<kPanelVectors>(d, p, columns);
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
