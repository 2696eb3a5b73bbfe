// One row block's weights, from raw ones to [ci][tap][8]. Compiled once per SIMD target.
#if defined(TCONV_DENSE_PACK_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DENSE_PACK_ROWS_INL
#undef TCONV_DENSE_PACK_ROWS_INL
#else
#define TCONV_DENSE_PACK_ROWS_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/dense/contract.hpp"
#include "cpu/dense/ranges-inl.hpp"
#include "cpu/simd/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

// Where the eight rows of a block find their first tap, relative to the cout block's first weight. Rows that
// do not exist repeat the first one; nobody reads their sums.
struct RowOffsets {
  int64_t at[kRows];
  int64_t first, span;  // the lowest, and from there to one past the highest
  bool consecutive;
};

HWY_INLINE RowOffsets OffsetsOf(const Geometry& g, const Config& c, const RowClass& rows, int64_t cout_block,
                                int64_t block) {
  RowOffsets out;
  out.consecutive = true;
  const int64_t couts = std::min(c.cout_block, g.cout - cout_block * c.cout_block);
  int64_t cout = block * kRows / rows.residues, residue = block * kRows % rows.residues;
  for (int64_t i = 0; i < kRows; ++i) {
    out.at[i] = rows.first + (cout < couts ? cout * g.k + residue : 0);
    out.consecutive = out.consecutive && out.at[i] == out.at[0] + i;
    if (++residue < rows.residues) continue;
    residue = 0;
    ++cout;
  }
  out.first = *std::min_element(out.at, out.at + kRows);
  out.span = *std::max_element(out.at, out.at + kRows) + 1 - out.first;
  return out;
}

// One channel's taps of one row block. The offsets are locals, so that they stay in registers over all taps.
template <class T>
HWY_INLINE void GatherTaps(const T* from, const RowOffsets& rows, int64_t tap_step, int64_t taps, T* to) {
  const int64_t o0 = rows.at[0], o1 = rows.at[1], o2 = rows.at[2], o3 = rows.at[3];
  const int64_t o4 = rows.at[4], o5 = rows.at[5], o6 = rows.at[6], o7 = rows.at[7];
  for (int64_t tap = 0; tap < taps; ++tap, from += tap_step, to += kRows) {
    const T v0 = from[o0], v1 = from[o1], v2 = from[o2], v3 = from[o3];
    const T v4 = from[o4], v5 = from[o5], v6 = from[o6], v7 = from[o7];
    to[0] = v0, to[1] = v1, to[2] = v2, to[3] = v3;
    to[4] = v4, to[5] = v5, to[6] = v6, to[7] = v7;
  }
}

// Like GatherTaps, but widened by way of a buffer: conversions want vectors.
template <class T, class A>
HWY_INLINE void GatherTaps(const T* from, const RowOffsets& rows, int64_t tap_step, int64_t taps, A* to) {
  constexpr int64_t kTaps = 64;
  T gathered[kTaps * kRows];
  for (int64_t begin = 0; begin < taps; begin += kTaps) {
    const int64_t count = std::min(kTaps, taps - begin);
    GatherTaps(from + begin * tap_step, rows, tap_step, count, gathered);
    WidenRange(gathered, to + begin * kRows, count * kRows);
  }
}

// Some channels' weights of one row block, in one cout block or several.
template <class T>
struct RowsFrom {
  const T* weight;  // of the first cout block, channel and tap
  int64_t channel_step, channels, tap_step, taps;
  int64_t blocks = 1, block_step = 0;  // cout blocks
  int64_t to_step = 0;                 // elements from a cout block's packed weights to the next's
};

// Stays zero until a value is infinite or NaN, then is NaN for good: OR keeps all bits of its exponent. A
// fused multiply-add would do it in one operation, but each would wait for the one before.
template <class D>
HWY_INLINE hn::Vec<D> Suspect(D d, hn::Vec<D> value, hn::Vec<D> suspect) {
  return hn::Or(hn::Mul(value, hn::Zero(d)), suspect);
}
template <class D>
HWY_INLINE bool IsSpecial(D d, hn::Vec<D> suspect) {
  return !hn::AllTrue(d, hn::Eq(suspect, hn::Zero(d)));
}

// Rows that lie side by side are copied as vectors: eight at a time, which fits vectors of up to eight lanes,
// or in longer runs if taps lie side by side too.
template <class T, class A>
HWY_INLINE bool CopyRows(const RowsFrom<T>& from, const RowOffsets& rows, A* to) {
  const hn::ScalableTag<A> wide;
  const hn::CappedTag<A, kRows> d;
  const int64_t wide_lanes = static_cast<int64_t>(hn::Lanes(wide)),
                lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool run = from.tap_step == kRows;
  auto wide_suspect = hn::Zero(wide);
  auto suspect = hn::Zero(d);
  for (int64_t block = 0; block < from.blocks; ++block) {
    A* out = to + block * from.to_step;
    for (int64_t ci = 0; ci < from.channels; ++ci) {
      const T* at = from.weight + block * from.block_step + ci * from.channel_step + rows.first;
      const int64_t step = run ? from.taps * kRows : kRows, end = from.taps * kRows;
      for (int64_t done = 0; done < end; done += step, at += from.tap_step, out += step) {
        int64_t i = 0;
        for (; i + wide_lanes <= step; i += wide_lanes) {
          const auto v = LoadAs(wide, at + i);
          wide_suspect = Suspect(wide, v, wide_suspect);
          hn::StoreU(v, wide, out + i);
        }
        for (; i < step; i += lanes) {
          const auto v = LoadAs(d, at + i);
          suspect = Suspect(d, v, suspect);
          hn::StoreU(v, d, out + i);
        }
      }
    }
  }
  return IsSpecial(wide, wide_suspect) || IsSpecial(d, suspect);
}

// Rows that lie within kParts vectors of eight: permutes each vector and chooses between them.
template <int kParts, class D, class T, class A = hn::TFromD<D>>
HWY_NOINLINE bool PermuteRows(D d, const RowsFrom<T>& from, const RowOffsets& rows, A* to) {
  using Index = hn::TFromD<hn::RebindToSigned<D>>;
  using Indices = decltype(hn::SetTableIndices(d, static_cast<const Index*>(nullptr)));
  int64_t begin[kParts];
  Indices indices[kParts];
  hn::Mask<D> chosen[kParts];  // rows that lie in this part
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) {
    // The last part ends with the last row: nothing past it is read.
    begin[part] = part + 1 < kParts ? part * kRows : rows.span - kRows;
    alignas(64) Index index[kRows];
    alignas(64) A inside[kRows];
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t at = rows.at[i] - rows.first - begin[part];
      inside[i] = at >= 0 && at < kRows ? A(1) : A(0);
      index[i] = static_cast<Index>(inside[i] != 0 ? at : 0);
    }
    indices[part] = hn::SetTableIndices(d, index);
    chosen[part] = hn::Ne(hn::Load(d, inside), hn::Zero(d));
  }
  auto suspect = hn::Zero(d);
  for (int64_t block = 0; block < from.blocks; ++block) {
    A* out = to + block * from.to_step;
    for (int64_t ci = 0; ci < from.channels; ++ci) {
      const T* at = from.weight + block * from.block_step + ci * from.channel_step + rows.first;
      for (int64_t tap = 0; tap < from.taps; ++tap, at += from.tap_step, out += kRows) {
        auto v = hn::TableLookupLanes(LoadAs(d, at), indices[0]);
#pragma GCC unroll 4
        for (int part = 1; part < kParts; ++part) {
          v = hn::IfThenElse(chosen[part], hn::TableLookupLanes(LoadAs(d, at + begin[part]), indices[part]),
                             v);
        }
        suspect = Suspect(d, v, suspect);
        hn::StoreU(v, d, out);
      }
    }
  }
  return IsSpecial(d, suspect);
}

// Whether a value is infinite or NaN; count is a multiple of the rows, hence of every vector.
template <class A>
HWY_INLINE bool HasSpecial(const A* values, int64_t count) {
  const hn::CappedTag<A, kRows> d;
  auto suspect = hn::Zero(d);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    suspect = Suspect(d, hn::LoadU(d, values + i), suspect);
  }
  return IsSpecial(d, suspect);
}

// kTransposed: a row's taps lie side by side; squares of rows and taps are transposed in registers.
template <bool kTransposed, class T, class A>
HWY_INLINE bool GatherRows(const RowsFrom<T>& from, const RowOffsets& rows, A* to) {
  bool special = false;
  for (int64_t block = 0; block < from.blocks; ++block) {
    A* out = to + block * from.to_step;
    for (int64_t ci = 0; ci < from.channels; ++ci) {
      const T* at = from.weight + block * from.block_step + ci * from.channel_step;
      A* const taps = out + ci * from.taps * kRows;
      if constexpr (kTransposed) {
        static_assert(kRows == simd::HWY_NAMESPACE::kPackedRows);
        const T* row[kRows];
        for (int64_t i = 0; i < kRows; ++i) row[i] = at + rows.at[i];
        simd::HWY_NAMESPACE::PackRun(row, 0, from.taps, taps);
      } else {
        GatherTaps(at, rows, from.tap_step, from.taps, taps);
      }
    }
    special = HasSpecial(out, from.channels * from.taps * kRows) || special;
  }
  return special;
}

// Returns whether a weight is infinite or NaN. Where a row's taps are neighbours that fill 16 bytes, squares
// are transposed. Elsewhere vectors that hold eight rows are permuted, if those rows lie close together.
template <class T, class A>
HWY_INLINE bool PackRows(const RowsFrom<T>& from, const RowOffsets& rows, A* to) {
  if (rows.consecutive) return CopyRows(from, rows, to);
  if (from.tap_step == 1 && from.taps >= simd::HWY_NAMESPACE::kDepths<A>) {
    return GatherRows<true>(from, rows, to);
  }
  const hn::CappedTag<A, kRows> d;
  if constexpr (hn::MaxLanes(d) == kRows) {
    const int64_t parts = rows.span < kRows ? 0 : core::ceil_div(rows.span, kRows);
    if (parts == 1) return PermuteRows<1>(d, from, rows, to);
    if (parts == 2) return PermuteRows<2>(d, from, rows, to);
    if (parts == 3) return PermuteRows<3>(d, from, rows, to);
    if (parts == 4) return PermuteRows<4>(d, from, rows, to);
  }
  return GatherRows<false>(from, rows, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
