// From C to y: bias, residues side by side, conversion, and only outputs in [0, lout).
#if defined(TCONV_DENSE_EPILOGUE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_EPILOGUE_INL
#undef TCONV_DENSE_EPILOGUE_INL
#else
#define TCONV_DENSE_EPILOGUE_INL
#endif

#include <algorithm>
#include <type_traits>

#include "core/polyphase.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/dense/ranges-inl.hpp"
#include "cpu/simd/interleave-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// A run of a tile's columns that lies in one sample.
struct Segment {
  int64_t sample, q, column, count;  // first Q, first column in the tile
};

struct Segments {
  Segment at[kMaxTile];  // none if all columns lie between samples
  int64_t count = 0;
};

// The columns [begin, begin + count) of the batch, without those between samples. The result goes to `out`:
// copying so large a struct takes as long as a small tile's products.
HWY_INLINE void FindSegments(const Geometry& g, const Config& c, int64_t begin, int64_t count,
                             Segments& out) {
  out.count = 0;
  int64_t sample = begin / c.period, place = begin % c.period;
  for (int64_t done = 0; done < count; ++sample, place = 0) {
    const int64_t run = std::min(count - done, c.period - place);
    const int64_t valid = std::min(run, g.q_count - place);
    if (valid > 0) out.at[out.count++] = {sample, g.q_first + place, done, valid};
    done += run;
  }
}

// The rows of C of one cout, by output phase: phase f is residue f/dilation if that is a whole number and
// exists.
template <class A>
struct Phases {
  const A* sums;  // of the tile, first row of the unit
  int64_t sums_line;
  int64_t dilation, residues;
  int64_t first1;      // residues from here on are of class 1
  int64_t row0, row1;  // C row of the cout's first residue in each class
  A bias;

  HWY_INLINE const A* row(int64_t phase) const {
    const int64_t residue = dilation == 1 ? phase : phase / dilation;
    if (residue >= residues || residue * dilation != phase) return nullptr;
    return sums + (residue < first1 ? row0 + residue : row1 + residue - first1) * sums_line;
  }
};

// The value as y stores it if y holds accumulators; otherwise conversion is still to come, and it makes NaN
// canonical.
template <class T, class D, class A>
HWY_INLINE hn::Vec<D> Biased(D d, const A* row, int64_t column, hn::Vec<D> bias) {
  const auto v = row == nullptr ? bias : hn::Add(hn::LoadU(d, row + column), bias);
  if constexpr (std::is_same_v<T, A>) return Canonical(d, v);
  return v;
}

template <class T, class A>
HWY_INLINE void InterleaveScalar(const Phases<A>& p, int64_t stride, int64_t columns, A* to) {
  for (int64_t phase = 0; phase < stride; ++phase) {
    const A* row = p.row(phase);
    for (int64_t i = 0; i < columns; ++i) {
      const A v = row == nullptr ? p.bias : row[i] + p.bias;
      to[i * stride + phase] = std::is_same_v<T, A> ? core::canonical(v) : v;
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Phases phase to phase+3 of `columns` columns, a multiple of 4: 4x4 transposes.
template <class T>
HWY_INLINE void InterleaveQuad(const Phases<float>& p, int64_t phase, int64_t stride, int64_t column,
                               int64_t columns, float* to) {
  const hn::FixedTag<float, 4> d;
  const auto bias = hn::Set(d, p.bias);
  const float* row0 = p.row(phase);
  const float* row1 = phase + 1 < stride ? p.row(phase + 1) : nullptr;
  const float* row2 = phase + 2 < stride ? p.row(phase + 2) : nullptr;
  const float* row3 = phase + 3 < stride ? p.row(phase + 3) : nullptr;
  float* at = to + column * stride + phase;
  for (int64_t i = column; i < column + columns; i += 4, at += 4 * stride) {
    const auto v0 = Biased<T>(d, row0, i, bias), v1 = Biased<T>(d, row1, i, bias);
    const auto v2 = Biased<T>(d, row2, i, bias), v3 = Biased<T>(d, row3, i, bias);
    simd::HWY_NAMESPACE::StoreSquares(d, v0, v1, v2, v3, at, stride);
  }
}

// If 4 does not divide the stride, the last quad spills into the next position. What it spills is
// overwritten: within a step of columns phases are stored in falling order, and the steps in order. `to` has
// room for 3 more elements.
template <class T>
HWY_INLINE void InterleaveQuads(const Phases<float>& p, int64_t stride, int64_t columns, float* to) {
  constexpr int64_t kStep = 16;
  for (int64_t i = 0; i < columns; i += kStep) {
    for (int64_t phase = (stride - 1) / 4 * 4; phase >= 0; phase -= 4) {
      InterleaveQuad<T>(p, phase, stride, i, std::min(kStep, columns - i), to);
    }
  }
}
#endif

template <class T, class V, class A>
HWY_INLINE void InterleaveTwo(const Phases<A>& p, int64_t columns, V bias, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const A *row0 = p.row(0), *row1 = p.row(1);
  if (row0 != nullptr && row1 != nullptr) {
    for (int64_t i = 0; i < columns; i += lanes) {
      simd::HWY_NAMESPACE::StorePairs(d, Biased<T>(d, row0, i, bias), Biased<T>(d, row1, i, bias),
                                      to + 2 * i);
    }
    return;
  }
  // One phase has no taps: its outputs are the bias.
  const auto alone = Biased<T>(d, static_cast<const A*>(nullptr), 0, bias);
  for (int64_t i = 0; i < columns; i += lanes) {
    const auto even = row0 == nullptr ? alone : Biased<T>(d, row0, i, bias);
    const auto odd = row1 == nullptr ? alone : Biased<T>(d, row1, i, bias);
    simd::HWY_NAMESPACE::StorePairs(d, even, odd, to + 2 * i);
  }
}

// Strides whose phases whole vectors interleave, by permutations.
template <class A>
HWY_INLINE bool HasSteps(int64_t stride) {
  return simd::HWY_NAMESPACE::kStoresSteps<hn::ScalableTag<A>> &&
         (stride == 3 || stride == 5 || stride == 6 || stride == 10);
}

template <class T, int S, class V, class A>
HWY_INLINE void InterleaveStep(const Phases<A>& p, int64_t columns, V bias, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const A* rows[S];
  for (int r = 0; r < S; ++r) rows[r] = p.row(r);
  for (int64_t i = 0; i < columns; i += lanes) {
    V v[S];
#pragma GCC unroll 10
    for (int r = 0; r < S; ++r) v[r] = Biased<T>(d, rows[r], i, bias);
    if constexpr (S % 2 == 1) {
      simd::HWY_NAMESPACE::StoreStep<S>(d, v, to + S * i);
    } else {
      simd::HWY_NAMESPACE::StoreTwoSteps<S / 2>(d, v, to + S * i);
    }
  }
}

template <class T, class V, class A>
HWY_INLINE void InterleaveSteps(const Phases<A>& p, int64_t stride, int64_t columns, V bias, A* to) {
  if constexpr (simd::HWY_NAMESPACE::kStoresSteps<hn::ScalableTag<A>>) {
    if (stride == 3) return InterleaveStep<T, 3>(p, columns, bias, to);
    if (stride == 5) return InterleaveStep<T, 5>(p, columns, bias, to);
    if (stride == 6) return InterleaveStep<T, 6>(p, columns, bias, to);
    InterleaveStep<T, 10>(p, columns, bias, to);
  }
}

// to[column*stride + phase]; columns are whole vectors.
template <class T, class A>
HWY_INLINE void Interleave(const Phases<A>& p, int64_t stride, int64_t columns, A* to) {
  const hn::ScalableTag<A> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bias = hn::Set(d, p.bias);
  if (stride == 1) {
    const A* row = p.row(0);
    for (int64_t i = 0; i < columns; i += lanes) hn::StoreU(Biased<T>(d, row, i, bias), d, to + i);
  } else if (stride == 2) {
    InterleaveTwo<T>(p, columns, bias, to);
  } else if (HasSteps<A>(stride)) {
    InterleaveSteps<T>(p, stride, columns, bias, to);
  } else if (stride == 4) {
    const A *row0 = p.row(0), *row1 = p.row(1), *row2 = p.row(2), *row3 = p.row(3);
    for (int64_t i = 0; i < columns; i += lanes) {
      simd::HWY_NAMESPACE::StoreQuads(d, Biased<T>(d, row0, i, bias), Biased<T>(d, row1, i, bias),
                                      Biased<T>(d, row2, i, bias), Biased<T>(d, row3, i, bias), to + 4 * i);
    }
#if HWY_TARGET != HWY_SCALAR
  } else if constexpr (std::is_same_v<A, float>) {
    InterleaveQuads<T>(p, stride, columns, to);
#endif
  } else {
    InterleaveScalar<T>(p, stride, columns, to);
  }
}

// One cout of a whole unit; columns are whole vectors. It goes straight to y if the tile is one unclipped
// segment that needs no conversion, otherwise through `run`, which has room for the tile's outputs.
template <class T, class A>
HWY_INLINE void EmitCout(const Geometry& g, const Phases<A>& p, const Segments& segments, int64_t columns,
                         T* y_channel, int64_t y_sample, A* run) {
  const int64_t s = g.stride;
  if constexpr (std::is_same_v<T, A>) {
    const bool no_spill = s % 4 == 0 || s <= 2 || HasSteps<A>(s) || !std::is_same_v<A, float>;
    if (segments.count == 1 && no_spill) {
      const Segment& first = segments.at[0];
      const int64_t begin = s * first.q - g.padding;
      if (first.count == columns && begin >= 0 && begin + s * columns <= g.lout) {
        return Interleave<T>(p, s, columns, y_channel + first.sample * y_sample + begin);
      }
    }
  }
  Interleave<T>(p, s, columns, run);
  for (int64_t i = 0; i < segments.count; ++i) {
    const Segment& at = segments.at[i];
    const int64_t begin = s * at.q - g.padding;
    const int64_t low = std::max<int64_t>(begin, 0), high = std::min(begin + s * at.count, g.lout);
    if (low >= high) continue;
    NarrowRange(run + (at.column * s + low - begin), y_channel + at.sample * y_sample + low, high - low);
  }
}

// One row, one residue, if the residues of a column are not a contiguous run: outputs are a stride apart.
template <class T, class A>
HWY_INLINE void EmitRow(const Geometry& g, const A* row, A bias, int64_t residue, const Segments& segments,
                        T* y_channel, int64_t y_sample) {
  const int64_t base = residue * g.dilation - g.padding;
  for (int64_t i = 0; i < segments.count; ++i) {
    const Segment& at = segments.at[i];
    T* y = y_channel + at.sample * y_sample;
    for (int64_t j = 0; j < at.count; ++j) {
      const int64_t o = g.stride * (at.q + j) + base;
      if (o >= 0 && o < g.lout) y[o] = round_to<T>(row[at.column + j] + bias);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
