// Conversions of the 16-bit types: every pattern, and every rounding between two neighbours.
#include "core/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tconv::core {
namespace {

struct Format {
  const char* name;
  int mantissa, bias;  // stored mantissa bits, exponent bias
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t (*narrow_double)(double);
  uint16_t infinity() const { return static_cast<uint16_t>(0x7fffu >> mantissa << mantissa); }
};

const Format kFormats[] = {{"f16", 10, 15, f16_to_float, float_to_f16, double_to_f16},
                           {"bf16", 7, 127, bf16_to_float, float_to_bf16, double_to_bf16}};

// The value by the definition of the format.
double value_of(const Format& f, uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> f.mantissa, mantissa = bits & ((1 << f.mantissa) - 1);
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - f.bias - f.mantissa)
                               : std::ldexp(mantissa + (1 << f.mantissa), exponent - f.bias - f.mantissa);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, EveryPatternWidensToItsValueAndBack) {
  for (const Format& f : kFormats) {
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      const float wide = f.widen(bits);
      const uint16_t magnitude = bits & 0x7fff;
      if (magnitude > f.infinity()) {
        EXPECT_TRUE(std::isnan(wide)) << f.name << " " << pattern;
        // Quiet, positive, no payload: the lowest pattern with the mantissa's first bit.
        const auto quiet = static_cast<uint16_t>(f.infinity() | (1 << (f.mantissa - 1)));
        EXPECT_EQ(f.narrow(wide), quiet) << f.name << " " << pattern;
        EXPECT_EQ(f.narrow_double(static_cast<double>(wide)), quiet) << f.name << " " << pattern;
        continue;
      }
      if (magnitude == f.infinity()) {
        EXPECT_EQ(wide, bits & 0x8000 ? -INFINITY : INFINITY);
      } else {
        EXPECT_EQ(static_cast<double>(wide), value_of(f, bits)) << f.name << " " << pattern;
      }
      EXPECT_EQ(std::signbit(wide), (bits & 0x8000) != 0);
      EXPECT_EQ(f.narrow(wide), bits) << f.name << " " << pattern;
      EXPECT_EQ(f.narrow_double(static_cast<double>(wide)), bits) << f.name << " " << pattern;
    }
  }
}

// Between neighbours a < b: below the middle to a, above it to b, the middle itself to the even one.
TEST(Float16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (const Format& f : kFormats) {
    for (uint16_t low = 0; low < f.infinity(); ++low) {
      const auto high = static_cast<uint16_t>(low + 1);
      const double a = value_of(f, low);
      // Beyond the largest number lies what the next one would be: from its middle on it is infinity.
      const double b = value_of(f, high);
      const double middle = (a + b) / 2;
      const uint16_t even = low % 2 == 0 ? low : high;
      for (const int sign : {1, -1}) {
        const auto expect = [&](double v, uint16_t bits) {
          const auto signed_bits = static_cast<uint16_t>(bits | (sign < 0 ? 0x8000 : 0));
          EXPECT_EQ(f.narrow_double(sign * v), signed_bits) << f.name << " " << low << " " << v;
          const auto single = static_cast<float>(sign * v);
          if (static_cast<double>(single) == sign * v) {
            EXPECT_EQ(f.narrow(single), signed_bits) << f.name << " " << low << " " << v;
          }
        };
        expect(middle, even);
        expect(std::nextafter(middle, 0), low);  // once, from double: no double rounding
        expect(std::nextafter(middle, 1e300), high);
        expect(a + (b - a) / 4, low);
        expect(a + (b - a) * 3 / 4, high);
      }
    }
  }
}

TEST(Float16, FloatsNextToATieRoundOnce) {
  for (const Format& f : kFormats) {
    for (uint16_t low = 0; low < f.infinity(); ++low) {
      const auto middle =
          static_cast<float>((value_of(f, low) + value_of(f, static_cast<uint16_t>(low + 1))) / 2);
      if (middle == 0) continue;  // below float's own subnormals
      EXPECT_EQ(f.narrow(std::nextafter(middle, 0.0f)), low) << f.name;
      EXPECT_EQ(f.narrow(std::nextafter(middle, INFINITY)), low + 1) << f.name;
    }
  }
}

TEST(Float16, FarOutsideTheRange) {
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(double_to_f16(1e300), 0x7c00);
  EXPECT_EQ(double_to_f16(-1e300), 0xfc00);
  EXPECT_EQ(double_to_bf16(1e300), 0x7f80);
  EXPECT_EQ(double_to_f16(1e-300), 0x0000);
  EXPECT_EQ(double_to_f16(-1e-300), 0x8000);
  EXPECT_EQ(double_to_bf16(-1e-300), 0x8000);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace tconv::core
