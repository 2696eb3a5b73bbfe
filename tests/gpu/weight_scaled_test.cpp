// Weight gradients of float32 held in float16: numbers that spread over many powers of two, and special
// values.
#include <limits>

#include "cuda/sm90/weight_blocked_plan.hpp"
#include "gpu/gradient.hpp"
#include "gpu/hopper.hpp"
#include "judge/draw.hpp"

namespace tconv::gpu_test {
namespace {

class WeightScaled : public Hopper {};

constexpr const char* kProblems[] = {
    "gw n3 ci20 co36 l200 k4 s2 p1 f32", "gw n3 ci20 co36 l200 k4 s2 p1 f32 tf32",
    "gw n2 ci70 co9 l301 k3 s1 p1 d2 f32 tf32", "gw n2 ci70 co9 l301 k3 s1 p1 d2 f32"};

// By what each element is multiplied, from its sample, channel and position.
using Factor = double (*)(int64_t n, int64_t channel, int64_t i, int64_t length);

void multiply(const core::Problem& p, std::vector<std::byte>& data, int64_t channels, int64_t length,
              Factor by) {
  for (int64_t e = 0; e < p.n * channels * length; ++e) {
    const int64_t i = e % length, channel = e / length % channels, n = e / length / channels;
    reference::store(p.dtype, data.data(), e,
                     by(n, channel, i, length) * reference::load(p.dtype, data.data(), e));
  }
}

// Calls check with the kernel of every configuration of scaled planes.
template <class Check>
void each_kernel(const Gradient& g, const core::DeviceInfo& device, const Check& check) {
  int taken = 0;
  for (int shape = 0; shape < cuda::kSm90WeightBlockedShapes; ++shape) {
    for (const int64_t chunk : {0, 128}) {
      const cuda::Sm90WeightBlockedConfig config{shape, 1 + shape % 2, 1, 1 + static_cast<int>(chunk / 64),
                                                 chunk, true};
      if (cuda::sm90_weight_blocked_plan_of(g.problem, device, config).blocks == 0) continue;
      ++taken;
      check(*cuda::sm90_weight_blocked_kernel(g.problem, device, config));
    }
  }
  EXPECT_GE(taken, 4) << core::text(g.problem);
}

// The largest error of an element, in units of its own bound: products, roundings of sums, subnormal results.
double worst(const Gradient& g, const std::vector<std::byte>& got) {
  const core::Problem& p = g.problem;
  const plan::Operands host{g.x.data(), nullptr, nullptr, g.y.data(), nullptr};
  double most = 0;
  for (int64_t i = 0; i < p.output_elements(); ++i) {
    const reference::Element e = reference::element_at(p, host, i);
    const double terms = static_cast<double>(e.terms);
    const double each = p.precision == core::Precision::tf32 ? 0x1p-10 : 8 * std::sqrt(terms) * 0x1p-24;
    const double bound = each * e.magnitude + (terms + 1) * 0x1p-149;
    most = std::max(most, std::fabs(reference::load(p.dtype, got.data(), i) - e.value) / bound);
  }
  return most;
}

constexpr struct {
  const char* name;
  Factor x, y;
} kCases[] = {
    {"channels that die",
     [](int64_t, int64_t c, int64_t, int64_t) { return std::ldexp(1.0, static_cast<int>(-8 * (c % 16))); },
     [](int64_t, int64_t c, int64_t, int64_t) { return c % 3 == 0 ? 1e-25 : 1.0; }},
    {"samples that differ", [](int64_t n, int64_t, int64_t, int64_t) { return n == 1 ? 1e-18 : 1.0; },
     [](int64_t n, int64_t, int64_t, int64_t) { return n == 1 ? 1e16 : 1.0; }},
    {"small numbers meet large ones alone",
     [](int64_t, int64_t, int64_t i, int64_t length) { return 2 * i < length ? 1e-15 : 1.0; },
     [](int64_t, int64_t, int64_t i, int64_t length) { return 2 * i < length ? 1.0 : 0.0; }},
    {"any power of two",
     [](int64_t n, int64_t c, int64_t i, int64_t) {
       return std::ldexp(1.0, static_cast<int>((n * 7 + c * 31 + i * 17) % 97 - 48));
     },
     [](int64_t n, int64_t c, int64_t i, int64_t) {
       return std::ldexp(1.0, static_cast<int>((n * 5 + c * 29 + i * 13) % 89 - 44));
     }},
    {"subnormal numbers", [](int64_t, int64_t, int64_t, int64_t) { return 1e-39; },
     [](int64_t, int64_t, int64_t, int64_t) { return 1e20; }},
    {"large numbers", [](int64_t, int64_t, int64_t, int64_t) { return 3e37; },
     [](int64_t, int64_t, int64_t, int64_t) { return 1e-20; }},
};

TEST_F(WeightScaled, SpreadNumbersKeepTheirBits) {
  for (const char* text : kProblems) {
    for (const auto& c : kCases) {
      Gradient g(text, false);
      const core::Problem& p = g.problem;
      // Subnormal numbers have fewer bits than tf32 to be rounded to.
      if (p.precision == core::Precision::tf32 && &c == &kCases[4]) continue;
      multiply(p, g.x, p.cin, p.l, c.x);
      multiply(p, g.y, p.cout, p.lout(), c.y);
      each_kernel(g, device_, [&](const plan::Kernel& kernel) {
        const std::vector<std::byte> got = g.run(kernel);
        EXPECT_LE(worst(g, got), 1.0) << text << ", " << c.name << ": " << kernel.describe();
        EXPECT_TRUE(g.run(kernel, 1) == got) << text << ", " << c.name << ": " << kernel.describe();
      });
    }
  }
}

TEST_F(WeightScaled, RandomProblems) {
  judge::Rng rng(77);
  judge::DrawOptions draw;
  draw.gradients = false;
  int taken = 0;
  for (int i = 0; i < 6000 && taken < 400; ++i) {
    core::Problem p = judge::draw_valid(rng, draw);
    p.operation = core::Operation::weight;
    p.dtype = core::DType::f32, p.precision = rng.chance(50) ? core::Precision::tf32 : core::Precision::ieee;
    p.has_bias = false;
    p.x_contiguous = p.y_contiguous = true;
    p.x_stride = p.y_stride = {0, 0, 0};
    if (p.output_elements() * p.n * p.l > 4'000'000 || p.x_elements() + p.y_elements() > 300'000) continue;
    const auto below = [&](int most) { return static_cast<int>(rng.between(0, most - 1)); };
    const cuda::Sm90WeightBlockedConfig config{below(cuda::kSm90WeightBlockedShapes),
                                               1 << below(4),
                                               1 << below(4),
                                               1 + below(5),
                                               rng.chance(30) ? 128 : 0,
                                               true};
    if (!cuda::sm90_weight_blocked_supports(p).ok) continue;
    if (cuda::sm90_weight_blocked_plan_of(p, device_, config).blocks == 0) continue;
    ++taken;
    Gradient g(core::text(p), false);
    const auto& c = kCases[below(4)];  // of normal numbers
    multiply(p, g.x, p.cin, p.l, c.x);
    multiply(p, g.y, p.cout, p.lout(), c.y);
    const auto kernel = cuda::sm90_weight_blocked_kernel(p, device_, config);
    const std::vector<std::byte> got = g.run(*kernel);
    EXPECT_LE(worst(g, got), 1.0) << core::text(p) << ", " << c.name << ": " << kernel->describe();
    EXPECT_TRUE(g.run(*kernel, 1) == got) << core::text(p) << ", " << c.name << ": " << kernel->describe();
  }
  EXPECT_GE(taken, 300);
}

// Where a sum is infinite or NaN, and nowhere else; beside numbers that float16 cannot hold.
TEST_F(WeightScaled, InfinitiesAndNanAreThoseOfTheProducts) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const char* text : kProblems) {
    for (const bool spread : {false, true}) {
      Gradient g(text, false);
      const core::Problem& p = g.problem;
      if (spread) {
        multiply(p, g.y, p.cout, p.lout(),
                 [](int64_t, int64_t, int64_t i, int64_t) { return i % 2 == 0 ? 1e-20 : 1.0; });
      }
      auto set = [&](std::vector<std::byte>& data, int64_t channels, int64_t length, int64_t channel,
                     int64_t i, double v) {
        reference::store(p.dtype, data.data(), ((p.n - 1) * channels + channel) * length + i, v);
      };
      set(g.x, p.cin, p.l, 3, p.l / 2, kInf);
      set(g.x, p.cin, p.l, 5, 0, -kInf);
      set(g.x, p.cin, p.l, 7, p.l - 1, std::nan(""));
      set(g.y, p.cout, p.lout(), 2, 0, kInf);
      set(g.y, p.cout, p.lout(), 4, p.lout() - 1, std::nan(""));
      const plan::Operands host{g.x.data(), nullptr, nullptr, g.y.data(), nullptr};
      each_kernel(g, device_, [&](const plan::Kernel& kernel) {
        const std::vector<std::byte> got = g.run(kernel);
        int different = 0;
        for (int64_t i = 0; i < p.output_elements(); ++i) {
          const double v = reference::load(p.dtype, got.data(), i),
                       exact = reference::element_at(p, host, i).value;
          const bool same = std::isnan(exact)   ? std::isnan(v)
                            : std::isinf(exact) ? v == exact
                                                : std::isfinite(v);
          different += same ? 0 : 1;
        }
        EXPECT_EQ(different, 0) << text << (spread ? ", spread: " : ": ") << kernel.describe();
      });
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
