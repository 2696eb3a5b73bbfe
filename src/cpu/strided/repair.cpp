// The rare repairs of cpu.strided: infinite or NaN weights, and a bias of -0.0 without products.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/strided/contract.hpp"

namespace tconv::cpu::strided {
namespace {

// Place of (block, co, k, row 0) in a group's packed weights.
int64_t packed_at(const Job& job, int64_t block, int64_t co, int64_t k) {
  const int64_t first = k / job.split.tap_block * job.split.tap_block;
  const int64_t taps = std::min(job.split.tap_block, job.problem.k - first);
  return (block * job.cout * job.problem.k + first * job.cout + co * taps + k - first) * kRows;
}

// Recomputes each NaN in a row of dx whose position has taps outside dy. weight_at(co, k): the row's weight.
template <class T, class WeightAt>
void repair_row(const Job& job, const plan::Operands& in, int64_t n, int64_t channel,
                const WeightAt& weight_at) {
  using A = Accumulator<T>;
  const core::Problem& p = job.problem;
  const int64_t group = channel / job.cin;
  const T* dy = static_cast<const T*>(in.grad_output) + n * job.split.sample_step +
                group * job.cout * job.split.channel_step;
  T* dx = static_cast<T*>(in.output) + (n * p.cin + channel) * p.l;
  const Inside all = inside(job);
  for (int64_t i = 0; i < p.l; ++i) {
    if (i == all.begin) i = all.end;
    if (i >= p.l) break;
    if (!std::isnan(widen(dx[i]))) continue;  // no infinite weight met a zero here
    A sum = start_of<T>(p.has_bias, in.bias, channel);
    for (int64_t first = 0; first < p.k; first += job.split.tap_block) {
      for (int64_t co = 0; co < job.cout; ++co) {
        for (int64_t k = first; k < std::min(p.k, first + job.split.tap_block); ++k) {
          const int64_t o = p.stride * i + (k * p.dilation - p.padding);
          if (o < 0 || o >= job.lout) continue;
          sum = std::fma(weight_at(co, k),
                         static_cast<A>(widen(dy[co * job.split.channel_step + o * job.split.place_step])),
                         sum);
        }
      }
    }
    dx[i] = round_to<T>(sum);
  }
}

template <class T>
void repair_row(const Job& job, const plan::Operands& in, const Weights& weights, int64_t n,
                int64_t channel) {
  using A = Accumulator<T>;
  const int64_t k = job.problem.k;
  if (weights.packed == nullptr) {
    const T* row = static_cast<const T*>(weights.raw) + channel * job.cout * k;
    return repair_row<T>(job, in, n, channel,
                         [&](int64_t co, int64_t tap) { return static_cast<A>(widen(row[co * k + tap])); });
  }
  const int64_t group = channel / job.cin, ci = channel % job.cin;
  const A* packed =
      static_cast<const A*>(weights.packed) + group * job.config.blocks * kRows * job.cout * k + ci % kRows;
  repair_row<T>(job, in, n, channel,
                [&](int64_t co, int64_t tap) { return packed[packed_at(job, ci / kRows, co, tap)]; });
}

// Whether a tap of position i meets dy. Dilated taps may step over a short dy.
bool has_product(const core::Problem& p, int64_t lout, int64_t i) {
  const int64_t first = p.stride * i - p.padding;
  const int64_t k = first >= 0 ? 0 : core::ceil_div(-first, p.dilation);
  return k < p.k && first + k * p.dilation < lout;
}

template <class T>
void store_bias_rows(const core::Problem& p, const plan::Operands& in, int64_t channel) {
  const T bias = static_cast<const T*>(in.bias)[channel];
  if (!is_negative_zero(bias)) return;
  const int64_t lout = p.lout();
  for (int64_t n = 0; n < p.n; ++n) {
    T* row = static_cast<T*>(in.output) + (n * p.cin + channel) * p.l;
    for (int64_t i = 0; i < p.l; ++i) {
      if (!has_product(p, lout, i)) row[i] = bias;
    }
  }
}

}  // namespace

Inside inside(const Job& job) {
  const core::Problem& p = job.problem;
  const int64_t begin = std::clamp<int64_t>(core::ceil_div(p.padding, p.stride), 0, p.l);
  const int64_t reach = (p.k - 1) * p.dilation - p.padding;
  return {begin, std::clamp<int64_t>(core::ceil_div(job.lout - reach, p.stride), begin, p.l)};
}

void repair_ends(const Job& job, const plan::Operands& operands, const Weights& weights,
                 const core::Executor& executor) {
  executor.run(job.problem.n * job.problem.cin, [&](int64_t index, int32_t) {
    with_storage(job.problem.dtype, [&](auto storage) {
      repair_row<decltype(storage)>(job, operands, weights, index / job.problem.cin, index % job.problem.cin);
    });
  });
}

void store_bias_alone(const core::Problem& problem, const plan::Operands& operands,
                      const core::Executor& executor) {
  with_storage(problem.dtype, [&](auto storage) {
    using T = decltype(storage);
    if (!any_negative_zero<T>(operands.bias, problem.cin)) return;
    executor.run(problem.cin,
                 [&](int64_t channel, int32_t) { store_bias_rows<T>(problem, operands, channel); });
  });
}

}  // namespace tconv::cpu::strided
