// Tiles of few products: sums begin at the bias in registers and go from there to dx. Through memory, an
// output of 5 products takes 2.5 cycles, half of them around its products.
#if defined(TCONV_STRIDED_DIRECT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_DIRECT_INL
#undef TCONV_STRIDED_DIRECT_INL
#else
#define TCONV_STRIDED_DIRECT_INL
#endif

#include "cpu/simd/convert-inl.hpp"
#include "cpu/strided/store-inl.hpp"
#include "cpu/strided/worker-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products of an output, at most: depths up to 64 gain 29% in the geometric mean (9 layers, Zen 3), longer
// ones up to 300 4% (6 layers). Beyond, the weights that other tiles fetch ahead count more. With AVX-512 on
// a Zen 5, where a call has 8 rows, depths up to 48 gain 26% (60 layers), from 64 to 512 5% (32), beyond
// nothing.
inline constexpr int64_t kDirectDepth = 512;

template <class A>
struct DirectTile {
  const A* panel;
  int64_t line, channels, taps;
  const int64_t* tap_offsets;
  const A* weights;  // packed
  const A* bias;
  A* out;
  int64_t out_line;
};

template <int R, int V, class A>
HWY_NOINLINE void MultiplyDirect(const DirectTile<A>& t) {
  const hn::ScalableTag<A> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) acc[r][v] = hn::Set(d, t.bias[r]);
  }
  const A *HWY_RESTRICT line = t.panel, *HWY_RESTRICT w = t.weights;
  const int64_t* const offsets = t.tap_offsets;
  const int64_t taps = t.taps, pitch = t.line;
  for (int64_t c = t.channels; c > 0; --c, line += pitch) {
    for (int64_t tap = 0; tap < taps; ++tap, w += kRows) {
      const A* const x = line + offsets[tap];
      Vec in[V];
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) in[v] = hn::LoadU(d, x + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec weight = hn::Set(d, w[r]);
#pragma GCC unroll 3
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(weight, in[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v)
      simd::HWY_NAMESPACE::StoreAs(d, acc[r][v], t.out + r * t.out_line + v * lanes);
  }
}

inline constexpr int kMostDirectRows = TCONV_32_REGISTERS ? 8 : 4;  // whose sums registers hold

// One call for the last rows, R or fewer: two calls would each have too few sums in flight. 3 -> 72, K5 L3595
// on the Zen 5: 0.091 ms by two rows and one, 0.072 by four of which one does not exist.
template <int R, int V, class A>
HWY_INLINE void MultiplyLast(const DirectTile<A>& t, int64_t rows) {
  if (rows == R) return MultiplyDirect<R, V>(t);
  if constexpr (R > 1) MultiplyLast<R - 1, V>(t, rows);
}

template <int V, class A>
HWY_INLINE void MultiplyRows(DirectTile<A> t, int64_t rows) {
  constexpr int kMost = kMostDirectRows;
  for (; rows > kMost; rows -= kMost) {
    MultiplyDirect<kMost, V>(t);
    t.weights += kMost, t.bias += kMost, t.out += kMost * t.out_line;
  }
  MultiplyLast<kMost, V>(t, rows);
}

// Computes a tile of `columns` whole vectors straight into dx and returns true; false: the tile crosses
// samples or ends in a part of a vector. nan: whether a sum at an end is.
template <class T, class A>
HWY_INLINE bool DoDirect(const Worker<T, A>& w, const Depth& depth, int64_t block, int64_t column,
                         int64_t columns, const A* weights, bool& nan) {
  if constexpr (!std::is_same_v<T, A>) {
    return false;
  } else {
    const core::Problem& p = w.job.problem;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<A>()));
    const int64_t at = w.task.column_begin + column, place = at % w.job.split.period;
    const int64_t rows = std::min(kRows, w.job.cin - block * kRows);
    if (place + columns > p.l || columns % lanes != 0) return false;
    const int64_t first = w.task.group * w.job.cin + block * kRows;
    T* const out = w.dx + (at / w.job.split.period * p.cin + first) * p.l + place;
    A bias[kRows] = {};
    for (int64_t r = 0; w.bias != nullptr && r < rows; ++r) bias[r] = start_of<T>(true, w.bias, first + r);
    DirectTile<A> t{w.panel + column,
                    w.job.split.channel(),
                    depth.channels(),
                    depth.taps(),
                    w.job.split.offsets.data() + depth.tap_begin,
                    weights,
                    bias,
                    out,
                    p.l};
    if (columns == lanes) {
      MultiplyRows<1>(t, rows);
    } else if (columns == 2 * lanes) {
      MultiplyRows<2>(t, rows);
    } else {
      MultiplyRows<3>(t, rows);
    }
    for (int64_t r = 0; r < rows; ++r) nan = nan || NanAtEnds(w.inside, out + r * p.l, place, columns);
    return true;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
