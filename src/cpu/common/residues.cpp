#include "cpu/common/residues.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/common/storage.hpp"

namespace tconv::cpu {
namespace {

using core::Problem;

template <class T>
void repair_output(const Problem& p, const Residues& residues, const Residue& residue,
                   const plan::Operands& raw, int64_t n, int64_t co, int64_t t, int64_t o) {
  using A = Accumulator<T>;
  const auto steps = p.x_steps();
  const int64_t cout_g = p.cout_per_group(), cin_g = p.cin_per_group(), group = co / cout_g;
  const T* x = static_cast<const T*>(raw.x) + n * steps[0];
  const T* w = static_cast<const T*>(raw.weight) + co % cout_g * p.k;
  A sum = start_of<T>(p.has_bias, raw.bias, co);
  for (int64_t ci = group * cin_g; ci < (group + 1) * cin_g; ++ci) {
    for (int64_t j = 0; j < residue.count; ++j) {
      const int64_t i = t + residue.offset - j * residues.x_step;
      if (i < 0 || i >= p.l) continue;
      sum = std::fma(widen(x[ci * steps[1] + i * steps[2]]),
                     widen(w[ci * cout_g * p.k + residue.k0 + j * residues.k_step]), sum);
    }
  }
  static_cast<T*>(raw.output)[(n * p.cout + co) * p.lout() + o] = round_to<T>(sum);
}

template <class T>
void repair_channel(const Problem& p, const Residues& residues, const plan::Operands& raw, int64_t n,
                    int64_t co) {
  const int64_t lout = p.lout();
  for (int64_t f = 0; f < static_cast<int64_t>(residues.table.size()); ++f) {
    const Residue& residue = residues.table[static_cast<std::size_t>(f)];
    if (residue.count == 0) continue;
    const int64_t outputs = core::ceil_div(lout - f, p.stride);
    // All taps of t lie inside x if t is in [inner, outer).
    const int64_t inner =
        std::clamp<int64_t>((residue.count - 1) * residues.x_step - residue.offset, 0, outputs);
    const int64_t outer = std::clamp<int64_t>(p.l - residue.offset, inner, outputs);
    for (int64_t t = 0; t < inner; ++t)
      repair_output<T>(p, residues, residue, raw, n, co, t, f + p.stride * t);
    for (int64_t t = outer; t < outputs; ++t) {
      repair_output<T>(p, residues, residue, raw, n, co, t, f + p.stride * t);
    }
  }
}

// Whether the output at t of a residue has a product: looks at its tap with the lowest position from 0 on.
bool has_product(const Problem& p, const Residues& residues, const Residue& residue, int64_t t) {
  const int64_t highest = t + residue.offset;
  if (residue.count == 0 || highest < 0) return false;
  return highest - std::min(residue.count - 1, highest / residues.x_step) * residues.x_step < p.l;
}

// One channel of one sample.
template <class T>
void store_alone(const Problem& p, const Residues& residues, T bias, T* y) {
  const int64_t lout = p.lout();
  for (int64_t f = 0; f < static_cast<int64_t>(residues.table.size()); ++f) {
    const Residue& residue = residues.table[static_cast<std::size_t>(f)];
    const int64_t outputs = core::ceil_div(lout - f, p.stride);
    for (int64_t t = 0; t < outputs; ++t) {
      if (!has_product(p, residues, residue, t)) y[f + p.stride * t] = bias;
    }
  }
}

Residue residue_of(const core::Polyphase& form, int64_t f) {
  const int64_t q = f + form.padding, phase = form.phase_of(q);
  if (phase < 0) return {};
  return {phase, form.position_of(q, phase), form.taps_of(phase)};
}

}  // namespace

Residues residues_of(const Problem& p) {
  const core::Polyphase form(p);
  Residues result{form.tap_stride, form.step, 0, 0, {}};
  const int64_t residues = std::min(p.stride, p.lout());
  result.table.reserve(static_cast<std::size_t>(residues));
  bool any = false;
  for (int64_t f = 0; f < residues; ++f) {
    const Residue residue = residue_of(form, f);
    result.table.push_back(residue);
    if (residue.count == 0) continue;
    const int64_t last = residue.offset - (residue.count - 1) * result.x_step;
    result.lowest = any ? std::min(result.lowest, last) : last;
    result.highest = any ? std::max(result.highest, residue.offset) : residue.offset;
    any = true;
  }
  return result;
}

void repair_ends(const Problem& p, const Residues& residues, const plan::Operands& raw,
                 const core::Executor& executor) {
  executor.run(p.n * p.cout, [&](int64_t index, int32_t) {
    with_storage(p.dtype, [&](auto tag) {
      repair_channel<decltype(tag)>(p, residues, raw, index / p.cout, index % p.cout);
    });
  });
}

void store_bias_alone(const Problem& p, const Residues& residues, const plan::Operands& raw,
                      const core::Executor& executor) {
  if (!p.has_bias) return;
  with_storage(p.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T* bias = static_cast<const T*>(raw.bias);
    if (!any_negative_zero<T>(bias, p.cout)) return;
    executor.run(p.n * p.cout, [&](int64_t index, int32_t) {
      const T value = bias[index % p.cout];
      if (is_negative_zero(value))
        store_alone(p, residues, value, static_cast<T*>(raw.output) + index * p.lout());
    });
  });
}

}  // namespace tconv::cpu
