// 20,000 random problems of every feature on the planner's choice, a part of them on every kernel that
// supports them, SIMD targets in turn; and a fixed list of nasty ones on every kernel and target. Ten shards,
// so that ctest -j runs them side by side. A failure's problem can be judged alone: tconv check "<problem>".
#include <gtest/gtest.h>

#include "judge/draw.hpp"
#include "judge/judge.hpp"
#include "kernels/cpu_family.hpp"

namespace tconv::judge {
namespace {

constexpr int64_t kProblems = 20'000, kShards = 10;

void expect_right(const core::Problem& problem, const std::string& kernel, Target& target,
                  const JudgeOptions& options) {
  for (const Verdict& v : judge(problem, kernel, target, options)) {
    EXPECT_TRUE(v.right) << text(problem) << ": " << v.kernel << ": " << v.failure;
  }
}

class RandomProblems : public ::testing::TestWithParam<int> {};

TEST_P(RandomProblems, AreRight) {
  const int64_t shard = GetParam();
  const auto& simd = tests::SimdTarget::all();
  const auto target = cpu_target(shard % 2 == 0 ? 2 : 1);
  for (int64_t i = shard * kProblems / kShards; i < (shard + 1) * kProblems / kShards; ++i) {
    Rng rng(7, static_cast<uint64_t>(i));
    const core::Problem problem = draw_valid(rng, {.far = true});
    // By eights, so that every target meets the problems of all kernels.
    const tests::SimdTarget only(simd[static_cast<std::size_t>(i / 8) % simd.size()]);
    JudgeOptions options;
    options.seed = mix(7) + static_cast<uint64_t>(i);
    expect_right(problem, i % 8 == 0 ? "all" : "", *target, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomProblems, ::testing::Range(0, static_cast<int>(kShards)));

constexpr const char* kNasty[] = {
    "n0 ci8 co8 l33 k4 s2 p1 bias",              // nothing to do
    "n1 ci8 co8 l4 k1 s1 p2",                    // Lout 0
    "n1 ci1 co1 l1 k1 s1 p0",                    // one product
    "n1 ci1 co1 l1 k1 s1 p0 bias",               //
    "n1 ci64 co64 l1 k16 s8 p4 bias",            // one position
    "n3 ci33 co65 l1 k1 s1 p0",                  //
    "n1 ci1 co1 l5 k4096 s1 p0",                 // long kernels
    "n1 ci2 co1 l9 k4096 s1024 p4000 bias",      //
    "n1 ci2 co3 l20 k4096 s7 p6000 d3",          //
    "n1 ci8 co8 l17 k3 s100 p7 op40 bias",       // stride 100
    "n2 ci5 co7 l9 k1 s100 p0 op99",             //
    "n1 ci130 co1 l300 k16 s8 p4",               // Cout 1
    "n2 ci1 co130 l300 k16 s8 p4 bias",          // Cin 1
    "n1 ci1 co1 l5000 k64 s1 p0",                // both
    "n1 ci16 co16 l50 k2 s9 p1 bias",            // stride beyond the kernel
    "n1 ci17 co47 l50 k3 s2 p1 d2",              // residues without taps
    "n1 ci17 co47 l50 k5 s6 p11 d4 op5 bias",    //
    "n1 ci16 co16 l50 k3 s4 p60 d37",            // padding beyond the taps' middle
    "n1 ci300 co9 l20 k3 s1 p1",                 // many channels in
    "n1 ci9 co300 l20 k3 s1 p1 bias",            // many channels out
    "n1 ci257 co129 l49 k3 s1 p0",               // one past the usual tiles
    "n5 ci31 co33 l47 k4 s2 p1 bias",            // one short of them
    "n1 ci64 co64 l100 k4 s2 p1 g64 bias",       // depthwise
    "n1 ci64 co192 l31 k5 s3 p0 g64",            // with a multiplier
    "n1 ci192 co64 l31 k5 s3 p0 g64 bias",       // and the other way
    "n2 ci60 co90 l33 k4 s2 p1 g30",             // groups of 2 and 3
    "n1 ci96 co144 l33 k4 s2 p1 g3 bias",        // groups of 32 and 48
    "n2 ci16 co16 l300 k4 s2 p1 xs4800,1,16",    // channels-last
    "n4 ci16 co16 l30 k4 s2 p1 xs0,30,1 bias",   // one sample for all
    "n2 ci16 co16 l30 k4 s2 p1 xs30,0,1",        // one channel for all
    "n2 ci16 co16 l30 k4 s2 p1 xs480,30,0",      // one value for all positions
    "n3 ci16 co16 l30 k4 s2 p1 xs0,0,0 bias",    // one value for everything
    "n2 ci16 co16 l30 k4 s2 p1 xs1,1,1",         // overlapping
    "n2 ci24 co24 l30 k4 s2 p1 g24 xs720,1,24",  // depthwise, channels-last
    "n2 ci8 co8 l100 k4 s2 p1 xs1600,200,2",     // every other position
};

class NastyProblems : public ::testing::TestWithParam<const char*> {};

TEST_P(NastyProblems, AreRightOnEveryKernel) {
  const auto target = cpu_target(2);
  JudgeOptions options;
  options.fills = {Fill::integers, Fill::uniform, Fill::positive, Fill::spread, Fill::special};
  for (const char* line : kNasty) {
    const auto parsed = core::parse(line + std::string(" ") + GetParam());
    ASSERT_TRUE(parsed.ok()) << line;
    for (const std::string& simd : tests::SimdTarget::all()) {
      const tests::SimdTarget only(simd);
      expect_right(parsed.value(), "all", *target, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DType, NastyProblems, ::testing::Values("f32", "f32 tf32", "f64", "f16", "bf16"));

}  // namespace
}  // namespace tconv::judge
