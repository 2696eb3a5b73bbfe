#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/depthwise/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/depthwise/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
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
};

template <int S, int V, class D, class A, class T>
HWY_INLINE void Block(D d, const Job& job, const Unit<A>& unit, int64_t co, int64_t t, A bias, T* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const core::Problem& p = job.problem;
  const int64_t cin = p.cin_per_group(), w_pitch = p.cout_per_group() * p.k;
  const int64_t k_step = job.residues.k_step, x_step = job.residues.x_step;
  const Residue* residues = job.residues.table.data();
  hn::Vec<D> acc[V][S];
  for (int v = 0; v < V; ++v) {
    for (int f = 0; f < S; ++f) acc[v][f] = hn::Set(d, bias);
  }
  for (int64_t ci = 0; ci < cin; ++ci) {
    const A* x = unit.x + ci * unit.x_pitch + t - job.residues.lowest;
    const A* w = unit.w + ci * w_pitch + co * p.k;
#pragma GCC unroll 4
    for (int f = 0; f < S; ++f) {
      const A* wf = w + residues[f].k0;
      const A* xf = x + residues[f].offset;
      for (int64_t j = residues[f].count; j > 0; --j, wf += k_step, xf -= x_step) {
        const auto weight = hn::Set(d, *wf);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          acc[v][f] = hn::MulAdd(weight, hn::LoadU(d, xf + v * lanes), acc[v][f]);
        }
      }
    }
  }
  const int64_t end = std::min(job.lout, S * (unit.t0 + unit.count));
  for (int v = 0; v < V; ++v) {
    const int64_t o = S * (unit.t0 + t + v * lanes);
    if (o + S * lanes <= end) {
      StoreInterleaved<S>(d, acc[v], y + o);
    } else {
      StoreInterleavedPart<S>(d, acc[v], 0, end - o, y + o);
    }
  }
}

template <int S, class D, class A, class T>
HWY_INLINE void Channel(D d, const Job& job, const Unit<A>& unit, int64_t co, A bias, T* y) {
  constexpr int kV = S == 1 ? 4 : 2;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t t = 0;
  for (; t + kV * lanes <= unit.count; t += kV * lanes) Block<S, kV>(d, job, unit, co, t, bias, y);
  for (; t < unit.count; t += lanes) Block<S, 1>(d, job, unit, co, t, bias, y);
}

// The first lanes of v, elements [from, to) of them.
template <class D, class T>
HWY_NOINLINE void StorePart(D d, hn::Vec<D> v, int64_t from, int64_t to, T* out) {
  T buffer[hn::MaxLanes(D())];
  StoreAs(d, v, buffer);
  for (int64_t i = from; i < to; ++i) out[i] = buffer[i];
}

// Positions [q, last) whose vectors lie inside the unit: one channel in, its few taps held in registers.
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

// There are so few products that testing every vector for NaN would cost measurable time. Fused multiply-adds
// of finite numbers make no NaN: their products do not overflow.
template <int kTaps, class D, class A, class T>
HWY_INLINE void ResiduesOf(D d, const core::Problem& p, const A* x, const A* w, A bias, int64_t count, T* y) {
  const hn::ScalableTag<A> whole;
  const bool numbers = HWY_NATIVE_FMA && std::isfinite(bias) && AllFinite(whole, w, p.k) &&
                       AllFinite(whole, x - (kTaps - 1), count + kTaps - 1);
  if (numbers) {
    ResiduesInside<kTaps, true>(d, p, x, w, bias, count, y);
  } else {
    ResiduesInside<kTaps, false>(d, p, x, w, bias, count, y);
  }
}

template <class D, class A, class T>
HWY_INLINE bool ManyResidues(D d, const core::Problem& p, const A* x, const A* w, A bias, int64_t count,
                             T* y) {
  switch (core::ceil_div(p.k, p.stride)) {
    case 1:
      ResiduesOf<1>(d, p, x, w, bias, count, y);
      return true;
    case 2:
      ResiduesOf<2>(d, p, x, w, bias, count, y);
      return true;
    case 3:
      ResiduesOf<3>(d, p, x, w, bias, count, y);
      return true;
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
  const bool single = p.cin_per_group() == 1 && s <= lanes;
  for (int64_t q = (begin + p.padding) / s; s * q - p.padding < end; ++q) {
    const int64_t place = q - unit.t0 - job.residues.lowest;
    const A* x = unit.x + place;
    const int64_t inside = (end - lanes - (s * q - p.padding)) / s + 1;
    if (single && s * q - p.padding >= begin && place >= taps - 1 && inside > 1 &&
        ManyResidues(d, p, x, unit.w + co * p.k, bias, inside, y + (s * q - p.padding))) {
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
        StoreAs(d, sum, y + o);
      } else {
        StorePart(d, sum, std::max<int64_t>(0, begin - o), std::min({end - o, s - r, lanes}), y + o);
      }
    }
  }
}

// Any stride and dilation: rows one after another into a tile, then interleaved.
template <class D, class A, class T>
HWY_NOINLINE void ChannelByTile(D d, const Job& job, const Unit<A>& unit, int64_t co, A bias, A* tile, T* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const core::Problem& p = job.problem;
  const int64_t w_pitch = p.cout_per_group() * p.k,
                pitch = job.config.tile + static_cast<int64_t>(hn::MaxLanes(d));
  const int64_t residues = static_cast<int64_t>(job.residues.table.size());
  for (int64_t f = 0; f < residues; ++f) {
    const Residue residue = job.residues.table[static_cast<std::size_t>(f)];
    for (int64_t t = 0; t < unit.count; t += lanes) {
      auto acc = hn::Set(d, bias);
      for (int64_t ci = 0; ci < p.cin_per_group(); ++ci) {
        const A* w = unit.w + ci * w_pitch + co * p.k + residue.k0;
        const A* x = unit.x + ci * unit.x_pitch + t - job.residues.lowest + residue.offset;
        for (int64_t j = 0; j < residue.count; ++j) {
          acc = hn::MulAdd(hn::Set(d, w[j * job.residues.k_step]), hn::LoadU(d, x - j * job.residues.x_step),
                           acc);
        }
      }
      hn::StoreU(acc, d, tile + f * pitch + t);
    }
  }
  const int64_t o = p.stride * unit.t0;
  InterleaveRows(d, tile, pitch, p.stride, 0, std::min(job.lout - o, p.stride * unit.count), y, o);
}

template <class T, class D, class A>
Unit<A> PrepareX(D d, const Job& job, const T* x, int64_t t0, A* staged) {
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const int64_t count = std::min(job.config.tile, core::ceil_div(job.lout, p.stride) - t0);
  const int64_t first = t0 + job.residues.lowest;
  const int64_t reach = hwy::RoundUpTo(static_cast<std::size_t>(count), hn::Lanes(d)) + job.residues.highest;
  if constexpr (std::is_same_v<T, A>) {
    if (steps[2] == 1 && first >= 0 && t0 + reach <= p.l) return {x + first, steps[1], nullptr, t0, count};
  }
  const int64_t positions = reach - job.residues.lowest;
  for (int64_t ci = 0; ci < p.cin_per_group(); ++ci) {
    StageRow(d, x + ci * steps[1], steps[2], p.l, first, positions, staged + ci * job.pitch);
  }
  return {staged, job.pitch, nullptr, t0, count};
}

template <class T>
bool RunTask(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const auto steps = p.x_steps();
  const int64_t cin = p.cin_per_group(), cout = p.cout_per_group(), tiles = job.config.tiles;
  A* staged = static_cast<A*>(scratch);
  A* weights = staged + cin * job.pitch;
  A* tile = weights + job.weights_per_group() + kSlack;
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  bool finite = true;
  int64_t loaded = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t n = u / (p.groups * tiles), group = u / tiles % p.groups;
    if (group != loaded) {
      WidenRow(d, static_cast<const T*>(in.weight) + group * job.weights_per_group(), 1,
               job.weights_per_group(), weights);
      finite = AllFinite(d, weights, job.weights_per_group()) && finite;
      loaded = group;
    }
    const T* x = static_cast<const T*>(in.x) + n * steps[0] + group * cin * steps[1];
    Unit<A> unit = PrepareX<T>(d, job, x, u % tiles * job.config.tile, staged);
    unit.w = weights;
    for (int64_t co = 0; co < cout; ++co) {
      const int64_t channel = group * cout + co;
      T* y = static_cast<T*>(in.output) + (n * p.cout + channel) * job.lout;
      const A bias = start_of<T>(p.has_bias, in.bias, channel);
      if (job.config.way == Way::rows_tile) {
        ChannelByTile(d, job, unit, co, bias, tile, y);
      } else if (p.stride > 8) {
        ChannelByResidue<16>(job, unit, co, bias, y);
      } else if (p.stride > 4) {
        ChannelByResidue<8>(job, unit, co, bias, y);
      } else if (p.stride == 1) {
        Channel<1>(d, job, unit, co, bias, y);
      } else if (p.stride == 2) {
        Channel<2>(d, job, unit, co, bias, y);
      } else if (p.stride == 3) {
        Channel<3>(d, job, unit, co, bias, y);
      } else {
        Channel<4>(d, job, unit, co, bias, y);
      }
    }
  }
  return finite;
}

bool Run(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    return RunTask<decltype(storage)>(job, in, task, scratch);
  });
}

}  // namespace tconv::cpu::depthwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::depthwise {

HWY_EXPORT(Run);

bool run_task(const Job& job, const plan::Operands& operands, int64_t task, void* scratch) {
  return TCONV_DISPATCH(Run)(job, operands, task, scratch);
}

}  // namespace tconv::cpu::depthwise
#endif
