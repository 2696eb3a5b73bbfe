#include "judge/fill.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/polyphase.hpp"
#include "cpu/threads/pool.hpp"
#include "judge/rng.hpp"
#include "judge/special.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {
namespace {

using core::DType;
using core::Operation;
using core::Problem;

enum Role { kX, kWeight, kBias, kGradOutput };

// How one operand's values are made from random bits.
struct Maker {
  Fill fill = Fill::uniform;
  double scale = 1;   // uniform, positive
  int64_t whole = 1;  // integers: values in [-whole, whole]
  int powers = 0;     // spread: exponents in [-powers, powers]
  Specials specials = {};

  // inner: the element's place in its row.
  double operator()(uint64_t bits, int64_t inner) const {
    const double unit = unit_of(bits);
    double value = 0;
    switch (fill) {
      case Fill::integers:
        return static_cast<double>(static_cast<int64_t>(bits % static_cast<uint64_t>(2 * whole + 1)) - whole);
      case Fill::positive:
        return scale * unit;
      case Fill::spread: {
        const double magnitude =
            scale * std::ldexp(1 + unit, static_cast<int>(bits % (2 * powers + 1)) - powers);
        return (bits & 512) != 0 ? -magnitude : magnitude;
      }
      case Fill::special:
        if (specials.pick(bits, inner, value)) return value;
        [[fallthrough]];
      case Fill::uniform:
        return scale * (2 * unit - 1);
    }
    return 0;
  }
};

Maker maker_for(const Problem& p, Fill fill, uint64_t seed, int role) {
  const int64_t sums = p.writes_grad_bias() ? most_terms(grad_bias_of(p)) : 0;
  const double terms = static_cast<double>(std::max({int64_t{1}, most_terms(p), sums}));
  Maker maker;
  maker.fill = fill;
  // Integers: terms*whole^2 stays below half of what float32 counts exactly, and of float16's largest.
  const double most = p.dtype == DType::f16 ? 3e4 : 8e6;
  maker.whole = std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(most / terms)), 1, 8);
  maker.powers = p.dtype == DType::f16 ? 3 : 12;
  if (fill == Fill::special) maker.specials = Specials(p, seed, role);
  // The second factor is small enough for sums between one and sixty-four, in float16 too.
  if (role == kWeight || (p.operation == Operation::weight && role == kGradOutput)) {
    maker.scale = fill == Fill::positive ? std::min(1.0, 64 / terms) : 1 / std::sqrt(terms);
  }
  if (p.operation == Operation::bias) maker.scale = std::min(1.0, 64 / terms);
  return maker;
}

// f(first, last) over [0, count) in parallel.
template <class F>
void in_parts(int64_t count, F&& f) {
  constexpr int64_t kPart = 1 << 15;
  const core::Executor executor = cpu::pool_executor(count > kPart ? cpu::host_device().threads : 1);
  executor.run(core::ceil_div(count, kPart),
               [&](int64_t part, int32_t) { f(part * kPart, std::min(count, (part + 1) * kPart)); });
}

void fill_dense(DType dtype, const Maker& maker, uint64_t key, void* data, int64_t count) {
  in_parts(count, [&](int64_t first, int64_t last) {
    const int64_t row = maker.specials.row();
    for (int64_t i = first; i < last; ++i) {
      reference::store(dtype, data, i, maker(mix(key + static_cast<uint64_t>(i)), i % row));
    }
  });
}

void fill_strided(DType dtype, const Maker& maker, uint64_t key, const std::array<int64_t, 3>& shape,
                  const std::array<int64_t, 3>& steps, void* data) {
  // A dimension of step 0 has one place in memory.
  std::array<int64_t, 3> places = shape;
  for (std::size_t i = 0; i < 3; ++i) {
    if (steps[i] == 0) places[i] = std::min<int64_t>(shape[i], 1);
  }
  for (int64_t b = 0; b < places[0]; ++b) {
    for (int64_t c = 0; c < places[1]; ++c) {
      for (int64_t i = 0; i < places[2]; ++i) {
        const int64_t at = b * steps[0] + c * steps[1] + i * steps[2];
        reference::store(dtype, data, at, maker(mix(key + static_cast<uint64_t>(at)), i));
      }
    }
  }
}

}  // namespace

const char* name_of(Fill fill) {
  switch (fill) {
    case Fill::integers:
      return "integers";
    case Fill::uniform:
      return "uniform data";
    case Fill::positive:
      return "positive data";
    case Fill::spread:
      return "data of many magnitudes";
    case Fill::special:
      return "data with NaN and Inf";
  }
  return "?";
}

int64_t most_terms(const Problem& p) {
  if (p.n == 0 || p.lout() == 0) return 0;
  switch (p.operation) {
    case Operation::transposed:
      return p.cin_per_group() * std::min(core::Polyphase(p).taps, p.l);
    case Operation::strided:
      return p.cout_per_group() * std::min(p.k, p.lout());
    case Operation::weight:
      return p.n * p.l;
    case Operation::bias:
      return p.n * p.lout();
  }
  return 0;
}

void fill_operand(const Problem& p, Fill fill, uint64_t seed, int role, void* data) {
  const Maker maker = maker_for(p, fill, seed, role);
  const uint64_t key = mix(seed * 4 + static_cast<uint64_t>(role)) << 1;
  if (role == kX && !p.x_contiguous) {
    return fill_strided(p.dtype, maker, key, {p.n, p.cin, p.l}, p.x_stride, data);
  }
  if (role == kGradOutput && !p.y_contiguous) {
    return fill_strided(p.dtype, maker, key, {p.n, p.cout, p.lout()}, p.y_stride, data);
  }
  const int64_t counts[] = {p.x_elements(), p.weight_elements(), p.reads_bias() ? p.bias_channels() : 0,
                            p.y_elements()};
  fill_dense(p.dtype, maker, key, data, counts[role]);
}

}  // namespace tconv::judge
