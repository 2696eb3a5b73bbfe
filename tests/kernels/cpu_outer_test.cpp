#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.outer";

TEST(CpuOuter, ShapesOfModels) {
  judge_lines(kKernel, {"weight ci70 co60 l20 k16 s8 p4",  // an upsampling layer, trained on short pieces
                        "conv1d_gw n2 ci24 co40 l32 k7 p9 d3",       // Conv1d of a vocoder
                        "conv1d_gw n2 ci24 co64 l80 k41 s4 p20 g4",  // a discriminator
                        "weight ci33 co9 l70 k5 s1 p12 d6", "conv1d_gw n3 ci64 co128 l1 k1"});
}

TEST(CpuOuter, EndsBatchesAndGroups) {
  judge_lines(kKernel,
              {"weight ci1 co1 l1 k1", "weight n0 ci2 co2 l4 k2", "weight n40 ci8 co8 l3 k16 s8 p4",
               "weight n5 ci3 co4 l1 k9 s2 p3", "weight ci6 co9 g3 l7 k5 s3 op2",
               "weight ci4 co2 l9 k3 s4 p20 d50", "weight ci4 co2 l9 k3 s4 d5000 p20",
               "weight ci3 co3 l40 k1030 s7 p6", "weight n2 ci9 co160 l5 k6 s7 p11 op6",
               "weight n512 ci5 co70 l1 k20 p3", "weight n2 ci17 co20 l20 k3 p1 xs340,1,17 ys400,1,20"});
}

// Rows of dy with zeros around them: taps side by side and apart, tiles that end within a channel, parts of
// samples.
TEST(CpuOuter, PaddedRows) {
  judge_lines(kKernel, {"weight n60 ci9 co20 l10 k7 p9 d3", "weight n3 ci5 co33 l300 k3 p5 d5",
                        "weight n70 ci12 co17 l7 k9 p4", "weight n40 ci8 co30 l13 k4 s2 p1 op1",
                        "weight n9 ci3 co12 l31 k5 s2 d3 p6", "weight n30 ci6 co9 g3 l5 k20 p9",
                        "weight n600 ci4 co13 l1 k3 s2 p1 op1", "weight n20 ci7 co11 l33 k2 d27 p20",
                        "weight n12 ci6 co10 l20 k3 p1 xs120,1,6 ys200,1,10"});
}

TEST(CpuOuter, ChunksAndSlabs) {
  judge_lines(kKernel, {"weight n3 ci9 co4 l300 k3 s2 p1", "weight ci20 co50 l700 k1",
                        "weight n2 ci17 co3 l513 k16 s8 p4", "weight ci5 co70 l1500 k7 p9 d3",
                        "weight n4 ci8 co8 g2 l257 k5 s3 p2", "weight n90 ci3 co13 l11 k4 s2 p1",
                        "weight n2 ci9 co5 l300 k50 s20 p7 xs2700,1,9 ys31000,1,5"});
}

// Sums of several chunks that are infinite: Highway's conversion from float64 stops at the largest float32 in
// its scalar target.
TEST(CpuOuter, InfiniteTotals) {
  const core::Problem problem = problem_of("weight n5 ci40 co40 l121 k1 g40 f32");
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (uint64_t seed = 1; seed <= 30; ++seed) judge_problem(problem, kKernel, seed, {judge::Fill::special});
  }
}

TEST(CpuOuter, Random) {
  judge_random(kKernel, 1500, 34, [](judge::Rng& rng, core::Problem& p) {
    p.operation = core::Operation::weight;
    draw_sizes(rng, p, {.n = 4, .cin = 90, .cout = 90, .l = 1500, .k = 60, .stride = 20});
  });
}

TEST(CpuOuter, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 27, core::Operation::weight);
}

}  // namespace
}  // namespace tconv::tests
