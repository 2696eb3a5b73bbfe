#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/polyphase.hpp"
#include "cpu/depthwise/contract.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/depthwise/simd.cpp"
#include "cpu/simd/targets.hpp"
//
#include "hwy/foreach_target.h"
//
#include "cpu/depthwise/by_residue-inl.hpp"
#include "cpu/depthwise/flat-inl.hpp"
#include "cpu/simd/stream-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::depthwise::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of each of S residues: as many as fit in the registers with a weight.
template <int S>
constexpr int kVectors = TCONV_32_REGISTERS ? (S <= 2   ? 8
                                               : S == 3 ? 6
                                                        : 5)
                                            : (S == 1   ? 8
                                               : S == 2 ? 6
                                               : S == 3 ? 4
                                                        : 3);

// y: at the unit's first output. kNumbers: no sum is NaN. kWhole: all S*V vectors are outputs before `end`.
template <int S, int V, bool kNumbers, bool kWhole, class D, class A, class T>
HWY_INLINE void Block(D d, const Job& job, const Unit<A>& unit, int64_t co, int64_t t, A bias, int64_t end,
                      T* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const core::Problem& p = job.problem;
  const int64_t cin = p.cin_per_group(), w_pitch = p.cout_per_group() * p.k;
  const int64_t k_step = job.residues.k_step, x_step = job.residues.x_step;
  const Residue* residues = job.residues.table.data();
  hn::Vec<D> acc[V][S];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
#pragma GCC unroll 4
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
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int64_t o = S * (t + v * lanes);
    if constexpr (kWhole) {
      StoreInterleaved<S, kNumbers>(d, acc[v], y + o);
    } else {
      StoreInterleavedPart<S>(d, acc[v], 0, std::min(end - o, S * lanes), y + o);
    }
  }
}

template <int S, bool kNumbers, class D, class A, class T>
HWY_INLINE void Blocks(D d, const Job& job, const Unit<A>& unit, int64_t co, A bias, T* y) {
  constexpr int kV = kVectors<S>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t end = std::min(job.lout - S * unit.t0, S * unit.count);
  int64_t t = 0;
  for (; S * (t + kV * lanes) <= end; t += kV * lanes) {
    Block<S, kV, kNumbers, true>(d, job, unit, co, t, bias, end, y);
  }
  for (; S * (t + 2 * lanes) <= end; t += 2 * lanes) {
    Block<S, 2, kNumbers, true>(d, job, unit, co, t, bias, end, y);
  }
  for (; S * (t + lanes) <= end; t += lanes) Block<S, 1, kNumbers, true>(d, job, unit, co, t, bias, end, y);
  if (S * t < end) Block<S, 1, kNumbers, false>(d, job, unit, co, t, bias, end, y);
}

// Testing every sum for NaN takes as long as the products of a few taps. Fused multiply-adds of finite
// numbers make no NaN: their products do not overflow.
template <int S, class D, class A, class T>
HWY_NOINLINE void Channel(D d, const Job& job, const Unit<A>& unit, int64_t co, A bias, T* y) {
  if (unit.numbers && std::isfinite(bias)) {
    Blocks<S, true>(d, job, unit, co, bias, y);
  } else {
    Blocks<S, false>(d, job, unit, co, bias, y);
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
  InterleaveRows(d, tile, pitch, p.stride, 0, std::min(job.lout - o, p.stride * unit.count), y, 0);
}

// A row of x with zeros around it. Short rows are made of whole vectors: pitch has room for them.
template <class T, class D, class A>
HWY_INLINE void StageX(D d, const T* row, int64_t step, int64_t l, int64_t first, int64_t count, A* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count > 8 * lanes) return StageRow(d, row, step, l, first, count, out);
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(hn::Zero(d), d, out + i);
  const int64_t from = std::clamp<int64_t>(-first, 0, count),
                to = std::clamp<int64_t>(l - first, from, count);
  if (to > from) CopyShort(row + (first + from) * step, step, to - from, out + from);
}

template <class T, class D, class A, class Steps>
HWY_INLINE Unit<A> PrepareX(D d, const Job& job, const T* x, const Steps& steps, int64_t t0, A* staged) {
  const core::Problem& p = job.problem;
  const int64_t count = std::min(job.config.tile, core::ceil_div(job.lout, p.stride) - t0);
  const int64_t first = t0 + job.residues.lowest;
  const int64_t reach = hwy::RoundUpTo(static_cast<std::size_t>(count), hn::Lanes(d)) + job.residues.highest;
  if constexpr (std::is_same_v<T, A>) {
    if (steps[2] == 1 && first >= 0 && t0 + reach <= p.l)
      return {x + first, steps[1], nullptr, t0, count, false};
  }
  const int64_t positions = reach - job.residues.lowest;
  for (int64_t ci = 0; ci < p.cin_per_group(); ++ci) {
    StageX(d, x + ci * steps[1], steps[2], p.l, first, positions, staged + ci * job.pitch);
  }
  return {staged, job.pitch, nullptr, t0, count, false};
}

template <class D, class A>
HWY_INLINE bool FiniteX(D d, const Job& job, const Unit<A>& unit) {
  const int64_t positions = unit.count + job.residues.highest - job.residues.lowest;
  bool finite = true;
  for (int64_t ci = 0; ci < job.problem.cin_per_group(); ++ci) {
    finite = AllFinite(d, unit.x + ci * unit.x_pitch, positions) && finite;
  }
  return finite;
}

template <class D, class A, class T>
HWY_INLINE void OneChannel(D d, const Job& job, const Unit<A>& unit, int64_t co, A bias, A* tile, T* y) {
  const int64_t stride = job.problem.stride;
  if (job.config.way == Way::rows_tile) {
    ChannelByTile(d, job, unit, co, bias, tile, y);
  } else if (stride > 8) {
    ChannelByResidue<16>(job, unit, co, bias, y);
  } else if (stride > 4) {
    ChannelByResidue<8>(job, unit, co, bias, y);
  } else if (stride == 1) {
    Channel<1>(d, job, unit, co, bias, y);
  } else if (stride == 2) {
    Channel<2>(d, job, unit, co, bias, y);
  } else if (stride == 3) {
    Channel<3>(d, job, unit, co, bias, y);
  } else {
    Channel<4>(d, job, unit, co, bias, y);
  }
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
  T* line = reinterpret_cast<T*>(weights + job.weights_per_group() + kSlack);
  A* tile = weights + job.weights_per_group() + kSlack + job.line_elements();
  const int64_t begin = task * job.config.units_per_task;
  const int64_t end = std::min(job.units(), begin + job.config.units_per_task);
  bool finite = true, group_finite = true;
  const int64_t count = job.weights_per_group();
  const A* w = weights;
  int64_t loaded = -1, n = begin / (p.groups * tiles), group = begin / tiles % p.groups, at = begin % tiles;
  for (int64_t u = begin; u < end; ++u) {
    if (group != loaded) {
      const T* raw = static_cast<const T*>(in.weight) + group * count;
      if (!std::is_same_v<T, A> || job.config.way == Way::residues) {  // the latter loads whole vectors
        CopyShort(raw, 1, count, weights);
        group_finite = AllFinite(d, weights, count);
      } else if constexpr (std::is_same_v<T, A>) {
        group_finite = AllFinite(d, raw, count);  // a load of what was just stored in pieces would wait
        w = raw;
      }
      finite = finite && group_finite;
      loaded = group;
    }
    const T* x = static_cast<const T*>(in.x) + n * steps[0] + group * cin * steps[1];
    Unit<A> unit = PrepareX<T>(d, job, x, steps, at * job.config.tile, staged);
    unit.w = w;
    // For a few vectors, the test would take longer than it saves.
    unit.numbers = HWY_NATIVE_FMA && group_finite && job.config.way != Way::rows_tile && unit.count >= 256 &&
                   FiniteX(d, job, unit);
    for (int64_t co = 0; co < cout; ++co) {
      const int64_t channel = group * cout + co;
      T* y = static_cast<T*>(in.output) + (n * p.cout + channel) * job.lout;
      const A bias = start_of<T>(p.has_bias, in.bias, channel);
      T* to = job.config.stream ? line : y + p.stride * unit.t0;
      OneChannel(d, job, unit, co, bias, tile, to);
      if (job.config.stream) {
        StreamRow(line, std::min(job.lout - p.stride * unit.t0, p.stride * unit.count),
                  y + p.stride * unit.t0);
      }
    }
    if (++at < tiles) continue;
    at = 0;
    if (++group == p.groups) group = 0, ++n;
  }
  if (job.config.stream) hwy::FlushStream();
  return finite;
}

bool Run(const Job& job, const plan::Operands& in, int64_t task, void* scratch) {
  return with_storage(job.problem.dtype, [&](auto storage) HWY_ATTR {
    if (job.config.way == Way::flat) {
      RunFlat<decltype(storage)>(job, in, task, scratch);
      return true;
    }
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
