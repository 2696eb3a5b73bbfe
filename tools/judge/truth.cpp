#include "judge/truth.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/threads/pool.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {

using core::Operation;
using core::Problem;
using plan::Operands;

namespace {

// An operand as contiguous float64 and, if it matters, rounded to tf32, with ties in both directions.
struct Wide {
  std::vector<double> value, rounded, other;
  std::vector<int64_t> ties;  // the number of ties before each element

  template <class Index>  // Index: position in value -> element of the tensor
  Wide(const Problem& p, const void* data, int64_t count, bool tf32, Index&& index)
      : value(static_cast<std::size_t>(count)) {
    for (int64_t i = 0; i < count; ++i) {
      value[static_cast<std::size_t>(i)] = reference::load(p.dtype, data, index(i));
    }
    if (!tf32) return;
    rounded.resize(value.size());
    other.resize(value.size());
    std::transform(value.begin(), value.end(), rounded.begin(), round_tf32);
    std::transform(value.begin(), value.end(), other.begin(), other_tf32);
    ties.assign(value.size() + 1, 0);
    for (std::size_t i = 0; i < value.size(); ++i) ties[i + 1] = ties[i] + (other[i] != rounded[i] ? 1 : 0);
  }
  // Whether there are any from element `first` to `last`.
  bool has_ties(int64_t first, int64_t last) const {
    return ties[static_cast<std::size_t>(last + 1)] != ties[static_cast<std::size_t>(first)];
  }
};

Wide widen(const Problem& p, const void* data, int64_t count, bool tf32) {
  return Wide(p, data, count, tf32, [](int64_t i) { return i; });
}

Wide widen(const Problem& p, const void* data, const std::array<int64_t, 3>& shape,
           const std::array<int64_t, 3>& steps, bool tf32) {
  const int64_t channels = shape[1], positions = shape[2];
  return Wide(p, data, shape[0] * channels * positions, tf32, [&](int64_t i) {
    return i / (channels * positions) * steps[0] + i / positions % channels * steps[1] +
           i % positions * steps[2];
  });
}
Wide widen_x(const Problem& p, const void* data, bool tf32) {
  return widen(p, data, {p.n, p.cin, p.l}, p.x_steps(), tf32);
}
Wide widen_y(const Problem& p, const void* data, bool tf32) {
  return widen(p, data, {p.n, p.cout, p.lout()}, p.y_steps(), tf32);
}

// Three running sums over a row of elements; deviation is null if it does not matter.
struct RunningSums {
  double *value, *magnitude, *deviation;
};

// row[i] += a[i*step] * b: what a tap adds to `count` elements. Adding 0.0 turns a product of -0.0 into +0.0,
// so that a sum that began at -0.0 keeps this sign only without products.
void add_products(const RunningSums& row, int64_t count, const double* a, int64_t step, double b) {
  double* __restrict value = row.value;
  double* __restrict magnitude = row.magnitude;
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const double product = a[i] * b + 0.0;
      value[i] += product;
      magnitude[i] += std::fabs(product);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double product = a[i * step] * b + 0.0;
    value[i] += product;
    magnitude[i] += std::fabs(product);
  }
}

// As deviation_tf32; both roundings of b, which are mostly equal.
void add_deviations(double* deviation, int64_t count, const Wide& a, int64_t a_at, int64_t step, double b,
                    const double (&rb)[2]) {
  const double *value = a.value.data() + a_at, *rounded = a.rounded.data() + a_at,
               *other = a.other.data() + a_at;
  const bool tie = rb[0] != rb[1];
  if (!tie && !a.has_ties(a_at, a_at + (count - 1) * step)) {  // mostly
    for (int64_t i = 0; i < count; ++i) {
      deviation[i] += std::fabs(value[i * step] * b - rounded[i * step] * rb[0]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double product = value[i * step] * b, r = rounded[i * step], o = other[i * step];
    double most = std::max(std::fabs(product - r * rb[0]), std::fabs(product - o * rb[0]));
    if (tie) {
      most = std::max({most, std::fabs(product - r * rb[1]), std::fabs(product - o * rb[1])});
    }
    deviation[i] += most;
  }
}

void add_tap(const RunningSums& row, int64_t first, int64_t count, const Wide& a, int64_t a_at, int64_t step,
             const Wide& b, int64_t b_at) {
  const RunningSums part{row.value + first, row.magnitude + first, row.deviation};
  add_products(part, count, a.value.data() + a_at, step, b.value[static_cast<std::size_t>(b_at)]);
  if (row.deviation == nullptr) return;
  const auto at = static_cast<std::size_t>(b_at);
  add_deviations(row.deviation + first, count, a, a_at, step, b.value[at], {b.rounded[at], b.other[at]});
}

// Positions i of [0, l) for which stride*i - padding + k*dilation lies in [0, lout).
struct Range {
  int64_t first, count;
};
Range inputs_of_tap(const Problem& p, int64_t k) {
  const int64_t offset = k * p.dilation - p.padding;
  const int64_t first = std::max<int64_t>(0, core::ceil_div(-offset, p.stride));
  const int64_t last = std::min(p.l - 1, core::floor_div(p.lout() - 1 - offset, p.stride));
  return {first, std::max<int64_t>(0, last - first + 1)};
}

}  // namespace

struct TruthMaker {
  const Problem& p;
  const Operands& in;
  bool tf32;
  Truth truth;

  void resize() {
    const auto count = static_cast<std::size_t>(written_elements(p));
    truth.value_.assign(count, 0);
    truth.magnitude_.assign(count, 0);
    if (tf32) truth.deviation_.assign(count, 0);
  }
  RunningSums row_at(int64_t index) {
    return {truth.value_.data() + index, truth.magnitude_.data() + index,
            tf32 ? truth.deviation_.data() + index : nullptr};
  }
  template <class F>
  static void each(int64_t count, F&& f) {
    cpu::pool_executor(count > 1 ? cpu::host_device().threads : 1).run(count, f);
  }

  // Outputs of one phase lie stride apart: sums are kept side by side, one residue of the outputs after the
  // other, and spread at the end of the row.
  struct Residue {
    int64_t first, count;     // outputs first + stride*t
    int64_t phase, position;  // of the first output; -1: no phase
  };
  static std::vector<Residue> residues_of(const Problem& p, const core::Polyphase& form) {
    std::vector<Residue> residues;
    for (int64_t first = 0; first < std::min(p.stride, p.lout()); ++first) {
      const int64_t q = first + p.padding, phase = form.phase_of(q);
      residues.push_back({first, core::ceil_div(p.lout() - first, p.stride), phase,
                          phase < 0 ? 0 : form.position_of(q, phase)});
    }
    return residues;
  }

  void transposed() {
    const Wide x = widen_x(p, in.x, tf32), w = widen(p, in.weight, p.weight_elements(), tf32);
    const core::Polyphase form(p);
    const std::vector<Residue> residues = residues_of(p, form);
    const int64_t lout = p.lout();
    each(p.n * p.cout, [&](int64_t index, int32_t) {
      const int64_t n = index / p.cout, co = index % p.cout;
      std::vector<double> sums(static_cast<std::size_t>(3 * lout));
      std::fill_n(sums.begin(), lout, -0.0);  // without products, what the bias adds to is nothing
      int64_t start = 0;
      for (const Residue& r : residues) {
        const RunningSums row{sums.data() + start, sums.data() + lout + start,
                              tf32 ? sums.data() + 2 * lout + start : nullptr};
        if (r.phase >= 0) forward_residue(row, form, r, x, w, n, co);
        spread(sums.data() + start, r, row_at(index * lout), co);
        start += r.count;
      }
    });
  }
  void forward_residue(const RunningSums& row, const core::Polyphase& form, const Residue& r, const Wide& x,
                       const Wide& w, int64_t n, int64_t co) const {
    const int64_t cin_g = p.cin_per_group(), cout_g = p.cout_per_group();
    const int64_t first_ci = co / cout_g * cin_g;
    for (int64_t ci = first_ci; ci < first_ci + cin_g; ++ci) {
      for (int64_t j = 0; j < form.taps_of(r.phase); ++j) {
        const int64_t origin = r.position - j * form.step;  // input of the residue's first output
        const int64_t first = std::max<int64_t>(0, -origin), last = std::min(r.count, p.l - origin);
        if (first >= last) continue;
        add_tap(row, first, last - first, x, (n * p.cin + ci) * p.l + origin + first, 1, w,
                (ci * cout_g + co % cout_g) * p.k + r.phase + j * form.tap_stride);
      }
    }
  }
  void spread(const double* sums, const Residue& r, const RunningSums& out, int64_t co) const {
    const double bias = p.has_bias ? reference::load(p.dtype, in.bias, co) : 0;
    const int64_t lout = p.lout();
    for (int64_t t = 0; t < r.count; ++t) {
      const int64_t o = r.first + p.stride * t;
      out.value[o] = sums[t] + bias;
      out.magnitude[o] = sums[lout + t] + std::fabs(bias);
      if (tf32) out.deviation[o] = sums[2 * lout + t];
    }
  }

  void strided() {
    const Wide dy = widen_y(p, in.grad_output, tf32);
    const Wide w = widen(p, in.weight, p.weight_elements(), tf32);
    const int64_t cout_g = p.cout_per_group(), lout = p.lout();
    each(p.n * p.cin, [&](int64_t index, int32_t) {
      const int64_t n = index / p.cin, ci = index % p.cin, first_co = ci / p.cin_per_group() * cout_g;
      const RunningSums row = row_at(index * p.l);
      std::fill_n(row.value, p.l, -0.0);  // as in transposed()
      for (int64_t c = 0; c < cout_g; ++c) {
        for (int64_t k = 0; k < p.k; ++k) {
          const Range range = inputs_of_tap(p, k);
          if (range.count == 0) continue;
          const int64_t o = p.stride * range.first - p.padding + k * p.dilation;
          add_tap(row, range.first, range.count, dy, (n * p.cout + first_co + c) * lout + o, p.stride, w,
                  (ci * cout_g + c) * p.k + k);
        }
      }
      const double bias = p.has_bias ? reference::load(p.dtype, in.bias, ci) : 0;
      for (int64_t i = 0; i < p.l; ++i) {
        row.value[i] += bias;
        row.magnitude[i] += std::fabs(bias);
      }
    });
  }

  void weight() {
    const Wide x = widen_x(p, in.x, tf32), dy = widen_y(p, in.grad_output, tf32);
    const int64_t cout_g = p.cout_per_group(), lout = p.lout();
    each(p.cin * cout_g, [&](int64_t index, int32_t) {
      const int64_t ci = index / cout_g, co = ci / p.cin_per_group() * cout_g + index % cout_g;
      for (int64_t k = 0; k < p.k; ++k) {
        const Range range = inputs_of_tap(p, k);
        const int64_t o = p.stride * range.first - p.padding + k * p.dilation;
        for (int64_t n = 0; n < p.n; ++n) {
          for (int64_t i = 0; i < range.count; ++i) {
            add_tap(row_at(index * p.k + k), 0, 1, x, (n * p.cin + ci) * p.l + range.first + i, 1, dy,
                    (n * p.cout + co) * lout + o + i * p.stride);
          }
        }
      }
    });
  }

  // Sums of the y of `of`, which data are, from element `first` on.
  void bias(const Problem& of, const void* data, int64_t first) {
    const int64_t lout = of.lout();
    const auto steps = of.y_steps();
    each(of.cout, [&](int64_t co, int32_t) {
      const auto at = static_cast<std::size_t>(first + co);
      for (int64_t n = 0; n < of.n; ++n) {
        for (int64_t o = 0; o < lout; ++o) {
          const double v = reference::load(of.dtype, data, n * steps[0] + co * steps[1] + o * steps[2]);
          truth.value_[at] += v;
          truth.magnitude_[at] += std::fabs(v);
        }
      }
    });
  }

  void run() {
    resize();
    switch (p.operation) {
      case Operation::transposed:
        return transposed();
      case Operation::strided:
        return strided();
      case Operation::weight:
        weight();
        if (p.writes_grad_bias()) {
          bias(grad_bias_of(p), p.bias_of_x ? in.x : in.grad_output, p.output_elements());
        }
        return;
      case Operation::bias:
        return bias(p, in.grad_output, 0);
    }
  }
};

Truth Truth::all(const Problem& problem, const Operands& raw, bool tf32) {
  TruthMaker maker{problem, raw, tf32, {}};
  if (problem.output_elements() > 0) maker.run();
  return std::move(maker.truth);
}

}  // namespace tconv::judge
