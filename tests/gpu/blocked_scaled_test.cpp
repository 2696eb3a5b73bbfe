// Products of cuda.sm90.blocked whose channel blocks hold float32 in float16: numbers that spread over many
// powers of two.
#include "gpu/blocked_case.hpp"
#include "gpu/hopper.hpp"
#include "judge/draw.hpp"

namespace tconv::gpu_test {
namespace {

class BlockedScaled : public Hopper {};

constexpr const char* kProblems[] = {
    "n3 ci70 co20 l150 k4 s2 p1 bias f32", "n2 ci40 co70 l101 k3 s1 p1 d2 f32",
    "strided n3 ci36 co70 l150 k5 s2 p1 bias f32", "strided n2 ci40 co40 l150 k7 s1 p3 g2 f32"};

// By what each element of the input is multiplied, from its sample, channel and position; and each weight,
// from its input and output channel of the product's.
using Factor = double (*)(int64_t n, int64_t channel, int64_t i, int64_t length);
using WeightFactor = double (*)(int64_t in, int64_t out, int64_t k);

void multiply(BlockedCase& c, Factor by) {
  const core::Problem& p = c.problem;
  const int64_t channels = c.strided ? p.cout : p.cin, length = c.strided ? p.lout() : p.l;
  for (int64_t e = 0; e < p.n * channels * length; ++e) {
    const int64_t i = e % length, channel = e / length % channels, n = e / length / channels;
    reference::store(p.dtype, c.input.data(), e,
                     by(n, channel, i, length) * reference::load(p.dtype, c.input.data(), e));
  }
}
void multiply(BlockedCase& c, WeightFactor by) {
  const core::Problem& p = c.problem;
  for (int64_t e = 0; e < p.weight_elements(); ++e) {
    const int64_t k = e % p.k, co = e / p.k % p.cout_per_group(), ci = e / p.k / p.cout_per_group();
    const double factor = c.strided ? by(co, ci, k) : by(ci, co, k);
    reference::store(p.dtype, c.weight.data(), e, factor * reference::load(p.dtype, c.weight.data(), e));
  }
}

// Calls check with kernels of all tiles, split or not, folded or not, with scales from all of x or a sample.
template <class Check>
void each_kernel(const BlockedCase& c, const core::DeviceInfo& device, const Check& check) {
  int taken = 0;
  for (int tile = 0; tile < cuda::kSm90GatherTiles; ++tile) {
    for (int ways = 0; ways < 4; ++ways) {
      const bool folded = ways % 2 == 1, sampled = ways / 2 == 1;
      const cuda::Sm90Config config{.tile = tile,
                                    .splits = 1 + (tile + folded) % 2,
                                    .scaled = true,
                                    .folded = folded,
                                    .sampled = sampled};
      const cuda::Sm90BlockedPlan plan = cuda::sm90_blocked_plan_of(c.problem, device, config);
      if (plan.main.blocks == 0 || config.splits > plan.main.params.grid.units) continue;
      ++taken;
      check(*cuda::sm90_blocked_kernel(c.problem, device, config));
    }
  }
  EXPECT_GE(taken, 6) << core::text(c.problem);
}

// What each output should be, and how far it may be off: products, roundings of sums, subnormal results.
struct Bounded {
  std::vector<double> value, bound;

  explicit Bounded(const BlockedCase& c) {
    const core::Problem& p = c.problem;
    for (int64_t i = 0; i < c.outputs(); ++i) {
      const reference::Element e = reference::element_at(p, c.host(), i);
      const double terms = static_cast<double>(e.terms);
      const double each = p.precision == core::Precision::tf32 ? 0x1p-10 : 8 * std::sqrt(terms + 1) * 0x1p-24;
      value.push_back(e.value);
      bound.push_back(each * e.magnitude + (terms + 1) * 0x1p-149);
    }
  }
  // The largest error, in units of its bound.
  double worst(const BlockedCase& c, const std::vector<std::byte>& got) const {
    double most = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double v = reference::load(c.problem.dtype, got.data(), static_cast<int64_t>(i));
      const double off = std::fabs(v - value[i]);
      most = std::max(most, off == 0 ? 0 : std::isnan(off) ? 1e9 : off / bound[i]);
    }
    return most;
  }
};

constexpr struct {
  const char* name;
  Factor x;
  WeightFactor w;
} kCases[] = {
    {"gradients of nearly nothing", [](int64_t, int64_t, int64_t, int64_t) { return 1e-30; },
     [](int64_t, int64_t, int64_t) { return 1.0; }},
    {"samples that differ", [](int64_t n, int64_t, int64_t, int64_t) { return n == 1 ? 1e-18 : 1.0; },
     [](int64_t, int64_t, int64_t) { return 1.0; }},
    {"silence between loud passages",
     [](int64_t, int64_t, int64_t i, int64_t length) {
       return i > length / 3 && 3 * i < 2 * length ? 1e-12 : 1.0;
     },
     [](int64_t, int64_t, int64_t) { return 1.0; }},
    {"small numbers meet large weights alone",
     [](int64_t, int64_t c, int64_t, int64_t) { return c % 2 == 0 ? 1e-15 : 1.0; },
     [](int64_t in, int64_t, int64_t) { return in % 2 == 0 ? 1.0 : 0.0; }},
    {"small weights meet large numbers alone",
     [](int64_t, int64_t c, int64_t, int64_t) { return c % 2 == 0 ? 1.0 : 0.0; },
     [](int64_t in, int64_t, int64_t) { return in % 2 == 0 ? 1e-15 : 1.0; }},
    {"channels that die", [](int64_t, int64_t c, int64_t, int64_t) { return c % 3 == 0 ? 1e-25 : 1.0; },
     [](int64_t, int64_t out, int64_t) { return out % 4 == 0 ? 1e-20 : 1.0; }},
    {"any power of two",
     [](int64_t n, int64_t c, int64_t i, int64_t) {
       return std::ldexp(1.0, static_cast<int>((n * 7 + c * 31 + i * 17) % 97 - 48));
     },
     [](int64_t in, int64_t out, int64_t k) {
       return std::ldexp(1.0, static_cast<int>((in * 5 + out * 29 + k * 13) % 89 - 44));
     }},
    // What a sample of x is likely to miss.
    {"one number above all others",
     [](int64_t n, int64_t c, int64_t i, int64_t) { return n == 1 && c == 17 && i == 77 ? 1e9 : 1.0; },
     [](int64_t, int64_t, int64_t) { return 1.0; }},
    {"silence but for a few small numbers",
     [](int64_t, int64_t c, int64_t i, int64_t) { return (31 * c + i) % 397 == 5 ? 1e-25 : 0.0; },
     [](int64_t, int64_t, int64_t) { return 1.0; }},
    {"large numbers", [](int64_t, int64_t, int64_t, int64_t) { return 3e37; },
     [](int64_t, int64_t, int64_t) { return 1e-20; }},
    {"large weights", [](int64_t, int64_t, int64_t, int64_t) { return 1e-20; },
     [](int64_t, int64_t, int64_t) { return 3e37; }},
    {"subnormal numbers", [](int64_t, int64_t, int64_t, int64_t) { return 1e-39; },
     [](int64_t, int64_t, int64_t) { return 1e20; }},
};
constexpr int kNormal = 11;  // the first ones

TEST_F(BlockedScaled, SpreadNumbersKeepTheirBits) {
  for (const std::string problem : kProblems) {
    for (const std::string mode : {"", " tf32"}) {
      for (int i = 0; i < static_cast<int>(std::size(kCases)); ++i) {
        // Subnormal numbers have fewer bits than tf32 to be rounded to.
        if (i >= kNormal && !mode.empty()) continue;
        BlockedCase c(problem + mode, false);
        multiply(c, kCases[i].x);
        multiply(c, kCases[i].w);
        const Bounded bounded(c);
        each_kernel(c, device_, [&](const plan::Kernel& kernel) {
          const std::vector<std::byte> got = c.run(kernel, i % 4);
          EXPECT_LE(bounded.worst(c, got), 1.0)
              << problem << mode << ", " << kCases[i].name << ": " << kernel.describe();
          EXPECT_TRUE(c.run(kernel, i % 4, true) == got) << problem << mode << ": " << kernel.describe();
        });
      }
    }
  }
}

TEST_F(BlockedScaled, RandomProblems) {
  judge::Rng rng(78);
  judge::DrawOptions draw;
  plan::PlanOptions forced;
  forced.force_kernel = cuda::kSm90Blocked.name;
  int taken = 0;
  for (int i = 0; i < 9000 && taken < 400; ++i) {
    core::Problem p = judge::draw_valid(rng, draw);
    if (p.n == 0 || (p.operation != core::Operation::transposed && p.operation != core::Operation::strided))
      continue;
    p.dtype = core::DType::f32, p.precision = rng.chance(50) ? core::Precision::tf32 : core::Precision::ieee;
    p.x_contiguous = p.y_contiguous = true;
    p.x_stride = p.y_stride = {0, 0, 0};
    const int64_t terms = p.cin_per_group() * p.cout_per_group();
    if (p.n * std::max(p.l, p.lout()) * terms > 1'000'000 || p.x_elements() + p.y_elements() > 300'000)
      continue;
    const auto below = [&](int most) { return static_cast<int>(rng.between(0, most - 1)); };
    cuda::Sm90Config config;
    config.tile = below(cuda::kSm90GatherTiles), config.splits = 1 << below(3);
    config.scaled = true, config.folded = rng.chance(40), config.phased = rng.chance(30);
    config.sampled = rng.chance(50);
    if (!cuda::kSm90Blocked.supports(p, device_, forced).ok) continue;
    const cuda::Sm90BlockedPlan plan = cuda::sm90_blocked_plan_of(p, device_, config);
    if (plan.main.blocks == 0 || config.splits > plan.main.params.grid.units) continue;
    ++taken;
    BlockedCase c(core::text(p), false);
    const auto& spread = kCases[below(kNormal)];
    if (rng.chance(70)) multiply(c, spread.x), multiply(c, spread.w);
    const auto kernel = cuda::sm90_blocked_kernel(p, device_, config);
    const std::vector<std::byte> got = c.run(*kernel, 1);
    EXPECT_LE(Bounded(c).worst(c, got), 1.0)
        << core::text(p) << ", " << spread.name << ": " << kernel->describe();
    EXPECT_TRUE(c.run(*kernel, 1, true) == got) << core::text(p) << ": " << kernel->describe();
  }
  EXPECT_GE(taken, 300);
}

}  // namespace
}  // namespace tconv::gpu_test
