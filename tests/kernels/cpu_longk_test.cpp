#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.longk";

TEST(CpuLongk, ShapesOfModels) {
  judge_lines(kKernel, {"ci102 co1 l22 k128 s32",        // inverse STFT
                        "ci8 co3 l86 k1024 s256",        // WaveGlow
                        "n2 ci51 co1 l99 k16 s8",        // Conv-TasNet
                        "ci20 co1 l80 k21 s10 p10 op9",  // SuDoRM-RF
                        "ci25 co2 l40 k100 s70 p33 bias"});
}

TEST(CpuLongk, ResiduesGroupsAndLengths) {
  judge_lines(kKernel, {"ci3 co1 l1 k1", "ci2 co3 l5 k3 s200 p1 bias", "ci6 co9 g3 l7 k50 s20 op1 bias",
                        "ci2 co1 l30 k130 s3", "n0 ci2 co2 l4 k2", "ci2 co2 l700 k66 s65 p64",
                        "ci1 co1 l2 k64 s64 p63", "ci2 co1 l3 k9 s5 p9"});
}

TEST(CpuLongk, Random) {
  judge_random(kKernel, 1500, 14, [](judge::Rng& rng, core::Problem& p) {
    draw_sizes(rng, p, {.n = 3, .cin = 60, .cout = 5, .l = 300, .k = 300, .stride = 150, .dilation = 1});
  });
}

TEST(CpuLongk, InfiniteWeightsAtTheEnds) {
  judge_infinite_weights(kKernel, "ci3 co2 l5 k40 s20 p1 f32");
  judge_infinite_weights(kKernel, "n2 ci2 co1 l4 k70 s33 p5 f32");
}

TEST(CpuLongk, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 24);
}

}  // namespace
}  // namespace tconv::tests
