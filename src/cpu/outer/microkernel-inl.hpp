// C[row][column] (+)= sum over the depth of X[row][d] * Y[d][column], one chain per element, in order.
#if defined(TCONV_OUTER_MICROKERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_OUTER_MICROKERNEL_INL
#undef TCONV_OUTER_MICROKERNEL_INL
#else
#define TCONV_OUTER_MICROKERNEL_INL
#endif

#include "cpu/outer/contract.hpp"
#include "cpu/simd/targets.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows whose sums, three vectors each, fit in the registers.
#if TCONV_32_REGISTERS
constexpr int kBlockRows = 8;
#else
constexpr int kBlockRows = 4;
#endif

template <class A>
struct Block {
  const A* x;
  int64_t x_line;
  const A* y;  // lines of kTile
  int64_t depth;
  A* sums;   // lines of kTile
  bool add;  // to the values in sums
};

template <int R, int V, class A>
HWY_NOINLINE void Multiply(const Block<A>& b) {
  const hn::ScalableTag<A> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      acc[r][v] = b.add ? hn::LoadU(d, b.sums + r * kTile + v * lanes) : hn::Zero(d);
    }
  }
  const A *x = b.x, *y = b.y;
  const int64_t line = b.x_line;
  for (int64_t i = b.depth; i > 0; --i, ++x, y += kTile) {
    Vec yv[V];
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) yv[v] = hn::LoadU(d, y + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec xr = hn::Set(d, x[r * line]);
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(xr, yv[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) hn::StoreU(acc[r][v], d, b.sums + r * kTile + v * lanes);
  }
}

template <int R, class A>
HWY_INLINE void MultiplyRows(const Block<A>& b, int64_t vectors) {
  if (vectors == 1) return Multiply<R, 1>(b);
  if (vectors == 2) return Multiply<R, 2>(b);
  Multiply<R, 3>(b);
}

// rows: 1 to kRows; vectors: 1 to 3. Rows up to the next power of two are read and written.
template <class A>
HWY_INLINE void MultiplyBlock(Block<A> b, int64_t rows, int64_t vectors) {
  if (rows == 1) return MultiplyRows<1>(b, vectors);
  if (rows == 2) return MultiplyRows<2>(b, vectors);
  if (rows <= 4) return MultiplyRows<4>(b, vectors);
  for (int64_t r = 0; r < kRows; r += kBlockRows) {
    MultiplyRows<kBlockRows>(b, vectors);
    b.x += kBlockRows * b.x_line;
    b.sums += kBlockRows * kTile;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
