// Sums of one tap: rows of weights times a tile of columns, one chain of multiply-adds per element.
#if defined(TCONV_STRIDED_POINT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_POINT_INL
#undef TCONV_STRIDED_POINT_INL
#else
#define TCONV_STRIDED_POINT_INL
#endif

#include <algorithm>

#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/simd/convert-inl.hpp"
#include "cpu/strided/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using dense::HWY_NAMESPACE::LinesAhead;

template <class A>
struct PointTile {
  const A* x;      // at the first channel
  int64_t x_line;  // from one channel to the next
  int64_t channels;
  A* copy;  // with kCopy: where x goes, kMaxTile elements from one channel to the next
  A* out;
  int64_t line;     // from one row of out to the next
  bool add;         // to the values in out
  const A* bias;    // of the rows, where sums begin otherwise
  int64_t fetches;  // of a line of the next strip each
};

// Rows whose sums, three vectors each, fit in the registers.
inline constexpr int kPointRows = TCONV_32_REGISTERS ? 8 : 4;
inline constexpr int64_t kChannelsAFetch = 2;  // of a line that a later tile reads
inline constexpr int64_t kTileChannelsAhead = 8;

template <int R, int V, bool kCopy, class A, class Weights>
HWY_NOINLINE void MultiplyPoint(const PointTile<A>& t, Weights weights, LinesAhead& of_later) {
  const hn::ScalableTag<A> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) __builtin_prefetch(t.out + r * t.line + v * lanes, 1, 3);
  }
  Vec acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      acc[r][v] = t.add ? hn::LoadU(d, t.out + r * t.line + v * lanes) : hn::Set(d, t.bias[r]);
    }
  }
  const A* HWY_RESTRICT x = t.x;
  A* HWY_RESTRICT copy = t.copy;
  LinesAhead ahead = of_later;
  int64_t fetches = t.fetches;
  const int64_t line = kCopy ? t.x_line : kMaxTile;
  for (int64_t left = t.channels; left > 0; left -= kChannelsAFetch) {
    if (fetches-- > 0) ahead.fetch(1);
    for (int64_t c = std::min(left, kChannelsAFetch); c > 0; --c, x += line, weights.next_tap()) {
      if constexpr (!kCopy && dense::HWY_NAMESPACE::kFetchColumns<decltype(d)>) {
#pragma GCC unroll 3
        for (int v = 0; v < V; ++v) {
          __builtin_prefetch(x + kTileChannelsAhead * kMaxTile + v * lanes, 0, 3);
        }
      }
      Vec in[V];
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) in[v] = hn::LoadU(d, x + v * lanes);
      if constexpr (kCopy) {
#pragma GCC unroll 3
        for (int v = 0; v < V; ++v) hn::StoreU(in[v], d, copy + v * lanes);
        copy += kMaxTile;
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec w = hn::Set(d, *weights.row(r));
#pragma GCC unroll 3
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(w, in[v], acc[r][v]);
      }
    }
  }
  of_later = ahead;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) simd::HWY_NAMESPACE::StoreAs(d, acc[r][v], t.out + r * t.line + v * lanes);
  }
}

template <int R, class A, class Weights>
HWY_INLINE void MultiplyPointVecs(const PointTile<A>& t, const Weights& weights, int64_t vecs,
                                  LinesAhead& ahead) {
  if constexpr (!Weights::kInPlace) {
    if (t.copy != nullptr) return MultiplyPoint<R, 3, true>(t, weights, ahead);
  }
  if (vecs == 3) return MultiplyPoint<R, 3, false>(t, weights, ahead);
  if (vecs == 2) return MultiplyPoint<R, 2, false>(t, weights, ahead);
  MultiplyPoint<R, 1, false>(t, weights, ahead);
}

// rows: those of the block's eight that exist. Rows up to the next of 1, 4 and 8 are written. Packed weights
// and three vectors may copy x.
template <class A, class Weights>
HWY_INLINE void MultiplyPointBlock(PointTile<A> t, Weights weights, int64_t rows, int64_t vecs,
                                   LinesAhead& ahead) {
  if (rows == 1) return MultiplyPointVecs<1>(t, weights, vecs, ahead);
  if (rows <= 4) return MultiplyPointVecs<4>(t, weights, vecs, ahead);
  MultiplyPointVecs<kPointRows>(t, weights, vecs, ahead);
  if constexpr (kPointRows == 4) {
    if (t.copy != nullptr) t.x = t.copy, t.copy = nullptr;
    weights.skip(4);
    t.out += 4 * t.line, t.bias += 4;
    MultiplyPointVecs<4>(t, weights, vecs, ahead);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
