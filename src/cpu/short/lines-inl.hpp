// From a task's tile of sums to y: the taps that meet at each output.
#if defined(TCONV_SHORT_LINES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_SHORT_LINES_INL
#undef TCONV_SHORT_LINES_INL
#else
#define TCONV_SHORT_LINES_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/short/contract.hpp"
#include "cpu/simd/panel-inl.hpp"
#include "cpu/simd/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::short_l {
namespace HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// line[stride*q + r] = bias + sum over j of tile[q - j][r + stride*j], with as many lanes as a stride needs.
// What a vector writes beyond its stride, the next q overwrites; no value is read back right after it is
// written.
template <int kLanes, class A>
HWY_INLINE void GatherTaps(const core::Problem& p, const A* tile, int64_t pitch, A bias,
                           A* HWY_RESTRICT line) {
  const hn::CappedTag<A, kLanes> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), s = p.stride;
  const int64_t taps = core::ceil_div(p.k, s);
  for (int64_t q = 0; q < p.l + taps - 1; ++q) {
    const int64_t j0 = std::max<int64_t>(0, q - p.l + 1), j1 = std::min(taps - 1, q);
    for (int64_t r = 0; r < s; r += lanes) {
      auto sum = hn::Set(d, bias);
      for (int64_t j = j0; j <= j1; ++j) {
        const int64_t k = r + s * j, left = p.k - k;
        const auto v = hn::LoadU(d, tile + (q - j) * pitch + k);
        if (left >= lanes) {
          sum = hn::Add(sum, v);
        } else if (left > 0) {
          sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(left)), v));
        }
      }
      hn::StoreU(sum, d, line + s * q + r);
    }
  }
}

template <class A>
HWY_INLINE void ScatterTaps(const core::Problem& p, const A* tile, int64_t pitch, A* line) {
  for (int64_t i = 0; i < p.l; ++i) {
    for (int64_t k = 0; k < p.k; ++k) line[i * p.stride + k * p.dilation] += tile[i * pitch + k];
  }
}

// One channel of one sample.
template <class T, class D, class A>
HWY_INLINE void Channel(D d, const Job& job, const A* tile, A bias, A* line, T* y) {
  const core::Problem& p = job.problem;
  const int64_t length = job.full + p.output_padding, pitch = job.row_pitch;
  if (p.l == 1 && !is_dilated(p) && p.padding + job.lout <= p.k) {
    // With a single position, taps are outputs.
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto start = hn::Set(d, bias);
    for (int64_t i = 0; i < job.lout; i += lanes) {
      hn::StoreU(hn::Add(start, hn::LoadU(d, tile + p.padding + i)), d, line + p.padding + i);
    }
  } else if (is_dilated(p)) {
    std::fill(line, line + length, bias);
    ScatterTaps(p, tile, pitch, line);
  } else {
    if (p.stride <= 2) {
      GatherTaps<2>(p, tile, pitch, bias, line);
    } else if (p.stride <= 4) {
      GatherTaps<4>(p, tile, pitch, bias, line);
    } else if (p.stride <= 8) {
      GatherTaps<8>(p, tile, pitch, bias, line);
    } else {
      GatherTaps<16>(p, tile, pitch, bias, line);
    }
    const int64_t written = (p.l - 1 + core::ceil_div(p.k, p.stride)) * p.stride;
    if (written < length) std::fill(line + written, line + length, bias);
  }
  NarrowRow(d, line + p.padding, job.lout, y);
}

// rows[e][o] = sums[o][e] for `lanes` channels e, four outputs o at a time.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE void TurnOutputs(D d, const A* HWY_RESTRICT sums, int64_t lout, A* HWY_RESTRICT rows) {
  const hn::CappedTag<A, 4> four;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = static_cast<int64_t>(hn::Lanes(four));
  HWY_ALIGN A turned[4 * kMostLanes];
  int64_t o = 0;
  for (; o + 4 <= lout; o += 4) {
    const A* from = sums + o * lanes;
    A* const to = lout == 4 ? rows : turned;
    hn::StoreInterleaved4(hn::LoadU(d, from), hn::LoadU(d, from + lanes), hn::LoadU(d, from + 2 * lanes),
                          hn::LoadU(d, from + 3 * lanes), d, to);
    if (lout == 4) return;
    for (int64_t e = 0; e < lanes; ++e) {
      for (int64_t i = 0; i < 4; i += step) {
        hn::StoreU(hn::LoadU(four, turned + 4 * e + i), four, rows + e * lout + o + i);
      }
    }
  }
  for (; o < lout; ++o) {
    for (int64_t e = 0; e < lanes; ++e) rows[e * lout + o] = sums[o * lanes + e];
  }
}

// All channels of one sample whose tile has rows (k, co), in the order of sums of GatherTaps or ScatterTaps.
// y: of the first channel.
template <class T, class D, class A>
HWY_INLINE void ChannelsByTap(D d, const Job& job, const plan::Operands& in, const A* tile, int64_t first,
                              int64_t channels, A* HWY_RESTRICT sums, T* y) {
  const core::Problem& p = job.problem;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool dilated = is_dilated(p);
  for (int64_t c = 0; c < channels; c += lanes) {
    const int64_t count = std::min(lanes, channels - c);
    HWY_ALIGN A start[kMostLanes] = {};
    for (int64_t e = 0; e < count; ++e) start[e] = start_of<T>(p.has_bias, in.bias, first + c + e);
    const auto bias = hn::LoadU(d, start);
    for (int64_t o = 0; o < job.lout; ++o) {
      auto sum = bias;
      const int64_t at = o + p.padding;
      const auto add = [&](int64_t i, int64_t k) HWY_ATTR {
        sum = hn::Add(sum, hn::LoadU(d, tile + i * job.row_pitch + k * channels + c));
      };
      if (dilated) {
        const int64_t beyond = at - (p.l - 1) * p.stride;
        const int64_t least = beyond > 0 ? core::ceil_div(beyond, p.dilation) : 0;
        for (int64_t k = std::min(p.k - 1, at / p.dilation); k >= least; --k) {
          const int64_t rest = at - k * p.dilation;
          if (rest % p.stride == 0) add(rest / p.stride, k);
        }
      } else {
        const int64_t q = at / p.stride, first_i = std::min(q, p.l - 1), r = at - q * p.stride;
        for (int64_t i = first_i, k = r + (q - first_i) * p.stride; i >= 0 && k < p.k; --i, k += p.stride)
          add(i, k);
      }
      hn::StoreU(sum, d, sums + o * lanes);
    }
    A* const rows = sums + kMostLanes * job.lout;
    TurnOutputs(d, sums, job.lout, rows);
    NarrowRow(d, rows, count * job.lout, y + c * job.lout);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::short_l
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
