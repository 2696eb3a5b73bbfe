#include <algorithm>
#include <cmath>

#include "cpu/common/storage.hpp"
#include "cpu/strided_depthwise/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/strided_depthwise/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/simd/tiles-inl.hpp"
#include "cpu/strided/phases-inl.hpp"
#include "cpu/strided_depthwise/abreast-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided_depthwise::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
using strided::HWY_NAMESPACE::LoadChannel;
namespace hn = hwy::HWY_NAMESPACE;

// One (n, group, tile) with its operands as accumulators.
template <class A>
struct Unit {
  const A* lines;   // of the group's first channel
  int64_t channel;  // to the next channel's
  const A* w;       // raw order
  int64_t count;
  bool numbers;  // neither dy nor w holds an infinity or NaN
};

// Vectors of one channel from position i on; the last ones as far as `left` goes.
template <int V, bool kNumbers, class D, class A, class T>
HWY_INLINE void Block(D d, const Job& job, const Unit<A>& unit, const A* w, A bias, int64_t i, int64_t left,
                      T* dx) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), k = job.problem.k;
  const int64_t* offsets = job.split.offsets.data();
  hn::Vec<D> acc[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) acc[v] = hn::Set(d, bias);
  const A* line = unit.lines + i;
  for (int64_t co = job.problem.cout_per_group(); co > 0; --co, line += unit.channel, w += k) {
    for (int64_t tap = 0; tap < k; ++tap) {
      const auto weight = hn::Set(d, w[tap]);
      const A* at = line + offsets[tap];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[v] = hn::MulAdd(weight, hn::LoadU(d, at + v * lanes), acc[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    if (V == 1 && left < lanes) {
      T part[hn::MaxLanes(D())];
      StoreAs(d, acc[v], part);
      std::copy_n(part, left, dx + i);
    } else if constexpr (kNumbers) {
      StoreNumbers(d, acc[v], dx + i + v * lanes);
    } else {
      StoreAs(d, acc[v], dx + i + v * lanes);
    }
  }
}

template <bool kNumbers, class D, class A, class T>
HWY_NOINLINE void Channel(D d, const Job& job, const Unit<A>& unit, const A* w, A bias, T* dx) {
  constexpr int kV = 8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + kV * lanes <= unit.count; i += kV * lanes) {
    Block<kV, kNumbers>(d, job, unit, w, bias, i, unit.count - i, dx);
  }
  for (; i + 2 * lanes <= unit.count; i += 2 * lanes) {
    Block<2, kNumbers>(d, job, unit, w, bias, i, unit.count - i, dx);
  }
  for (; i < unit.count; i += lanes) Block<1, kNumbers>(d, job, unit, w, bias, i, unit.count - i, dx);
}

// The lines of a unit's channels; in place at stride 1, where all that vectors read lies inside dy.
template <class T, class A>
Unit<A> Prepare(const Job& job, const T* dy, int64_t first, int64_t count, A* lines) {
  const core::Problem& p = job.problem;
  const strided::SplitPanel& s = job.split;
  if constexpr (std::is_same_v<T, A>) {
    const int64_t begin = first + s.taps.front().shift;
    const bool inside = begin >= 0 && begin + count + s.halo + kSlack <= s.lout;
    if (s.contiguous() && inside) return {dy + begin, s.channel_step, nullptr, count, false};
  }
  for (int64_t co = 0; co < p.cout_per_group(); ++co) {
    LoadChannel(s, first, first + count, 0, p.k, dy + co * s.channel_step, lines + co * s.channel());
  }
  return {lines, s.channel(), nullptr, count, false};
}

template <class D, class A>
HWY_INLINE bool FiniteLines(D d, const Job& job, const Unit<A>& unit) {
  bool finite = true;
  for (int64_t co = 0; co < job.problem.cout_per_group(); ++co) {
    for (int64_t f = 0; f < job.split.lines; ++f) {
      finite =
          AllFinite(d, unit.lines + co * unit.channel + f * job.split.line, unit.count + job.split.halo) &&
          finite;
    }
  }
  return finite;
}

template <class T>
bool RunTask(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const auto steps = p.y_steps();
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), tiles = job.config.tiles;
  A* const lines = static_cast<A*>(scratch);
  A* const weights = lines + job.line_elements();
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  bool finite = true, group_finite = true;
  int64_t loaded = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t n = u / (p.groups * tiles), group = u / tiles % p.groups,
                  first = u % tiles * job.config.tile;
    if (group != loaded) {
      WidenRow(d, static_cast<const T*>(in.weight) + group * job.group_weights(), 1, job.group_weights(),
               weights);
      group_finite = AllFinite(d, weights, job.group_weights());
      finite = finite && group_finite;
      loaded = group;
    }
    const T* dy = static_cast<const T*>(in.grad_output) + n * steps[0] + group * cout * steps[1];
    Unit<A> unit = Prepare(job, dy, first, std::min(job.config.tile, p.l - first), lines);
    // For a few vectors, the test would take longer than it saves.
    unit.numbers = HWY_NATIVE_FMA && group_finite && unit.count >= 256 && FiniteLines(d, job, unit);
    for (int64_t ci = 0; ci < cin; ++ci) {
      const int64_t channel = group * cin + ci;
      T* dx = static_cast<T*>(in.output) + (n * p.cin + channel) * p.l + first;
      const A bias = start_of<T>(p.has_bias, in.bias, channel);
      const A* w = weights + ci * cout * p.k;
      if (unit.numbers && std::isfinite(bias)) {
        Channel<true>(d, job, unit, w, bias, dx);
      } else {
        Channel<false>(d, job, unit, w, bias, dx);
      }
    }
  }
  return finite;
}

bool Run(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    if (job.config.abreast) {
      RunAbreast<decltype(storage)>(job, in, task, scratch);
      return true;
    }
    return RunTask<decltype(storage)>(job, in, task, scratch);
  });
}

}  // namespace tconv::cpu::strided_depthwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::strided_depthwise {

HWY_EXPORT(Run);

bool run_task(const Job& job, const plan::Operands& operands, int64_t task, void* scratch) {
  return TCONV_DISPATCH(Run)(job, operands, task, scratch);
}

}  // namespace tconv::cpu::strided_depthwise
#endif
