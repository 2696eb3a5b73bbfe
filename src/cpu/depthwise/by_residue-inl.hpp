// Strides above 4: vectors along the residues of a position. And the unit of work, whatever the stride.
#if defined(TCONV_DEPTHWISE_BY_RESIDUE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DEPTHWISE_BY_RESIDUE_INL
#undef TCONV_DEPTHWISE_BY_RESIDUE_INL
#else
#define TCONV_DEPTHWISE_BY_RESIDUE_INL
#endif

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/depthwise/contract.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::depthwise::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// One (n, group, tile) with its operands as accumulators.
template <class A>
struct Unit {
  const A* x;       // position t0 + residues.lowest of the group's first channel
  int64_t x_pitch;  // to the next channel
  const A* w;       // raw order
  int64_t t0, count;
  bool numbers;  // neither x nor w holds an infinity or NaN
};

// The first lanes of v, elements [from, to) of them.
template <class D, class T>
HWY_NOINLINE void StorePart(D d, hn::Vec<D> v, int64_t from, int64_t to, T* out) {
  T buffer[hn::MaxLanes(D())];
  StoreAs(d, v, buffer);
  for (int64_t i = from; i < to; ++i) out[i] = buffer[i];
}

// Positions whose vectors lie inside the unit, for one input channel whose few taps are held in registers.
// kNumbers: no sum is NaN.
template <int kTaps, bool kNumbers, class D, class A, class T>
HWY_INLINE void ResiduesInside(D d, const core::Problem& p, const A* x, const A* w, A bias, int64_t count,
                               T* y) {
  const int64_t s = p.stride, left = p.k - s * (kTaps - 1);
  const bool masked = left < std::min(s, static_cast<int64_t>(hn::Lanes(d)));
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min<int64_t>(left, 64)));
  const auto start = hn::Set(d, bias);
  hn::Vec<D> taps[kTaps];
  for (int j = 0; j < kTaps; ++j) taps[j] = hn::LoadU(d, w + s * j);
  for (int64_t q = 0; q < count; ++q) {
    auto sum = start;
#pragma GCC unroll 4
    for (int j = 0; j + 1 < kTaps; ++j) sum = hn::MulAdd(hn::Set(d, x[q - j]), taps[j], sum);
    const auto product = hn::MulAdd(hn::Set(d, x[q - (kTaps - 1)]), taps[kTaps - 1], sum);
    const auto v = masked ? hn::IfThenElse(mask, product, sum) : product;
    if constexpr (kNumbers) {
      StoreNumbers(d, v, y + s * q);
    } else {
      StoreAs(d, v, y + s * q);
    }
  }
}

template <class D, class A, class T>
HWY_INLINE bool ManyResidues(D d, const core::Problem& p, bool numbers, const A* x, const A* w, A bias,
                             int64_t count, T* y) {
  const auto taps_in_registers = [&]<int kTaps>() HWY_ATTR {
    if (numbers) {
      ResiduesInside<kTaps, true>(d, p, x, w, bias, count, y);
    } else {
      ResiduesInside<kTaps, false>(d, p, x, w, bias, count, y);
    }
    return true;
  };
  switch (core::ceil_div(p.k, p.stride)) {
    case 1:
      return taps_in_registers.template operator()<1>();
    case 2:
      return taps_in_registers.template operator()<2>();
    case 3:
      return taps_in_registers.template operator()<3>();
    default:
      return false;
  }
}

// Strides above 4, dilation 1: vectors along the residues of one position, for which raw weights are
// contiguous. What a vector writes beyond its stride, the next position overwrites.
template <int kLanes, class A, class T>
HWY_INLINE void ChannelByResidue(const Job& job, const Unit<A>& unit, int64_t co, A bias, T* y) {
  const hn::CappedTag<A, kLanes> d;
  const core::Problem& p = job.problem;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), s = p.stride, taps = core::ceil_div(p.k, s);
  const int64_t w_pitch = p.cout_per_group() * p.k;
  const int64_t begin = s * unit.t0, end = std::min(job.lout, s * (unit.t0 + unit.count));
  const bool single = p.cin_per_group() == 1 && s <= lanes, numbers = unit.numbers && std::isfinite(bias);
  for (int64_t q = (begin + p.padding) / s; s * q - p.padding < end; ++q) {
    const int64_t place = q - unit.t0 - job.residues.lowest;
    const A* x = unit.x + place;
    const int64_t inside = (end - lanes - (s * q - p.padding)) / s + 1;
    if (single && s * q - p.padding >= begin && place >= taps - 1 && inside > 1 &&
        ManyResidues(d, p, numbers, x, unit.w + co * p.k, bias, inside, y + (s * q - p.padding - begin))) {
      q += inside - 1;
      continue;
    }
    // Taps before the unit's x belong to residues before its first output.
    const int64_t reached = std::min(taps, place + 1);
    for (int64_t r = 0; r < s; r += lanes) {
      auto sum = hn::Set(d, bias);
      for (int64_t ci = 0; ci < p.cin_per_group(); ++ci) {
        const A* w = unit.w + ci * w_pitch + co * p.k + r;
        for (int64_t j = 0; j < reached; ++j) {
          // Only the first residues may have the last tap.
          const int64_t left = p.k - r - s * j;
          if (left <= 0) break;
          const auto product = hn::MulAdd(hn::Set(d, x[ci * unit.x_pitch - j]), hn::LoadU(d, w + s * j), sum);
          sum = left >= std::min(lanes, s - r)
                    ? product
                    : hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(left)), product, sum);
        }
      }
      const int64_t o = s * q - p.padding + r;
      if (o >= begin && o + lanes <= end) {
        StoreAs(d, sum, y + (o - begin));
      } else {
        StorePart(d, sum, std::max<int64_t>(0, begin - o), std::min({end - o, s - r, lanes}),
                  y + (o - begin));
      }
    }
  }
}

}  // namespace tconv::cpu::depthwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
