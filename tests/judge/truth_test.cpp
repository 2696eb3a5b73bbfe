// The judge's float64 loops against the plain formula of the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "judge/case.hpp"
#include "judge/draw.hpp"
#include "reference/reference.hpp"

namespace tconv::judge {
namespace {

void expect_near(double a, double b, double magnitude, const std::string& where) {
  if (std::isnan(a) || std::isinf(a)) {
    EXPECT_TRUE((std::isnan(a) && std::isnan(b)) || a == b) << where;
    return;
  }
  EXPECT_NEAR(a, b, 1e-12 * magnitude + 1e-300) << where;
}

TEST(Truth, AgreesWithTheReferenceOnEveryElement) {
  const auto target = cpu_target(1);
  for (uint64_t i = 0; i < 400; ++i) {
    Rng rng(5, i);
    const core::Problem p = draw_valid(rng, {.typical = 3000});
    JudgeOptions options;
    options.seed = i;
    auto made = Case::make(p, i % 5 == 0 ? Fill::special : Fill::uniform, *target, options);
    ASSERT_TRUE(made.ok());
    Case& c = *made.value();
    ASSERT_EQ(c.truth.count(), written_elements(p)) << text(p);
    for (int64_t e = 0; e < c.truth.count(); ++e) {
      const auto expected = reference::element_at(p, c.host_operands(), e);
      const Exact exact = c.truth.at(e);
      expect_near(exact.value, expected.value, expected.magnitude, text(p));
      if (std::isfinite(exact.value)) {
        expect_near(exact.magnitude, expected.magnitude, expected.magnitude, text(p));
      }
      EXPECT_LE(expected.terms, most_terms(e < p.output_elements() ? p : grad_bias_of(p))) << text(p);
    }
  }
}

TEST(Truth, SamplesAndDeviationsAgreeWithAllElements) {
  const auto target = cpu_target(1);
  for (uint64_t i = 0; i < 200; ++i) {
    Rng rng(6, i);
    core::Problem p = draw_valid(rng, {.typical = 3000});
    const bool tf32 = p.dtype == core::DType::f32;
    auto made = Case::operands_only(p, Fill::uniform, *target, {.seed = i, .fills = {}});
    ASSERT_TRUE(made.ok());
    const plan::Operands raw = made.value()->host_operands();
    const Truth all = Truth::all(p, raw, tf32);
    const Truth sampled = Truth::sampled(p, raw, tf32, rng);
    EXPECT_EQ(sampled.count() == 0, p.output_elements() == 0);
    for (int64_t s = 0; s < sampled.count(); ++s) {
      const Exact a = sampled.at(s), b = all.at(sampled.index(s));
      expect_near(a.value, b.value, b.magnitude, text(p));
      expect_near(a.magnitude, b.magnitude, b.magnitude, text(p));
      expect_near(a.deviation, b.deviation, b.magnitude, text(p));
      if (tf32 && b.magnitude > 0 && p.operation != core::Operation::bias) {
        EXPECT_LE(a.deviation, 0x1.01p-10 * a.magnitude);
      }
    }
  }
}

TEST(Truth, MostTermsIsReached) {
  // An output in the middle has all taps of its residue.
  const auto p = core::parse("n1 ci3 co2 l50 k7 s3 p2 d2 f32").value();
  EXPECT_EQ(most_terms(p), 3 * 3);
  const auto q = core::parse("n1 ci3 co2 l50 k7 s4 p2 d2 f32").value();
  EXPECT_EQ(most_terms(q), 3 * 4);
}

TEST(Truth, RoundsToTf32ToNearest) {
  EXPECT_EQ(round_tf32(1.0 + 0x1p-11), 1.0 + 0x1p-10);  // a tie goes away from zero
  EXPECT_EQ(round_tf32(-1.0 - 0x1p-11), -1.0 - 0x1p-10);
  EXPECT_EQ(round_tf32(1.0 + 0x1p-12), 1.0);
  EXPECT_EQ(round_tf32(1.0 + 0x1.8p-11), 1.0 + 0x1p-10);
  EXPECT_EQ(other_tf32(1.0 + 0x1p-11), 1.0);
  EXPECT_EQ(other_tf32(-1.0 - 0x1p-11), -1.0);
  EXPECT_EQ(other_tf32(1.0 + 0x1.8p-11), 1.0 + 0x1p-10);
  // A tie times a number that is rounded up: down is further off than up is, or the other way round.
  const double tie = 1.0 + 0x1p-11, above = 1.0 + 0x1.8p-11, below = 1.0 + 0x1.2p-11;
  EXPECT_EQ(deviation_tf32(tie, above), (1.0 + 0x1p-10) * (1.0 + 0x1p-10) - tie * above);
  EXPECT_EQ(deviation_tf32(tie, -1.0 - 0x1.cp-12), tie * (1.0 + 0x1.cp-12) - 1.0);
  EXPECT_EQ(deviation_tf32(below, 2.0), 2.0 * (1.0 + 0x1p-10 - below));
  EXPECT_TRUE(std::isnan(round_tf32(NAN)));
  EXPECT_EQ(round_tf32(INFINITY), INFINITY);
}

}  // namespace
}  // namespace tconv::judge
