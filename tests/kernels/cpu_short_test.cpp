#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.short";

TEST(CpuShort, ShapesOfModels) {
  judge_lines(kKernel, {"ci51 co25 l1 k16 s8 bias",              // EnCodec, one frame at a time
                        "ci40 co40 l8 k4 s2 p1 bias",            // Diffusion Policy
                        "n9 ci30 co50 l4 k4 s2 p1 bias",         // the same in training
                        "n32 ci12 co6 l1 k22 s11 p10 op1 bias",  // StyleMelGAN
                        "n5 ci20 co10 l17 k12 s12 bias"});       // MICN
}

TEST(CpuShort, TapsGroupsAndLengths) {
  judge_lines(kKernel, {"ci3 co1 l1 k1", "ci2 co3 l5 k3 s1 p3", "ci6 co9 g3 l7 k5 s2 d3 op1 bias",
                        "ci2 co1 l3 k2 s7 p1", "n0 ci2 co2 l4 k2", "n3 ci150 co2 l70 k3 s2",
                        "ci300 co1 l2 k130 s50 p9", "n200 ci3 co2 l2 k3 s3 p2 op2"});
}

TEST(CpuShort, Random) {
  judge_random(kKernel, 1500, 13, [](judge::Rng& rng, core::Problem& p) {
    draw_sizes(rng, p, {.n = 40, .cin = 150, .cout = 40, .l = 60, .k = 30, .stride = 12, .dilation = 9});
  });
}

TEST(CpuShort, InfiniteWeightsAtTheEnds) {
  judge_infinite_weights(kKernel, "ci3 co2 l5 k4 s2 p1 f32");
  judge_infinite_weights(kKernel, "n30 ci2 co1 l1 k7 s5 f32");
}

TEST(CpuShort, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 23);
}

}  // namespace
}  // namespace tconv::tests
