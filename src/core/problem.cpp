#include "core/problem.hpp"

#include <algorithm>
#include <utility>

namespace tconv::core {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f64:
      return 8;
    case DType::f16:
    case DType::bf16:
      return 2;
  }
  return 0;
}

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::transposed:
      return "transposed";
    case Operation::strided:
      return "strided";
    case Operation::weight:
      return "weight";
    case Operation::bias:
      return "dbias";
  }
  return "?";
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

const char* name_of(Precision precision) {
  return precision == Precision::tf32 ? "tf32" : "ieee";
}

int64_t Problem::lout() const {
  return (l - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1;
}

std::array<int64_t, 3> Problem::x_steps() const {
  if (x_contiguous) return {cin * l, l, 1};
  return x_stride;
}

std::array<int64_t, 3> Problem::y_steps() const {
  if (!y_contiguous) return y_stride;
  const int64_t length = lout();
  return {cout * length, length, 1};
}

int64_t Problem::x_span() const {
  if (n == 0) return 0;
  const auto steps = x_steps();
  return (n - 1) * steps[0] + (cin - 1) * steps[1] + (l - 1) * steps[2] + 1;
}

int64_t Problem::y_span() const {
  const int64_t length = lout();
  if (n == 0 || length == 0) return 0;
  const auto steps = y_steps();
  return (n - 1) * steps[0] + (cout - 1) * steps[1] + (length - 1) * steps[2] + 1;
}

int64_t Problem::output_elements() const {
  switch (operation) {
    case Operation::transposed:
      return y_elements();
    case Operation::strided:
      return x_elements();
    case Operation::weight:
      return weight_elements();
    case Operation::bias:
      return cout;
  }
  return 0;
}

Problem grad_bias_of(const Problem& p) {
  Problem sums = p;
  sums.operation = Operation::bias;
  sums.precision = Precision::ieee;
  sums.has_bias = sums.bias_of_x = false;
  sums.x_contiguous = true, sums.x_stride = {0, 0, 0};
  if (p.bias_of_x) {
    sums.cout = p.cin;
    sums.y_contiguous = p.x_contiguous, sums.y_stride = p.x_stride;
  }
  const int64_t length = p.bias_of_x ? p.l : p.lout();
  if (length == 0) return sums;  // only numbers like the problem's own leave an output without positions
  sums.cin = sums.k = sums.stride = sums.dilation = sums.groups = 1;
  sums.padding = sums.output_padding = 0;
  sums.l = length;
  return sums;
}

namespace {

using Wide = unsigned __int128;  // l*k pairs may leave 64 bits

// The sum over i in [0, n) of (a*i + b)/m, by a recursion like Euclid's algorithm.
Wide floor_sum(Wide n, Wide m, Wide a, Wide b) {
  Wide sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const Wide last = a * n + b;
    n = last / m;
    b = last % m;
    std::swap(m, a);
  }
  return sum;
}

// Pairs of an input i and a tap k with stride*i + dilation*k <= most.
Wide pairs_up_to(const Problem& p, int64_t most) {
  if (most < 0) return 0;
  const int64_t farthest = (p.l - 1) * p.stride;
  // Taps that every input has, then taps that some have.
  const int64_t whole = most < farthest ? 0 : std::min(p.k, (most - farthest) / p.dilation + 1);
  const int64_t some = std::min(p.k, most / p.dilation + 1);
  Wide pairs = static_cast<Wide>(whole) * static_cast<Wide>(p.l);
  if (some > whole) {
    const auto taps = static_cast<Wide>(some - whole);
    pairs += taps + floor_sum(taps, static_cast<Wide>(p.stride), static_cast<Wide>(p.dilation),
                              static_cast<Wide>(most - p.dilation * (some - 1)));
  }
  return pairs;
}

}  // namespace

Work work_of(const Problem& p) {
  const double element = static_cast<double>(size_of(p.dtype));
  const double x = static_cast<double>(p.x_elements()), y = static_cast<double>(p.y_elements());
  const double w = static_cast<double>(p.weight_elements());
  const double bias = p.reads_bias() ? static_cast<double>(p.bias_channels()) : 0.0;
  if (p.operation == Operation::bias) return {y, element * (y + static_cast<double>(p.cout))};
  // In closed form: planning must not take longer for a longer kernel.
  double products =
      static_cast<double>(pairs_up_to(p, p.lout() - 1 + p.padding) - pairs_up_to(p, p.padding - 1));
  products *= static_cast<double>(p.n) * static_cast<double>(p.cin) * static_cast<double>(p.cout_per_group());
  const double added = p.reads_bias() ? static_cast<double>(p.output_elements()) : 0.0;
  Work work = {2 * products + added, element * (x + y + w + bias)};
  if (p.writes_grad_bias()) {  // of a tensor that is read in any case
    work.flops += p.bias_of_x ? x : y;
    work.bytes += element * static_cast<double>(p.grad_bias_elements());
  }
  return work;
}

}  // namespace tconv::core
