// Numbers of up to 63 bits: every kernel that takes such a problem gets it right, a plan takes no longer for
// larger numbers, and asks for no more memory than its tensors justify.
#include <gtest/gtest.h>

#include "core/checked.hpp"
#include "cpu/threads/pool.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"
#include "plan/planner.hpp"
#include "support/planning.hpp"

namespace tconv::judge {
namespace {

using core::Problem;
using core::Size;

void expect_right(const Problem& problem, Target& target, uint64_t seed) {
  JudgeOptions options;
  options.seed = seed;
  for (const Verdict& v : judge(problem, "all", target, options)) {
    EXPECT_TRUE(v.right) << text(problem) << ": " << v.kernel << ": " << v.failure;
  }
}

// Products that wrapped in 63 bits sent kernels out of bounds, left outputs unwritten, or took time and
// memory in proportion to the dilation.
constexpr const char* kFar[] = {
    "n1 ci32 co2 g2 l16 k2 s1 p576460752303423488 d1152921504606846976",
    "n1 ci32 co32 l1 k1 s9223372036854775807 p0",
    "n1 ci1 co32 l1 k1 s4611686018427387904",
    "n8 ci1 co16 l1 k2 s2 p2305843009213693952 d4611686018427387905",
    "n8 ci1 co1 l1 k2 s2 p2305843009213693952 d4611686018427387905",
    "n1 ci30 co15 l1 k25 s1 p3553892838564249322 op190256649487416788 d288230376151711744 g15 bias",
    "n1 ci18 co2 l1 k12 s1 p1585267068834414586 d288230376151711743 g2 bias",
    "n1 ci1 co1 l1 k2 s2 p536870912 d1073741825",
    "n2 ci3 co2 l2 k1 s9223372036854775805 p4611686018427387902 bias",
    "n1 ci2 co3 l1 k2 s4611686018427387904 p2305843009213693952 d4611686018427387904 bias",
    "n1 ci1 co1 l1 k1000000 s1000000",
    "n1 ci1 co1 l1 k1000000 s1",  // 10^12 taps lie outside x, 10^6 meet it
    "gx n2 ci3 co2 l2 k2 s4611686018427387900 p4611686018427387800 d4611686018427387901",
    "gw n2 ci3 co2 l2 k2 s4611686018427387900 p4611686018427387800 d4611686018427387901",
    "gw n1 ci2 co2 l1 k3 s9223372036854775807 p4 d4",
    "strided n2 ci3 co2 l2 k2 s4611686018427387900 p4611686018427387800 d4611686018427387901 bias",
    "conv1d n2 ci2 co3 l3 k2 s4611686018427387900 p2305843009213693951 d4611686018427387901 bias",
};

TEST(FarProblems, AreRightOnEveryKernel) {
  const auto target = cpu_target(2);
  for (const char* line : kFar) {
    for (const char* dtype : {" f32", " f64", " f16", " bf16"}) {
      const auto parsed = core::parse(line + std::string(dtype));
      ASSERT_TRUE(parsed.ok()) << line;
      ASSERT_TRUE(validate(parsed.value()).ok()) << validate(parsed.value()).message();
      expect_right(parsed.value(), *target, 1);
    }
  }
}

TEST(FarProblems, RandomOnesAreRightOnEveryKernel) {
  const auto target = cpu_target(2);
  for (uint64_t i = 0; i < 4'000 && !::testing::Test::HasFailure(); ++i) {
    Rng rng(24, i);
    expect_right(draw_far(rng), *target, i);
  }
}

// The planner's choice, and every kernel that takes the problem.
void expect_modest_plans(const Problem& p) {
  const core::DeviceInfo& device = cpu::host_device();
  plan::PlanOptions options;
  options.threads = 4;
  for (const std::string& name : names_to_force(p, device, options)) {
    options.force_kernel = name;
    const double start = cpu_seconds();
    const auto made = plan::make_plan(p, device, options);
    ASSERT_TRUE(made.ok()) << text(p) << ": " << made.status().message();
    const std::string words = explain(made.value());
    EXPECT_LT(cpu_seconds() - start, 0.05) << words;
    EXPECT_GE(work_of(p).flops, 0) << words;
    EXPECT_LT(cpu_seconds() - start, 0.05) << words;
    // Gradients hold partial sums of their outputs.
    const bool transposed = p.operation == core::Operation::transposed;
    const Size sums = transposed ? Size(0) : Size(p.output_elements()) * 64;
    EXPECT_LE(made.value().workspace_bytes(true), static_cast<std::size_t>((sums + (5 << 23)).value()))
        << words;
    const Size most = Size(p.weight_elements()) * 16 * 8 + (1 << 20);
    EXPECT_LE(made.value().kernel->packed_bytes(), static_cast<std::size_t>(most.value())) << words;
  }
}

TEST(FarProblems, PlansTakeNoLongerForLargeNumbers) {
  for (const char* line : kFar) expect_modest_plans(core::parse(line).value());
  for (const char* line :
       {"ci1 co1 l1 k1000000000000", "ci1 co1 l1000000000000 k1",
        "ci1 co1 l1 k1 s1000000000000 op999999999999", "ci2 co2 l1 k67108864 s65536",
        "ci1 co1 l3 k1000000007 s65536", "ci1 co1 l1 k1000003 s999983 d999979",
        "n1000000000000 ci1 co1 l1 k1", "ci1 co1000000000000 l1 k1", "ci1000000000000 co1 l1 k1",
        "ci100000000 co100000000 l1 k1 g100000000", "ci3 co1 l1 k1000000000 s99999989 d1"}) {
    expect_modest_plans(core::parse(line).value());
  }
}

TEST(FarProblems, PlansOfVastProblemsAreModest) {
  int valid = 0;
  for (uint64_t i = 0; i < 20'000 && !::testing::Test::HasFailure(); ++i) {
    Rng rng(25, i);
    const Problem p = draw_vast(rng);
    if (!validate(p).ok()) continue;
    ++valid;
    expect_modest_plans(p);
  }
  EXPECT_GT(valid, 4'000);
}

}  // namespace
}  // namespace tconv::judge
