// From sums to outputs: bias, one rounding, residues side by side. If the stride is 1 or even, rows are
// rounded first, two residues to an element of 32 bits, and these elements are interleaved; otherwise
// cpu.dense's epilogue interleaves floats.
#include "cpu/dense/epilogue-inl.hpp"

#if defined(TCONV_AMX_EMIT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_AMX_EMIT_INL
#undef TCONV_AMX_EMIT_INL
#else
#define TCONV_AMX_EMIT_INL
#endif

#include <algorithm>
#include <cstring>

#include "cpu/amx/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::amx {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Phases = dense::HWY_NAMESPACE::Phases<float>;

// The bits of bf16 in the upper half of each lane; the lower half is unspecified.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundedUpper(D d, const float* row, int64_t column,
                                                         hn::Vec<D> bias) {
  const hn::RebindToUnsigned<D> bits;
  const auto v = row == nullptr ? bias : hn::Add(hn::LoadU(d, row + column), bias);
  const auto number = hn::RebindMask(bits, hn::Eq(v, v));
  return hn::IfThenElse(number, simd::HWY_NAMESPACE::Narrow<BF16, D>::Rounded(d, v),
                        hn::Set(bits, core::kNanF32));
}

// to[i] = outputs of two phases at column i, side by side.
HWY_INLINE void RoundPhases(const Phases& p, int64_t phase, int64_t columns, uint32_t* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bias = hn::Set(d, p.bias);
  const auto upper = hn::Set(bits, 0xffff0000u);
  const float *row0 = p.row(phase), *row1 = p.row(phase + 1);
  for (int64_t i = 0; i < columns; i += lanes) {
    const auto low = RoundedUpper(d, row0, i, bias), high = RoundedUpper(d, row1, i, bias);
    hn::StoreU(hn::Or(hn::ShiftRight<16>(low), hn::And(high, upper)), bits, to + i);
  }
}

#if HWY_TARGET != HWY_SCALAR
// to[step*i + r] = rows[r][i], four rows at a time. If the last four are not complete, they spill into the
// next i, which is written later.
HWY_INLINE void InterleaveRows(const uint32_t* rows, int64_t line, int64_t step, int64_t columns,
                               uint32_t* to) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> pairs;
  for (int64_t i = 0; i < columns; i += 4) {
    for (int64_t row = (step - 1) / 4 * 4; row >= 0; row -= 4) {
      const uint32_t* from = rows + row * line + i;
      const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + line);
      const auto v2 = hn::LoadU(d, from + 2 * line), v3 = hn::LoadU(d, from + 3 * line);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
      uint32_t* at = to + step * i + row;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, at);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, at + step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, at + 2 * step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, at + 3 * step);
    }
  }
}
#endif

// to[step*i + r] = rows[r][i]; columns are whole vectors. `to` has room for 3 more elements, `rows` for 3
// more lines.
HWY_INLINE void Interleave(const uint32_t* rows, int64_t line, int64_t step, int64_t columns, uint32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t row = 0; row < step; ++row) to[step * i + row] = rows[row * line + i];
  }
#else
  const hn::ScalableTag<uint32_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (step > 2) return InterleaveRows(rows, line, step, columns, to);
  for (int64_t i = 0; i < columns; i += lanes) {
    hn::StoreInterleaved2(hn::LoadU(d, rows + i), hn::LoadU(d, rows + line + i), d, to + 2 * i);
  }
#endif
}

// All outputs of one channel for `columns` columns (whole vectors), in order.
HWY_INLINE void RoundChannel(const Phases& p, int64_t stride, int64_t columns, uint32_t* rows, uint16_t* to) {
  if (stride == 1) {
    const hn::ScalableTag<float> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto bias = hn::Set(d, p.bias);
    const float* row = p.row(0);
    for (int64_t i = 0; i < columns; i += lanes) {
      const auto v = row == nullptr ? bias : hn::Add(hn::LoadU(d, row + i), bias);
      simd::HWY_NAMESPACE::StoreAs(d, v, reinterpret_cast<BF16*>(to) + i);
    }
    return;
  }
  auto* pairs = reinterpret_cast<uint32_t*>(to);
  if (stride == 2) return RoundPhases(p, 0, columns, pairs);
  for (int64_t pair = 0; pair < stride / 2; ++pair) RoundPhases(p, 2 * pair, columns, rows + pair * columns);
  Interleave(rows, columns, stride / 2, columns, pairs);
}

// Copies one channel's outputs of the batch's columns [begin, end) from run to where they belong.
HWY_INLINE void CopyOutputs(const Job& job, int64_t begin, int64_t end, const uint16_t* run, uint16_t* to) {
  const dense::Geometry& g = job.out;
  const int64_t sample_step = job.problem.groups * job.out_channels * g.lout;
  int64_t sample = begin / job.split.period, place = begin % job.split.period;
  for (int64_t at = begin; at < end; ++sample, place = 0) {
    const int64_t columns = std::min(end - at, job.split.period - place);
    const int64_t valid = std::min(columns, g.q_count - place);
    const int64_t first = g.stride * (g.q_first + place) - g.padding;
    const int64_t low = std::max<int64_t>(first, 0), high = std::min(first + g.stride * valid, g.lout);
    if (low < high) {
      std::memcpy(to + sample * sample_step + low, run + g.stride * (at - begin) + low - first,
                  static_cast<std::size_t>(high - low) * sizeof(uint16_t));
    }
    at += columns;
  }
}

// The columns [begin, end) of a panel, whose sums lie side by side.
struct Group {
  int64_t begin, end;
};

// One channel whose residues lie side by side in the group's sums. scratch: run_elements().
HWY_INLINE void EmitChannel(const Job& job, const Task& task, const Group& group, const Phases& p,
                            uint16_t* to, float* scratch) {
  const int64_t stride = job.out.stride, count = group.end - group.begin;
  const int64_t first = task.column_begin + group.begin;
  if (stride == 1 || stride % 2 == 0) {
    const int64_t columns = core::ceil_div(count, kTile) * kTile;
    auto* rows = reinterpret_cast<uint32_t*>(scratch);
    auto* run = reinterpret_cast<uint16_t*>(rows + (stride / 2 + 3) * columns);
    RoundChannel(p, stride, columns, rows, run);
    return CopyOutputs(job, first, first + count, run, to);
  }
  dense::Config period;
  period.period = job.split.period;
  for (int64_t column = 0; column < count; column += kColumns) {
    const int64_t columns = std::min(kColumns, count - column);
    dense::HWY_NAMESPACE::Segments segments;
    dense::HWY_NAMESPACE::FindSegments(job.out, period, first + column, columns, segments);
    Phases here = p;
    here.sums += column;
    dense::HWY_NAMESPACE::EmitCout(job.out, here, segments, core::ceil_div(columns, kTile) * kTile,
                                   reinterpret_cast<BF16*>(to),
                                   job.problem.groups * job.out_channels * job.out.lout, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::amx
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
