#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.dots";

TEST(CpuDots, ShapesOfModels) {
  judge_lines(kKernel,
              {"gx ci24 co32 l1 k16 s8 p4", "conv1d ci40 co24 l4 k7 p3 bias", "gx ci9 co96 l2 k28 s2 p13",
               "gx n3 ci12 co60 l3 k41 s4 p20 g4", "gx ci5 co1 l2 k1024 s160"});
}

TEST(CpuDots, EndsBatchesAndGroups) {
  judge_lines(kKernel, {"gx ci1 co1 l1 k1", "gx n0 ci2 co2 l4 k2", "gx n70 ci8 co8 l3 k16 s8 p4",
                        "conv1d n2 ci600 co20 l9 k3 p1 bias xs0,9,1", "conv1d ci3 co4 l2 k1 p9 s2 bias",
                        "gx n2 ci6 co9 g3 l7 k5 s3 op2", "gx ci4 co2 l9 k3 s4 d5000 p20",
                        "gx n2 ci5 co2 l5 k6 s7 p11 op6", "gx ci1100 co3 l1 k3 p1", "gx ci6 co300 l2 k9 p4"});
}

TEST(CpuDots, Random) {
  judge_random(kKernel, 800, 37, [](judge::Rng& rng, core::Problem& p) {
    p.operation = core::Operation::strided;
    draw_sizes(rng, p, {.n = 20, .cin = 60, .cout = 90, .l = 12, .k = 60, .stride = 20});
  });
}

TEST(CpuDots, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 27, core::Operation::strided);
}

}  // namespace
}  // namespace tconv::tests
