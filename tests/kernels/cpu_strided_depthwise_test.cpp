#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.strided_depthwise";

TEST(CpuStridedDepthwise, ShapesOfModels) {
  judge_lines(kKernel, {"conv1d ci48 co48 l700 k7 s1 p3 g48 bias",  // Vocos, ConvNeXt
                        "conv1d ci6 co6 l5000 k12 s2 p5 g6",        // alias-free downsampling
                        "gx ci5 co5 l2049 k4 s2 p1 g5",             // depthwise upsampling, trained
                        "conv1d n3 ci4 co8 l333 k5 s1 p2 g4 bias"});
}

TEST(CpuStridedDepthwise, EveryStrideDilationAndMultiplier) {
  judge_lines(kKernel,
              {"gx ci4 co8 g4 l100 k5 s5 p2", "gx ci8 co4 g4 l61 k7 s7 d3", "gx ci2 co2 g2 l40 k3 s2 d2 op1",
               "gx ci2 co2 g2 l9 k3 s40 p3", "gx ci4 co4 g4 l300 k8 s8 p3", "gx ci2 co2 g2 l90 k6 s5 p3 op4",
               "gx ci1 co3 l700 k20 s6 p5", "gx n0 ci2 co2 g2 l4 k2", "gx ci2 co2 g2 l1 k1",
               "gx ci3 co3 g3 l4 k2 s3 p4", "conv1d n2 ci3 co3 g3 l900 k9 p4 bias xs0,900,1"});
}

TEST(CpuStridedDepthwise, Random) {
  judge_random(kKernel, 1500, 43, [](judge::Rng& rng, core::Problem& p) {
    p.operation = core::Operation::strided;
    draw_few_channels(rng, p);
  });
}

TEST(CpuStridedDepthwise, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 29, core::Operation::strided);
}

}  // namespace
}  // namespace tconv::tests
