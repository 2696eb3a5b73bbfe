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
// ones up to 300 4% (6 layers). Beyond, the weights that other tiles fetch ahead count more.
inline constexpr int64_t kDirectDepth = 512;
inline constexpr int64_t kDirectRows = 4;  // whose sums fit in 16 registers

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

template <int V, class A>
HWY_NOINLINE void MultiplyDirect(const DirectTile<A>& t) {
  const hn::ScalableTag<A> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[kDirectRows][V];
#pragma GCC unroll 4
  for (int r = 0; r < kDirectRows; ++r) {
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
#pragma GCC unroll 4
      for (int r = 0; r < kDirectRows; ++r) {
        const Vec weight = hn::Set(d, w[r]);
#pragma GCC unroll 3
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(weight, in[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kDirectRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v)
      simd::HWY_NAMESPACE::StoreAs(d, acc[r][v], t.out + r * t.out_line + v * lanes);
  }
}

// Computes a tile of `columns` whole vectors straight into dx and returns true; false: the tile crosses
// samples, or its rows do not fill calls. nan: whether a sum at an end is.
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
    if (place + columns > p.l || columns % lanes != 0 || rows % kDirectRows != 0) return false;
    const int64_t first = w.task.group * w.job.cin + block * kRows;
    T* const out = w.dx + (at / w.job.split.period * p.cin + first) * p.l + place;
    for (int64_t row = 0; row < rows; row += kDirectRows) {
      A bias[kDirectRows];
      for (int64_t r = 0; r < kDirectRows; ++r) {
        bias[r] = w.bias == nullptr ? A(0) : start_of<T>(true, w.bias, first + row + r);
      }
      const DirectTile<A> t{w.panel + column,
                            w.job.split.channel(),
                            depth.channels(),
                            depth.taps(),
                            w.job.split.offsets.data() + depth.tap_begin,
                            weights + row,
                            bias,
                            out + row * p.l,
                            p.l};
      if (columns == lanes) {
        MultiplyDirect<1>(t);
      } else if (columns == 2 * lanes) {
        MultiplyDirect<2>(t);
      } else {
        MultiplyDirect<3>(t);
      }
    }
    for (int64_t r = 0; r < rows; ++r) nan = nan || NanAtEnds(w.inside, out + r * p.l, place, columns);
    return true;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
