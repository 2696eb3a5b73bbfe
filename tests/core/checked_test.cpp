// Sums and products that stop at the largest number, and the rule that kernels of tiles share.
#include "core/checked.hpp"

#include <gtest/gtest.h>

#include "core/reach.hpp"

namespace tconv::core {
namespace {

constexpr int64_t kLargest = Size::kLargest;

TEST(Checked, SizesStopAtTheLargestNumber) {
  EXPECT_EQ((Size(3) * 4 + 5).value(), 17);
  EXPECT_EQ((Size(kLargest) + 1).value(), kLargest);
  EXPECT_EQ((Size(int64_t{1} << 32) * (int64_t{1} << 31)).value(), kLargest);
  EXPECT_EQ((Size(int64_t{1} << 62) * 4).value(), kLargest);  // 2^64, which wraps to 0
  EXPECT_EQ((Size(kLargest) * 0).value(), 0);
  EXPECT_TRUE((Size(int64_t{1} << 31) * (int64_t{1} << 31)).fits());
  EXPECT_FALSE((Size(int64_t{1} << 32) * (int64_t{1} << 31)).fits());
  EXPECT_GT(Size(kLargest) * 3, 1000);
  EXPECT_LE(Size(7) * 3, 21);
}

TEST(Checked, TilesTakeUsualProblemsAndRefuseFarOnes) {
  for (const char* line : {"ci512 co256 l800 k16 s8 p4", "n64 ci128 co128 l65536 k3",
                           "ci1 co1 l3000000000 k1", "n0 ci8 co8 l5 k3", "ci1 co1 l1 k1 s1000000000"}) {
    EXPECT_EQ(beyond_tiles(parse(line).value()), "") << line;
  }
  const struct {
    const char *line, *words;
  } table[] = {
      {"ci32 co32 l1 k1 s9223372036854775807", "stride times l: 2^40 or more"},
      {"ci1 co1 l1 k2 s2 p2305843009213693952 d4611686018427387905", "dilation times k: 2^40 or more"},
      {"ci1 co1 l1 k1 d4611686018427387905", "dilation times k: 2^40 or more"},
      {"n100000000000000 ci1 co1 l1 k1", "elements of x: 2^46 or more"},
      {"n2 ci1 co1 l1 k1 xs100000000000000,0,0", "the span of x: 2^46 or more"},
      {"n1 ci1 co1 l1 k1 xs100000000000000,0,0", "the first step of x: 2^46 or more"},
      {"ci1 co1 l1 k1 xs0,0,30000000000000", "the third step of x times the positions: 2^46 or more"},
      {"gw ci1 co1 l1 k1 ys0,0,30000000000000", "the third step of y times the positions: 2^46 or more"},
  };
  for (const auto& row : table) {
    const Problem p = parse(row.line).value();
    ASSERT_TRUE(validate(p).ok()) << row.line;
    EXPECT_EQ(beyond_tiles(p).rfind(row.words, 0), 0u) << row.line << ": " << beyond_tiles(p);
  }
}

}  // namespace
}  // namespace tconv::core
