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

// 16 groups side by side: whole and cut blocks of groups, ends, batches that a task cuts, every type's rows.
TEST(CpuStridedDepthwise, ShortRows) {
  judge_lines(kKernel, {"gx ci33 co33 l5 k4 s4 g33", "conv1d n3 ci16 co16 l29 k9 s1 p4 g16 bias",
                        "gx n9 ci9 co9 l7 k5 s3 p4 op2 g9", "gx ci24 co12 l6 k3 s2 p1 d3 g12",
                        "conv1d n2 ci18 co36 l20 k3 p9 g18 bias", "gx ci8 co8 l3 k2 s50 g8",
                        "gx n70 ci40 co40 l2 k3 s1 p1 g40", "gx ci17 co17 l4 k2 s3 p4 g17",
                        "conv1d n2 ci20 co20 l30 k3 p5 g20 bias xs0,30,1", "gx ci16 co16 l1 k7 p3 g16",
                        "gx n0 ci16 co16 l4 k2 g16"});
}

TEST(CpuStridedDepthwise, ShortRowsLieAbreast) {
  const auto describe = [](const char* line) {
    plan::PlanOptions options;
    options.force_kernel = kKernel;
    options.threads = 1;
    return plan::make_plan(problem_of(line), cpu::host_device(), options).value().kernel->describe();
  };
  EXPECT_NE(describe("strided ci64 co64 l5 k4 s4 g64").find("abreast"), std::string::npos);
  EXPECT_EQ(describe("strided ci64 co64 l500 k4 s4 g64").find("abreast"), std::string::npos);
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
