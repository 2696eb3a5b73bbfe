#include "judge/draw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "judge/case.hpp"
#include "judge/special.hpp"

namespace tconv::judge {
namespace {

using core::Problem;

TEST(Draw, EveryProblemIsValidAndReadsBack) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    Rng rng(1, i);
    const Problem p = draw_valid(rng);
    const core::Status status = validate(p);
    ASSERT_TRUE(status.ok()) << text(p) << ": " << status.message();
    const auto back = core::parse(text(p));
    ASSERT_TRUE(back.ok()) << text(p) << ": " << back.status().message();
    ASSERT_EQ(back.value(), p) << text(p);
  }
}

TEST(Draw, SameSeedSameProblems) {
  for (uint64_t i = 0; i < 100; ++i) {
    Rng a(9, i), b(9, i), c(10, i);
    EXPECT_EQ(draw_valid(a), draw_valid(b));
    (void)draw_valid(c);
  }
  Rng a(9, 0), b(10, 0);
  EXPECT_NE(text(draw_valid(a)), text(draw_valid(b)));
}

TEST(Draw, EveryFeatureOccurs) {
  std::map<std::string, int> seen;
  for (uint64_t i = 0; i < 20'000; ++i) {
    Rng rng(2, i);
    const Problem p = draw_valid(rng);
    auto note = [&](const char* what, bool yes) { seen[what] += yes ? 1 : 0; };
    note("n 0", p.n == 0);
    note("n above 1", p.n > 1);
    note("l 1", p.l == 1);
    note("odd l", p.l % 2 == 1);
    note("k 1", p.k == 1);
    note("k above 100", p.k > 100);
    note("stride beyond k", p.stride > p.k);
    note("stride above 20", p.stride > 20);
    note("dilation with stride", p.dilation > 1 && p.stride > 1);
    note("gcd above 1", std::gcd(p.dilation, p.stride) > 1);
    note("output_padding at most",
         p.output_padding > 0 && p.output_padding == std::max(p.stride, p.dilation) - 1);
    note("padding beyond the taps", p.padding > p.dilation * (p.k - 1));
    note("lout 0", p.lout() == 0);
    note("lout 1", p.lout() == 1);
    note("groups", p.groups > 1 && p.groups < p.cin);
    note("depthwise", p.groups > 1 && p.groups == p.cin && p.groups == p.cout);
    note("multiplier", p.groups > 1 && p.groups == p.cin && p.groups < p.cout);
    note("bias", p.has_bias);
    note("bias gradient of y", p.writes_grad_bias() && !p.bias_of_x);
    note("bias gradient of x", p.bias_of_x);
    note("cin 1", p.cin == 1);
    note("cout 1", p.cout == 1);
    note("many channels", p.cin > 100 && p.cout > 60 && p.groups == 1);
    note("channels-last", !p.x_contiguous && p.cin > 1 && p.x_stride[1] == 1 && p.x_stride[2] == p.cin);
    note("expanded", !p.x_contiguous && p.x_stride[0] == 0 && p.n > 1);
    note("one value a row", !p.x_contiguous && p.x_stride[2] == 0 && p.l > 1);
    note("steps of positions", !p.x_contiguous && p.x_stride[2] > 1);
    note(name_of(p.dtype), true);
    note(name_of(p.precision), true);
    note(name_of(p.operation), true);
  }
  EXPECT_EQ(seen.size(), 27u + 4 + 2 + 4);
  for (const auto& [what, count] : seen) EXPECT_GE(count, 20) << what;
}

TEST(Draw, InvalidProblemsAreRefusedByTheArgumentsName) {
  std::set<std::string> named;
  for (uint64_t i = 0; i < 5'000; ++i) {
    Rng rng(3, i);
    const Invalid invalid = draw_invalid(rng);
    const core::Status status = validate(invalid.problem);
    ASSERT_FALSE(status.ok()) << text(invalid.problem);
    EXPECT_EQ(status.code(), core::Code::invalid_problem);
    EXPECT_EQ(status.message().rfind(invalid.argument + " is ", 0), 0u)
        << text(invalid.problem) << ": " << status.message() << ", not " << invalid.argument;
    named.insert(invalid.argument);
  }
  EXPECT_EQ(named.size(), 14u);
}

TEST(Fill, IntegersAddUpExactly) {
  const auto target = cpu_target(1);
  for (uint64_t i = 0; i < 1'000; ++i) {
    Rng rng(4, i);
    const Problem p = draw_valid(rng, {.typical = 30'000});
    auto made = Case::make(p, Fill::integers, *target, {.seed = i, .fills = {}});
    ASSERT_TRUE(made.ok());
    const Truth& truth = made.value()->truth;
    for (int64_t e = 0; e < truth.count(); ++e) {
      ASSERT_LE(truth.at(e).magnitude, 0x1p24) << text(p);
      ASSERT_LE(std::abs(truth.at(e).value), largest(p.dtype)) << text(p);
    }
  }
}

TEST(Fill, NumbersStayFiniteInEveryDtype) {
  const auto target = cpu_target(1);
  for (uint64_t i = 0; i < 1'000; ++i) {
    Rng rng(5, i);
    const Problem p = draw_valid(rng, {.typical = 30'000});
    const Fill fill = rng.pick({Fill::uniform, Fill::positive, Fill::spread});
    auto made = Case::make(p, fill, *target, {.seed = i, .fills = {}});
    ASSERT_TRUE(made.ok());
    const Truth& truth = made.value()->truth;
    for (int64_t e = 0; e < truth.count(); ++e) {
      ASSERT_LE(truth.at(e).magnitude, 0.5 * largest(p.dtype)) << text(p) << " " << name_of(fill);
    }
  }
}

// Every operand of every dtype holds each special value, at its ends and away from them, in some problem.
TEST(Fill, SpecialValuesOccurInEveryOperandAndPlace) {
  std::map<std::string, int> seen;
  for (uint64_t i = 0; i < 30'000; ++i) {
    Rng rng(6, i);
    const Problem p = draw_valid(rng, {.typical = 30'000});
    const int role = static_cast<int>(rng.between(0, 3));
    const int64_t rows[] = {p.l, p.k, p.cout, p.lout()};
    const Specials specials(p, i, role);
    for (int64_t inner = 0; inner < rows[role]; ++inner) {
      double value = 1;
      if (!specials.pick(rng.next(), inner, value)) continue;
      const bool end = inner == 0 || inner == rows[role] - 1;
      const char* kind = std::isnan(value)   ? " NaN"
                         : std::isinf(value) ? " infinity"
                         : value == 0        ? " zero"
                                             : " subnormal";
      seen["role " + std::to_string(role) + (std::signbit(value) && !std::isnan(value) ? " -" : " +") + kind +
           (end ? " at an end" : " within")] += 1;
      if (value != 0 && std::isfinite(value)) {
        EXPECT_LT(std::fabs(value), p.dtype == core::DType::f64   ? 0x1p-1022
                                    : p.dtype == core::DType::f16 ? 0x1p-14
                                                                  : 0x1p-126);
      }
    }
  }
  EXPECT_EQ(seen.size(), 4u * 2u * 7u) << "roles, places; Inf, zero, subnormal of both signs and NaN";
  for (const auto& [what, times] : seen) EXPECT_GT(times, 5) << what;
}

}  // namespace
}  // namespace tconv::judge
