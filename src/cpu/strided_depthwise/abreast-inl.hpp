// Short rows: 16 groups side by side in vectors (contract.hpp).
#if defined(TCONV_STRIDED_DEPTHWISE_ABREAST_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_DEPTHWISE_ABREAST_INL
#undef TCONV_STRIDED_DEPTHWISE_ABREAST_INL
#else
#define TCONV_STRIDED_DEPTHWISE_ABREAST_INL
#endif

#include <algorithm>

#include "core/polyphase.hpp"
#include "cpu/simd/convert-inl.hpp"
#include "cpu/strided_depthwise/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided_depthwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where the groups of a unit lie. Those beyond the last one repeat it and are not stored.
struct Groups {
  int64_t first, count;
  int64_t at(int64_t lane) const { return first + std::min(lane, count - 1); }
};

// to[e][lane] = row(lane)[e * step] for e in [0, count).
template <class T, class A>
HWY_INLINE void Gather(const T* first, const Groups& groups, int64_t group_step, int64_t step, int64_t count,
                       A* to) {
  for (int64_t lane = 0; lane < kAbreast; ++lane) {
    const T* row = first + groups.at(lane) * group_step;
    for (int64_t e = 0; e < count; ++e) to[e * kAbreast + lane] = static_cast<A>(widen(row[e * step]));
  }
}

// Taps of position i that meet dy: [begin, end).
struct Taps {
  int64_t begin, end;
};
HWY_INLINE Taps TapsOf(const core::Problem& p, int64_t lout, int64_t i) {
  const int64_t o = p.stride * i - p.padding, d = p.dilation;  // of tap 0
  const int64_t begin = o >= 0 ? 0 : std::min(p.k, d == 1 ? -o : core::ceil_div(-o, d));
  const int64_t end = d == 1 ? lout - o : core::ceil_div(lout - o, d);
  return {begin, std::clamp(end, begin, p.k)};
}

// One channel: positions of 16 groups. w: of the channel, dy: of the unit, both with 16 lanes per element.
template <class T, class A>
HWY_INLINE void Products(const Job& job, int64_t lout, const A* w, const A* dy, const A* bias, T* to) {
  const hn::CappedTag<A, kAbreast> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const core::Problem& p = job.problem;
  for (int64_t i = 0; i < p.l; ++i, to += kAbreast) {
    const Taps taps = TapsOf(p, lout, i);
    const int64_t count = taps.end - taps.begin, step = p.dilation * kAbreast;
    const int64_t first = count > 0 ? p.stride * i - p.padding + taps.begin * p.dilation : 0;
    for (int64_t lane = 0; lane < kAbreast; lane += lanes) {
      auto sum = hn::LoadU(d, bias + lane);
      for (int64_t co = 0; co < p.cout_per_group(); ++co) {
        const A* weight = w + (co * p.k + taps.begin) * kAbreast + lane;
        const A* y = dy + (co * lout + first) * kAbreast + lane;
        for (int64_t k = 0; k < count; ++k) {
          sum = hn::MulAdd(hn::LoadU(d, weight + k * kAbreast), hn::LoadU(d, y + k * step), sum);
        }
      }
      simd::HWY_NAMESPACE::StoreAs(d, sum, to + lane);
    }
  }
}

template <class T>
HWY_INLINE void RunAbreast(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t ci_count = p.cin_per_group(), co_count = p.cout_per_group(), lout = p.lout();
  A* const w = static_cast<A*>(scratch);
  A* const dy = w + job.group_weights() * kAbreast;
  T* const sums = reinterpret_cast<T*>(dy + co_count * lout * kAbreast);
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t n = u % p.n, first = u / p.n * kAbreast;
    const Groups groups{first, std::min(kAbreast, p.groups - first)};
    if (u == begin || n == 0) {
      Gather(static_cast<const T*>(in.weight), groups, job.group_weights(), 1, job.group_weights(), w);
    }
    for (int64_t co = 0; co < co_count; ++co) {
      const T* row = static_cast<const T*>(in.grad_output) + n * steps[0] + co * steps[1];
      Gather(row, groups, co_count * steps[1], steps[2], lout, dy + co * lout * kAbreast);
    }
    for (int64_t ci = 0; ci < ci_count; ++ci) {
      A bias[kAbreast];
      for (int64_t lane = 0; lane < kAbreast; ++lane) {
        bias[lane] = start_of<T>(p.has_bias, in.bias, groups.at(lane) * ci_count + ci);
      }
      Products(job, lout, w + ci * co_count * p.k * kAbreast, dy, bias, sums);
      for (int64_t lane = 0; lane < groups.count; ++lane) {
        T* to = static_cast<T*>(in.output) + (n * p.cin + groups.at(lane) * ci_count + ci) * p.l;
        for (int64_t i = 0; i < p.l; ++i) to[i] = sums[i * kAbreast + lane];
      }
    }
  }
}

}  // namespace tconv::cpu::strided_depthwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
