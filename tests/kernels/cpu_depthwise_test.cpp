#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.depthwise";

TEST(CpuDepthwise, ShapesOfModels) {
  judge_lines(kKernel, {"n2 ci5 co5 g5 l32 k6 s3 p2 op1 bias",  // as PyTorch's issue 47341
                        "ci3 co3 g3 l5000 k12 s2 p5",           // alias-free upsampling
                        "ci2 co2 g2 l2049 k4 s2 p1 bias",       // tile edges
                        "ci4 co4 g4 l333 k4 s1", "ci6 co12 g6 l77 k8 s4 p2 op3"});
}

TEST(CpuDepthwise, EveryStrideDilationAndMultiplier) {
  judge_lines(kKernel,
              {"ci4 co8 g4 l100 k5 s5 p2", "ci8 co4 g4 l61 k7 s7 d3 bias", "ci2 co2 g2 l40 k3 s2 d2 op1",
               "ci2 co2 g2 l9 k3 s40 p3", "ci4 co4 g4 l300 k8 s8 p3 bias", "ci2 co2 g2 l90 k6 s5 p3 op4",
               "ci2 co2 g2 l700 k20 s6 p5", "ci16 co16 g2 l50 k4 s2 p1", "ci2 co2 g2 l1 k1",
               "ci3 co3 g3 l4 k2 s3 p4", "n0 ci2 co2 g2 l4 k2"});
}

TEST(CpuDepthwise, ShortSamplesOfManyTaps) {
  judge_lines(kKernel, {"n5 ci9 co9 g9 l4 k31 p15 bias", "n3 ci4 co4 g4 l2 k9 d3 p11",
                        "n9 ci6 co12 g6 l1 k20 s3 p7 op1", "n4 ci4 co4 g4 l3 k50 s2 p20 bias",
                        "n2 ci3 co3 g3 l2 k9 d27 p108"});
  judge_infinite_weights(kKernel, "n2 ci3 co3 g3 l4 k31 p15 f32");
}

TEST(CpuDepthwise, Random) {
  judge_random(kKernel, 1500, 11, draw_few_channels);
}

TEST(CpuDepthwise, InfiniteWeightsAtTheEnds) {
  judge_infinite_weights(kKernel, "ci3 co3 g3 l20 k4 s2 p1 f32");
  judge_infinite_weights(kKernel, "ci2 co4 g2 l5 k7 s5 f32");
}

TEST(CpuDepthwise, PastTheCaches) {
  judge_streaming(kKernel, {"n2 ci3 co3 g3 l5000 k4 s2 p1 bias", "n2 ci2 co4 g2 l2049 k7 s1 p3",
                            "ci3 co3 g3 l700 k9 s3 p2", "ci2 co2 g2 l900 k8 s4 op3",
                            "ci3 co3 g3 l400 k20 s10 p5 bias", "ci2 co2 g2 l300 k5 s7 d2"});
}

TEST(CpuDepthwise, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 21);
}

}  // namespace
}  // namespace tconv::tests
