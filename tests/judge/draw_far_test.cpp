// Draws of numbers beyond what tiles count.
#include <gtest/gtest.h>

#include <map>

#include "core/reach.hpp"
#include "judge/draw.hpp"

namespace tconv::judge {
namespace {

using core::Problem;

TEST(DrawFar, EveryProblemIsValidAndSmall) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    Rng rng(21, i);
    const Problem p = draw_far(rng);
    const core::Status status = validate(p);
    ASSERT_TRUE(status.ok()) << text(p) << ": " << status.message();
    ASSERT_LE(p.x_elements(), 10'000) << text(p);
    ASSERT_LE(p.y_elements(), 200'000) << text(p);
    ASSERT_LE(p.weight_elements(), 200'000) << text(p);
    const auto back = core::parse(text(p));
    ASSERT_TRUE(back.ok() && back.value() == p) << text(p);
  }
}

TEST(DrawFar, EveryFeatureOccurs) {
  std::map<std::string, int> seen;
  constexpr int64_t kFar = int64_t{1} << 40;
  for (uint64_t i = 0; i < 20'000; ++i) {
    Rng rng(22, i);
    const Problem p = draw_far(rng);
    auto note = [&](const char* what, bool yes) { seen[what] += yes ? 1 : 0; };
    const bool transposed = p.operation == core::Operation::transposed;
    note("far stride", p.stride > kFar);
    note("stride beyond 62 bits", p.stride > int64_t{1} << 62);
    note("far dilation", p.dilation > kFar && p.k > 1);
    note("far padding", p.padding > kFar);
    note("far output_padding", p.output_padding > kFar);
    note("both", p.stride > kFar && p.dilation > kFar && p.k > 1 && p.l > 1);
    note("below what tiles count", core::beyond_tiles(p).empty());
    note("beyond it", !core::beyond_tiles(p).empty());
    note("products of far inputs",
         transposed && p.padding > kFar && work_of(p).flops > static_cast<double>(p.y_elements()));
    note("empty", p.y_elements() == 0);
    note("channels for tensor cores", p.cin_per_group() >= 16 && p.cout_per_group() >= 16);
    note("gradients", !transposed);
  }
  for (const auto& [what, count] : seen) EXPECT_GE(count, 50) << what;
}

TEST(DrawFar, VastProblemsAreOftenValid) {
  int valid = 0, huge = 0;
  for (uint64_t i = 0; i < 5'000; ++i) {
    Rng rng(23, i);
    const Problem p = draw_vast(rng);
    if (!validate(p).ok()) continue;
    ++valid;
    huge += p.y_elements() > int64_t{1} << 32 ? 1 : 0;
  }
  EXPECT_GT(valid, 1'000);
  EXPECT_GT(huge, 100);
}

}  // namespace
}  // namespace tconv::judge
