// Plans of problems over the whole 63-bit range on devices that need not be here: soon made, in sizes that
// suit the tensors, and in grids that exist.
#include <gtest/gtest.h>

#include "core/checked.hpp"
#include "core/reach.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"
#include "plan/with_copies.hpp"
#include "refusal.hpp"
#include "support/planning.hpp"

namespace tconv {
namespace {

using core::Problem;
using core::Size;

// Sums of splits in float64 and packed weights in parts, of rows and channels that fill tiles.
void expect_modest(const plan::Plan& plan) {
  const Problem& p = plan.problem;
  const std::string words = explain(plan);
  const Size y = Size(p.output_elements()) * 64 * 8, x = Size(p.x_elements()) * 64 * 8;
  const Size workspace = y + x + (int64_t{1} << 32);
  EXPECT_LE(plan.workspace_bytes(true), static_cast<std::size_t>(workspace.value())) << words;
  const Size packed = Size(p.weight_elements()) * 64 * 64 + Size(p.cin + p.cout) * 4096 * p.k + (1 << 24);
  EXPECT_LE(plan.kernel->packed_bytes(), static_cast<std::size_t>(packed.value())) << words;
  if (!core::beyond_tiles(plan.copies ? plan::on_copies(p) : p).empty()) {
    EXPECT_STREQ(plan.entry->name, "cuda.simt.plain") << words;
  }
}

void expect_modest_plans(const Problem& p, const core::DeviceInfo& device, bool batch_invariant) {
  plan::PlanOptions options;
  options.batch_invariant = batch_invariant;
  for (const std::string& name : names_to_force(p, device, options)) {
    options.force_kernel = name;
    const double start = cpu_seconds();
    const auto made = plan::make_plan(p, device, options);
    ASSERT_TRUE(made.ok()) << text(p) << ": " << made.status().message();
    EXPECT_LT(cpu_seconds() - start, 0.05) << explain(made.value());
    expect_modest(made.value());
  }
}

TEST(FarPlans, OfVastProblemsAreModest) {
  int valid = 0;
  for (uint64_t i = 0; i < 12'000 && !::testing::Test::HasFailure(); ++i) {
    judge::Rng rng(26, i);
    const Problem p = i % 3 == 0 ? judge::draw_far(rng) : judge::draw_vast(rng);
    if (!validate(p).ok()) continue;
    ++valid;
    const char* name = rng.pick({"h100", "h200", "a100", "b200", "l4", "t4", "v100"});
    expect_modest_plans(p, cuda_test::device(name), rng.chance(30));
  }
  EXPECT_GT(valid, 4'000);
}

TEST(FarPlans, OfCornersAreModest) {
  for (const char* line :
       {"n1 ci32 co2 g2 l16 k2 s1 p576460752303423488 d1152921504606846976",
        "n1 ci32 co32 l1 k1 s9223372036854775807 p0",
        "n8 ci1 co16 l1 k2 s2 p2305843009213693952 d4611686018427387905",
        "n1 ci1 co1 l1 k2 s2 p536870912 d1073741825", "ci1 co1 l1 k1000000000000", "ci64 co64 l1 k1000000000",
        "ci64 co64 l1 k1 s1073741824", "ci64 co64 l3 k1 s1099511627776",
        "ci1 co1 l1 k1000003 s999983 d999979", "n1000000000000 ci1 co1 l1 k1", "ci1 co1000000000000 l1 k1",
        "ci1000000000000 co1 l1 k1", "n4 ci64 co64 l64 k3 xs1099511627776,1073741824,1",
        "n1 ci64 co64 l64 k3 xs0,4503599627370496,1", "n2 ci100000000 co100000000 l1 k1 g100000000",
        "gw n1000000000 ci1 co1 l1 k1 s9 p0 xs0,0,0"}) {
    for (const char* name : {"h100", "a100", "t4"}) {
      expect_modest_plans(core::parse(line).value(), cuda_test::device(name), false);
    }
  }
}

}  // namespace
}  // namespace tconv
