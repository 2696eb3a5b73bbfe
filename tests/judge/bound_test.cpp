#include "judge/bound.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/float16.hpp"

namespace tconv::judge {
namespace {

using core::DType;

core::Problem of(DType dtype) {
  core::Problem p;
  p.dtype = dtype;
  return p;
}

TEST(Bound, HalfUlpIsHalfTheGapBetweenNeighbours) {
  for (int bits = 1; bits < 0x7c00; ++bits) {
    const double a = core::f16_to_float(static_cast<uint16_t>(bits - 1));
    const double b = core::f16_to_float(static_cast<uint16_t>(bits));
    EXPECT_EQ(half_ulp(DType::f16, a), (b - a) / 2) << bits;
  }
  for (int bits = 1; bits < 0x7f80; ++bits) {
    const double a = core::bf16_to_float(static_cast<uint16_t>(bits - 1));
    const double b = core::bf16_to_float(static_cast<uint16_t>(bits));
    EXPECT_EQ(half_ulp(DType::bf16, a), (b - a) / 2) << bits;
  }
  EXPECT_EQ(half_ulp(DType::f32, 1.0), 0);
}

TEST(Bound, GrowsWithTheRootOfManyTermsWhereRoundingIsUnbiased) {
  const Arithmetic nearest;
  EXPECT_EQ(growth(3, nearest), 5);
  EXPECT_EQ(growth(9998, nearest), 800);
  Arithmetic chopped;
  chopped.unbiased = false;
  EXPECT_EQ(growth(9998, chopped), 10000);
}

TEST(Bound, JudgesEachElementByItsOwnMagnitude) {
  const Bound bound(of(DType::f32), {}, 10);
  EXPECT_TRUE(bound.right(1.0, {1.0, 1.0, 0}));
  EXPECT_TRUE(bound.right(1.0 + 10 * 0x1p-24, {1.0, 1.0, 0}));
  EXPECT_FALSE(bound.right(1.0 + 13 * 0x1p-24, {1.0, 1.0, 0}));
  EXPECT_FALSE(bound.right(1e-6 + 1e-9, {1e-6, 1e-6, 0}));  // small is no excuse
  EXPECT_TRUE(bound.right(1e-6, {0, 100.0, 0}));            // cancellation is
}

TEST(Bound, TakesNaNAndInfinityOnlyWhereTheyBelong) {
  const Bound bound(of(DType::f16), {}, 10);
  EXPECT_TRUE(bound.right(NAN, {NAN, NAN, 0}));
  EXPECT_FALSE(bound.right(1.0, {NAN, NAN, 0}));
  EXPECT_FALSE(bound.right(NAN, {1.0, 1.0, 0}));
  EXPECT_TRUE(bound.right(INFINITY, {INFINITY, INFINITY, 0}));
  EXPECT_FALSE(bound.right(-INFINITY, {INFINITY, INFINITY, 0}));
  EXPECT_FALSE(bound.right(INFINITY, {65000, 65000, 0}));
  EXPECT_TRUE(bound.right(INFINITY, {65519, 65519, 0}));
  EXPECT_FALSE(bound.right(-INFINITY, {65519, 65519, 0}));
}

}  // namespace
}  // namespace tconv::judge
