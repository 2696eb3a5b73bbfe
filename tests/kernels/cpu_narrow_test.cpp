#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.narrow";

TEST(CpuNarrow, ShapesOfModels) {
  judge_lines(kKernel, {"ci64 co1 l2000 k8 s4 bias",           // denoiser's last layer
                        "ci9 co8 l700 k8 s4 p2 bias",          // Demucs' last layer, narrower
                        "ci4 co4 l1500 k4 s4",                 // PQMF synthesis
                        "n2 ci16 co1 l999 k2 s1",              // DPRNN's decoder
                        "n2 ci32 co1 l500 k16 s8",             // Conv-TasNet's decoder
                        "n2 ci20 co1 l300 k21 s10 p10 op9"});  // SuDoRM-RF's decoder
}

TEST(CpuNarrow, RowsTapsAndLengths) {
  judge_lines(kKernel, {"ci3 co1 l1 k4 s2 p1", "ci2 co5 l385 k3 s1 p1", "ci5 co7 l97 k3 s1 d4",
                        "ci1 co3 l200 k7 s3 p4", "ci6 co4 g2 l130 k5 s2 d2 op1", "ci2 co1 l50 k2 s7",
                        "ci3 co2 l60 k9 s6 d4 p11 bias", "n0 ci2 co2 l4 k2", "n0 ci2 co2 l9 k2 p2",
                        "ci1 co64 l70 k4 s2 p1"});
}

TEST(CpuNarrow, TapsAsRows) {
  judge_lines(kKernel,
              {"n2 ci32 co1 l900 k7 s1 p3 bias", "ci9 co1 l500 k31 s1 p4", "ci70 co2 l450 k5 s1 d3 p2 bias",
               "ci16 co1 l800 k9 s2 p3 op1", "ci16 co1 l400 k3 s2 d2 bias", "ci24 co3 g3 l600 k4 s1 p6"});
}

TEST(CpuNarrow, Random) {
  judge_random(kKernel, 1500, 12, [](judge::Rng& rng, core::Problem& p) {
    draw_sizes(rng, p, {.n = 3, .cin = 40, .cout = 20, .l = 900, .k = 30, .stride = 12, .dilation = 9});
  });
}

TEST(CpuNarrow, InfiniteWeightsAtTheEnds) {
  judge_infinite_weights(kKernel, "ci3 co2 l20 k4 s2 p1 f32");
  judge_infinite_weights(kKernel, "ci2 co1 l9 k7 s5 f32");
}

// The choice decides the bits, so it must be the same for a sample alone and in a batch.
TEST(CpuNarrow, LeavesMatrixProductsAloneWhateverTheBatch) {
  const auto chosen = [](const std::string& line) {
    return plan::make_plan(problem_of(line), cpu::host_device(), {}).value().entry->name;
  };
  for (const char* n : {"n1 ", "n500 "}) {
    const std::string batch = n;
    EXPECT_EQ(chosen(batch + "ci32 co64 l131072 k5 s1 d3 f32"), "cpu.dense");
    EXPECT_EQ(chosen(batch + "ci64 co64 l1000 k3 s1 f32"), "cpu.dense");
    EXPECT_EQ(chosen(batch + "ci128 co4 l159 k41 s1 f32"), "cpu.dense");
    EXPECT_EQ(chosen(batch + "ci2 co1 l80000 k16 s8 f32"), "cpu.dense");
    EXPECT_EQ(chosen(batch + "ci32 co1 l48000 k7 s1 f32"), kKernel);
    EXPECT_EQ(chosen(batch + "ci16 co4 l100000 k4 s2 f32"), kKernel);
  }
}

TEST(CpuNarrow, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 22);
}

}  // namespace
}  // namespace tconv::tests
