// Y of a chunk through padded rows: one channel of dy at a time, its samples side by side with zeros around
// them, so that no tap misses its row.
#if defined(TCONV_OUTER_Y_PADDED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_OUTER_Y_PADDED_INL
#undef TCONV_OUTER_Y_PADDED_INL
#else
#define TCONV_OUTER_Y_PADDED_INL
#endif

#include <algorithm>
#include <array>

#include "cpu/outer/contract.hpp"
#include "cpu/outer/y_ahead-inl.hpp"
#include "cpu/simd/convert-inl.hpp"
#include "cpu/simd/interleave-inl.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::outer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A run of positions of one sample, and the outputs that its taps meet.
struct Piece {
  int64_t positions;
  int64_t padded;       // where its outputs begin in the padded row
  int64_t from, count;  // those that exist: their first one, from the sample's first channel on,
  int64_t to;           // and its place in the padded row
};

struct Pieces {
  std::array<Piece, kMostDepth> at;
  int64_t count = 0, elements = 0;
};

// Of the depth [begin, end).
HWY_INLINE void FindPieces(const Job& job, int64_t begin, int64_t end, Pieces& pieces) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  int64_t n = begin / p.l, i = begin % p.l;
  for (int64_t d = begin; d < end; ++n, i = 0) {
    const int64_t run = std::min(end - d, p.l - i), first = p.stride * i - p.padding;
    const int64_t width = p.stride * (run - 1) + p.dilation * (p.k - 1) + 1;
    const int64_t low = std::clamp<int64_t>(0, first, first + width);
    const int64_t high = std::clamp<int64_t>(job.lout, low, first + width);
    pieces.at[static_cast<std::size_t>(pieces.count++)] = {
        run, pieces.elements, n * steps[0] + low * steps[2], high - low, pieces.elements + low - first};
    pieces.elements += width;
    d += run;
  }
}

// Taps of one channel, side by side in one tile.
template <class A>
struct Taps {
  const A* row;  // padded, at the first tap
  int64_t count;
  int64_t room;  // columns of the tile from the first one on
  A* to;         // of the first position
};

// Positions of a piece, whose taps lie side by side: vectors of kLanes of them. What overhangs the last tap,
// the next channel overwrites.
template <int kLanes, class A>
HWY_INLINE void SpreadVectors(const Taps<A>& t, const Piece& piece, int64_t stride, A* to) {
  const hn::CappedTag<A, kLanes> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const A* row = t.row + piece.padded;
  if (t.count <= lanes) {  // without an inner loop
#pragma GCC unroll 4
    for (int64_t i = piece.positions; i > 0; --i, row += stride, to += kTile) {
      hn::StoreU(hn::LoadU(d, row), d, to);
    }
    return;
  }
  for (int64_t i = 0; i < piece.positions; ++i, row += stride, to += kTile) {
    for (int64_t c = 0; c < t.count; c += lanes) hn::StoreU(hn::LoadU(d, row + c), d, to + c);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Taps that lie apart, at stride 1: squares of four taps and four positions. What overhangs the last tap or
// position, the next one overwrites.
HWY_INLINE void SpreadSquares(const Taps<float>& t, const Piece& piece, int64_t dilation, float* to) {
  const hn::CappedTag<float, 4> d;
  for (int64_t c = 0; c < t.count; c += 4) {
    const int64_t last = t.count - c - 1;
    const float* a = t.row + piece.padded + c * dilation;
    const float *b = a + std::min<int64_t>(1, last) * dilation,
                *e = a + std::min<int64_t>(2, last) * dilation;
    const float* f = a + std::min<int64_t>(3, last) * dilation;
    for (int64_t i = 0; i < piece.positions; i += 4) {
      simd::HWY_NAMESPACE::StoreSquares(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, e + i),
                                        hn::LoadU(d, f + i), to + i * kTile + c, kTile);
    }
  }
}
HWY_INLINE constexpr bool SquaresOf(const float*) {
  return true;
}
#else
HWY_INLINE void SpreadSquares(const Taps<float>&, const Piece&, int64_t, float*) {}
HWY_INLINE constexpr bool SquaresOf(const float*) {
  return false;
}
#endif
HWY_INLINE void SpreadSquares(const Taps<double>&, const Piece&, int64_t, double*) {}
HWY_INLINE constexpr bool SquaresOf(const double*) {
  return false;
}

template <class A>
HWY_INLINE void SpreadScalars(const Taps<A>& t, const Piece& piece, int64_t stride, int64_t dilation, A* to) {
  const A* row = t.row + piece.padded;
  for (int64_t i = 0; i < piece.positions; ++i, row += stride, to += kTile) {
    for (int64_t c = 0; c < t.count; ++c) to[c] = row[c * dilation];
  }
}

template <class A>
HWY_INLINE void SpreadTaps(const core::Problem& p, const Taps<A>& t, const Pieces& pieces) {
  const int64_t lanes = t.count <= 4 ? 4 : t.count <= 8 ? 8 : 16, whole = (t.count + lanes - 1) & -lanes;
  const bool vectors = p.dilation == 1 && t.count > 1 && whole <= t.room;
  const bool squares = SquaresOf(t.to) && p.stride == 1 && t.count > 1 && ((t.count + 3) & -4) <= t.room;
  A* to = t.to;
  for (int64_t j = 0; j < pieces.count; ++j) {
    const Piece& piece = pieces.at[static_cast<std::size_t>(j)];
    if (vectors && lanes == 4) {
      SpreadVectors<4>(t, piece, p.stride, to);
    } else if (vectors && lanes == 8) {
      SpreadVectors<8>(t, piece, p.stride, to);
    } else if (vectors) {
      SpreadVectors<16>(t, piece, p.stride, to);
    } else if (squares) {
      SpreadSquares(t, piece, p.dilation, to);
    } else {
      SpreadScalars(t, piece, p.stride, p.dilation, to);
    }
    to += piece.positions * kTile;
  }
}

// Y for the depth [begin, end). dy: of the group, in sample 0. row: scratch for the padded row.
template <class T, class A>
HWY_NOINLINE void LoadPadded(const Job& job, const Task& task, const T* dy, int64_t begin, int64_t end, A* y,
                             A* row) {
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t depth = end - begin, columns = task.column_end - task.column_begin;
  Pieces pieces;
  FindPieces(job, begin, end, pieces);
  std::fill(row, row + pieces.elements + kSlack, A(0));  // channels overwrite what exists, always the same
  const YAhead<T> ahead(job, task, dy, begin, end);
  int64_t loaded = -1;
  for (int64_t column = 0; column < columns;) {
    const int64_t at = task.column_begin + column, co = at / p.k, k = at % p.k, place = column % kTile;
    const int64_t count = std::min({p.k - k, kTile - place, columns - column});
    if (loaded != co) ahead.fetch(co);
    for (int64_t j = 0; j < pieces.count && loaded != co; ++j) {
      const Piece& piece = pieces.at[static_cast<std::size_t>(j)];
      simd::HWY_NAMESPACE::CopyShort(dy + co * steps[1] + piece.from, steps[2], piece.count, row + piece.to);
    }
    loaded = co;
    const Taps<A> taps{row + k * p.dilation, count, kTile - place,
                       y + column / kTile * kTile * depth + place};
    SpreadTaps(p, taps, pieces);
    column += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::outer
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
