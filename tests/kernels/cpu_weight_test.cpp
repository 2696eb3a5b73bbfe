#include <cmath>
#include <memory>

#include "cpu/weight/contract.hpp"
#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

namespace weight = cpu::weight;

TEST(CpuWeight, ShapesOfModels) {
  judge_lines("cpu.weight", {"gw n2 ci64 co32 l50 k16 s8 p4",      // HiFi-GAN's upsampling, trained
                             "gw n3 ci40 co24 l130 k7 s1 p3",      // Conv1d of a vocoder
                             "gw ci33 co9 l70 k5 s1 p12 d6",       // the same, dilated
                             "gw n2 ci24 co16 l60 k41 s4 p20 g4",  // a discriminator
                             "gw n2 ci9 co1 l30 k128 s32",         // inverse STFT
                             "gw n2 ci16 co16 g16 l400 k4 s2 p1"});
}

TEST(CpuWeight, ManyChunksAndSlabs) {
  judge_lines("cpu.weight",
              {"gw n2 ci2 co1 l5000 k3 s1", "gw ci5 co3 l3100 k4 s2 p1 op1", "gw n300 ci3 co2 l9 k3 p1"});
}

// A row of x a group: chunks are longer there, and dy is read where it lies.
TEST(CpuWeight, LongRows) {
  judge_lines("cpu.weight", {"gw ci1 co13 l9001 k1", "gw ci3 co9 g3 l12500 k7 p6 d2",
                             "gw ci2 co2 g2 l8190 k3", "gw n2 ci1 co3 l33000 k2 p1"});
}

TEST(CpuWeight, EndsBatchesAndGroups) {
  judge_lines(
      "cpu.weight",
      {"gw ci1 co1 l1 k1", "gw n0 ci2 co2 l4 k2", "gw n40 ci8 co8 l3 k16 s8 p4", "gw n5 ci3 co4 l1 k9 s2 p3",
       "gw ci6 co9 g3 l7 k5 s3 op2", "gw ci4 co2 l9 k3 s4 p20 d50", "gw ci4 co2 l9 k3 s4 d5000 p20",
       "gw ci3 co3 l40 k1030 s7 p6", "gw n2 ci5 co2 l5 k6 s7 p11 op6", "gw ci35 co70 l20 k3 p1"});
}

// Wide gaps between samples are passed over: several chunks of whole samples, samples of whole vectors and
// others, a last sample alone in its chunk.
TEST(CpuWeight, GapsBetweenSamples) {
  for (const char* line : {"gw n24 ci9 co7 l106 k9 s1 p20 d5", "gw n13 ci6 co5 l64 k24 s2 p3 d3 op1",
                           "gw n37 ci9 co8 l70 k4 s1 p9 d8", "gw n9 ci8 co6 g2 l112 k30 s1 p4",
                           "gw n5 ci12 co3 l160 k7 s1 p2 d20"}) {
    const weight::Job job = weight::make_job(problem_of(line), 64);
    EXPECT_LT(job.used, job.split.period) << line;
    EXPECT_TRUE(job.config.chunk % job.split.period == 0 || job.config.chunk >= job.split.columns) << line;
    EXPECT_LE(job.used + job.split.halo, job.split.period) << line;
    judge_lines("cpu.weight", {line});
  }
}

void draw_gradient(judge::Rng& rng, core::Problem& p, core::Operation operation) {
  p.operation = operation;
  draw_sizes(rng, p,
             {.n = 4, .cin = 60, .cout = 60, .l = rng.chance(10) ? 9000 : 300, .k = 60, .stride = 20});
}

TEST(CpuWeight, Random) {
  judge_random("cpu.weight", 1500, 32,
               [](judge::Rng& rng, core::Problem& p) { draw_gradient(rng, p, core::Operation::weight); });
}

TEST(CpuBias, LinesAndRandom) {
  judge_lines("cpu.bias", {"gb ci1 co1 l1 k1", "gb n0 ci2 co2 l4 k2", "gb n3 ci2 co5 l4500 k3 s2",
                           "gb n40 ci8 co9 l3 k5"});
  judge_random("cpu.bias", 500, 33,
               [](judge::Rng& rng, core::Problem& p) { draw_gradient(rng, p, core::Operation::bias); });
}

// Millions of terms: the error stays that of a short sum, and the bits do not know the threads.
TEST(CpuWeight, ErrorOfALongSumIsThatOfAShortOne) {
  const core::Problem p = problem_of("gw n4 ci1 co1 l1000000 k1 f32");
  std::vector<float> x(static_cast<std::size_t>(p.x_elements())), dy(x.size());
  judge::Rng rng(8);
  double exact = 0, magnitude = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(rng.unit());
    dy[i] = static_cast<float>(rng.unit());
    exact += static_cast<double>(x[i]) * static_cast<double>(dy[i]);
    magnitude += std::fabs(static_cast<double>(x[i]) * static_cast<double>(dy[i]));
  }
  float results[2];
  for (const int threads : {1, 2}) {
    plan::PlanOptions options;
    options.force_kernel = "cpu.weight";
    options.threads = threads;
    const auto made = plan::make_plan(p, cpu::host_device(), options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const std::size_t bytes = made.value().workspace_bytes(false);
    std::vector<std::byte> memory(bytes + 256);
    void* aligned = memory.data();
    std::size_t room = memory.size();
    ASSERT_NE(std::align(256, bytes, aligned, room), nullptr);
    const plan::RunContext context{static_cast<std::byte*>(aligned), cpu::pool_executor(threads), nullptr};
    const plan::Operands operands{x.data(), nullptr, nullptr, dy.data(), &results[threads - 1]};
    ASSERT_TRUE(plan::run(made.value(), operands, false, context, bytes).ok());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_LE(std::fabs(static_cast<double>(results[0]) - exact), 8 * 0x1p-24 * magnitude);
}

TEST(CpuWeight, WorkspaceIsBounded) {
  expect_bounded_workspace("cpu.weight", 26, core::Operation::weight);
}

}  // namespace
}  // namespace tconv::tests
