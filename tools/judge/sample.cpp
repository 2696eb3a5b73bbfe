// Single elements by the formula: a large problem is judged on a sample of them.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/threads/pool.hpp"
#include "judge/fill.hpp"
#include "judge/truth.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {
namespace {

using core::Operation;
using core::Problem;
using plan::Operands;

struct Sums {
  const Problem& p;
  bool tf32;
  Exact exact = {};
  bool products = false;

  void add(const void* a, int64_t i, const void* b, int64_t j) {
    const double x = reference::load(p.dtype, a, i), w = reference::load(p.dtype, b, j);
    exact.value += x * w;
    products = true;
    exact.magnitude += std::fabs(x * w);
    if (tf32) exact.deviation += deviation_tf32(x, w);
  }
  void add(double v) {
    exact.value += v;
    exact.magnitude += std::fabs(v);
  }
  Exact with_bias(const void* biases, int64_t channel) {
    if (!p.has_bias) return exact;
    const double bias = reference::load(p.dtype, biases, channel);
    add(bias);
    if (!products) exact.value = bias;  // -0.0 too
    return exact;
  }
};

Exact transposed_at(const Problem& p, const Operands& in, bool tf32, int64_t n, int64_t co, int64_t o) {
  const auto steps = p.x_steps();
  const int64_t cin_g = p.cin_per_group(), cout_g = p.cout_per_group();
  Sums sums{p, tf32};
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = o + p.padding - k * p.dilation;
    if (reach < 0 || reach % p.stride != 0 || reach / p.stride >= p.l) continue;
    const int64_t i = reach / p.stride;
    for (int64_t c = 0; c < cin_g; ++c) {
      const int64_t ci = co / cout_g * cin_g + c;
      sums.add(in.x, n * steps[0] + ci * steps[1] + i * steps[2], in.weight,
               (ci * cout_g + co % cout_g) * p.k + k);
    }
  }
  return sums.with_bias(in.bias, co);
}

Exact strided_at(const Problem& p, const Operands& in, bool tf32, int64_t n, int64_t ci, int64_t i) {
  const int64_t cout_g = p.cout_per_group(), first_co = ci / p.cin_per_group() * cout_g, lout = p.lout();
  const auto steps = p.y_steps();
  Sums sums{p, tf32};
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t o = p.stride * i - p.padding + k * p.dilation;
    if (o < 0 || o >= lout) continue;
    for (int64_t c = 0; c < cout_g; ++c) {
      sums.add(in.grad_output, n * steps[0] + (first_co + c) * steps[1] + o * steps[2], in.weight,
               (ci * cout_g + c) * p.k + k);
    }
  }
  return sums.with_bias(in.bias, ci);
}

Exact weight_at(const Problem& p, const Operands& in, bool tf32, int64_t ci, int64_t c, int64_t k) {
  const auto steps = p.x_steps(), y_steps = p.y_steps();
  const int64_t co = ci / p.cin_per_group() * p.cout_per_group() + c, lout = p.lout();
  Sums sums{p, tf32};
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t i = 0; i < p.l; ++i) {
      const int64_t o = p.stride * i - p.padding + k * p.dilation;
      if (o < 0 || o >= lout) continue;
      sums.add(in.x, n * steps[0] + ci * steps[1] + i * steps[2], in.grad_output,
               n * y_steps[0] + co * y_steps[1] + o * y_steps[2]);
    }
  }
  return sums.exact;
}

Exact bias_at(const Problem& p, const Operands& in, int64_t co) {
  const int64_t lout = p.lout();
  const auto steps = p.y_steps();
  Sums sums{p, false};
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t o = 0; o < lout; ++o) {
      sums.add(reference::load(p.dtype, in.grad_output, n * steps[0] + co * steps[1] + o * steps[2]));
    }
  }
  return sums.exact;
}

// The operation's output as (a, b, c), row-major.
std::array<int64_t, 3> output_shape(const Problem& p) {
  switch (p.operation) {
    case Operation::transposed:
      return {p.n, p.cout, p.lout()};
    case Operation::strided:
      return {p.n, p.cin, p.l};
    case Operation::weight:
      return {p.cin, p.cout_per_group(), p.k};
    case Operation::bias:
      return {1, 1, p.cout};
  }
  return {};
}

// A place in [0, size): an end, near a multiple of a usual tile size, or anywhere.
int64_t draw_place(Rng& rng, int64_t size) {
  const int64_t kind = rng.between(0, 9);
  if (kind < 2) return rng.pick({int64_t{0}, size - 1});
  if (kind < 6) {
    const int64_t tile = rng.pick({8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096});
    const int64_t edge = rng.between(0, size / tile) * tile + rng.between(-2, 1);
    return std::clamp<int64_t>(edge, 0, size - 1);
  }
  return rng.between(0, size - 1);
}

// Channels of the bias cost more than elements of the weight where y is longer than x.
void draw_channels(std::vector<int64_t>& samples, const Problem& p, Rng& rng, int64_t count) {
  const int64_t first = p.output_elements(), channels = p.grad_bias_elements();
  if (channels == 0) return;
  samples.insert(samples.end(), {first, first + channels - 1});
  for (int64_t i = 2; i < count; ++i) samples.push_back(first + draw_place(rng, channels));
}

std::vector<int64_t> draw_samples(const Problem& p, Rng& rng, int64_t count) {
  const auto [a, b, c] = output_shape(p);
  std::vector<int64_t> samples;
  for (int corner = 0; corner < 8; ++corner) {
    samples.push_back(((corner & 4 ? a - 1 : 0) * b + (corner & 2 ? b - 1 : 0)) * c +
                      (corner & 1 ? c - 1 : 0));
  }
  while (static_cast<int64_t>(samples.size()) < count) {
    const int64_t i = draw_place(rng, a), j = draw_place(rng, b), k = draw_place(rng, c);
    samples.push_back((i * b + j) * c + k);
  }
  draw_channels(samples, p, rng, count / 8);
  std::sort(samples.begin(), samples.end());
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  return samples;
}

}  // namespace

double round_tf32(double v) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(v));
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;  // NaN, infinities
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
}

double other_tf32(double v) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(v));
  if ((bits & 0x7f800000u) == 0x7f800000u || (bits & 0x1fffu) != 0x1000u) return round_tf32(v);
  return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffu));
}

double deviation_tf32(double x, double w) {
  double most = 0;
  for (const double a : {round_tf32(x), other_tf32(x)}) {
    for (const double b : {round_tf32(w), other_tf32(w)}) most = std::max(most, std::fabs(x * w - a * b));
  }
  return most;
}

Exact exact_at(const Problem& p, const Operands& raw, bool tf32, int64_t index) {
  if (index >= p.output_elements()) {
    Operands summed;
    summed.grad_output = p.bias_of_x ? raw.x : raw.grad_output;
    return bias_at(grad_bias_of(p), summed, index - p.output_elements());
  }
  const auto [a, b, c] = output_shape(p);
  const int64_t i = index / (b * c), j = index / c % b, k = index % c;
  switch (p.operation) {
    case Operation::transposed:
      return transposed_at(p, raw, tf32, i, j, k);
    case Operation::strided:
      return strided_at(p, raw, tf32, i, j, k);
    case Operation::weight:
      return weight_at(p, raw, tf32, i, j, k);
    case Operation::bias:
      return bias_at(p, raw, index);
  }
  return {};
}

Truth Truth::sampled(const Problem& p, const Operands& raw, bool tf32, Rng& rng) {
  Truth truth;
  if (p.output_elements() == 0) return truth;
  const int64_t affordable = 40'000'000 / std::max<int64_t>(1, most_terms(p));
  truth.indices_ = draw_samples(p, rng, std::clamp<int64_t>(affordable, 40, 20'000));
  const std::size_t count = truth.indices_.size();
  truth.value_.resize(count);
  truth.magnitude_.resize(count);
  if (tf32) truth.deviation_.resize(count);
  cpu::pool_executor(cpu::host_device().threads).run(static_cast<int64_t>(count), [&](int64_t s, int32_t) {
    const auto j = static_cast<std::size_t>(s);
    const Exact exact = exact_at(p, raw, tf32, truth.indices_[j]);
    truth.value_[j] = exact.value;
    truth.magnitude_[j] = exact.magnitude;
    if (tf32) truth.deviation_[j] = exact.deviation;
  });
  return truth;
}

}  // namespace tconv::judge
