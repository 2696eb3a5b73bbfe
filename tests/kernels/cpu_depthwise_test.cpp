#include <cstring>

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

// Rows one after another: cut blocks of 16 groups, batches that samples by fours do not fill, multipliers,
// outputs without a product, rows whose x spread too far for two vectors, x that is not contiguous.
TEST(CpuDepthwise, ShortRows) {
  judge_lines(
      kKernel,
      {"n5 ci33 co33 l4 k3 p1 g33 bias", "n9 ci16 co16 l1 k3 p1 g16", "n6 ci40 co40 l1 k1 g40 bias",
       "n4 ci17 co34 l5 k4 s2 p1 g17 bias", "n7 ci36 co18 l6 k5 p2 g18", "n3 ci9 co9 l3 k2 s5 op3 g9 bias",
       "n2 ci20 co20 l40 k3 p20 g20", "n2 ci48 co48 l10 k7 d3 p12 g48 bias",
       "n5 ci18 co18 l7 k3 s2 p1 g18 xs126,1,18", "n5 ci18 co18 l7 k3 s2 p1 g18 xs150,7,1 bias",
       "n4 ci20 co20 l8 k9 p4 g20 xs0,8,1", "n5 ci20 co20 l16 k31 g20 bias",
       "n70 ci19 co19 l2 k4 s2 p1 g19 bias", "n0 ci16 co16 l2 k3 g16"});
}

struct Outcome {
  std::string description;
  std::vector<float> y;
};

// Samples [first, first + p.n) of x; planned on one SIMD target, run on another.
Outcome run_samples(core::Problem p, const std::vector<float>& x, const std::vector<float>& w, int64_t first,
                    int threads, const std::string& planned_on, const std::string& simd) {
  plan::PlanOptions options;
  options.force_kernel = kKernel;
  options.threads = threads;
  EXPECT_TRUE(cpu::simd::choose_target(planned_on).ok());
  const auto plan = std::move(plan::make_plan(p, cpu::host_device(), options).value());
  const SimdTarget only(simd);
  std::vector<std::byte> memory(plan.workspace_bytes(false) + 256);
  std::byte* workspace = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
  Outcome run{plan.kernel->describe(), std::vector<float>(static_cast<std::size_t>(p.y_elements()), -1e30f)};
  const plan::Operands operands{x.data() + first * p.cin * p.l, w.data(), w.data(), nullptr, run.y.data()};
  const plan::RunContext context{workspace, cpu::pool_executor(threads), nullptr};
  EXPECT_TRUE(plan::run(plan, operands, false, context, memory.size() - 256).ok());
  return run;
}

// Four samples at once, one, in place and copied; windows of x and gathered x.
TEST(CpuDepthwise, ShortRowsHaveTheSameBitsInAnyBatch) {
  for (const char* line : {"n11 ci70 co70 l4 k3 p1 g70 bias f32", "n6 ci40 co40 l1 k9 p4 g40 f32",
                           "n9 ci34 co34 l6 k4 s2 p1 g34 bias f32"}) {
    const core::Problem all = problem_of(line);
    core::Problem one = all;
    one.n = 1;
    std::vector<float> x(static_cast<std::size_t>(all.x_elements())),
        w(static_cast<std::size_t>(all.weight_elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1009) / 997.0f - 0.4f;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7919 % 811) / 997.0f - 0.4f;
    const std::size_t size = static_cast<std::size_t>(one.y_elements()) * sizeof(float);
    for (const std::string& simd : SimdTarget::all()) {
      const Outcome batch = run_samples(all, x, w, 0, 1, simd, simd);
      EXPECT_NE(batch.description.find("rows one after another"), std::string::npos) << line << ", " << simd;
      EXPECT_EQ(batch.y, run_samples(all, x, w, 0, 5, simd, simd).y) << line << ", " << simd;
      for (const std::string& other : SimdTarget::all()) {
        EXPECT_EQ(batch.y, run_samples(all, x, w, 0, 1, other, simd).y)
            << line << ", " << other << ", " << simd;
      }
      for (int64_t n = 0; n < all.n; ++n) {
        const Outcome alone = run_samples(one, x, w, n, 1, simd, simd);
        EXPECT_EQ(std::memcmp(alone.y.data(), batch.y.data() + n * one.y_elements(), size), 0)
            << line << ", " << simd << ", sample " << n;
      }
    }
  }
}

// A few samples may take another way than many.
TEST(CpuDepthwise, FewSamplesHaveTheBitsOfMany) {
  for (const char* line : {"n9 ci34 co34 l16 k7 p3 g34 bias f32", "n8 ci20 co20 l24 k15 p7 g20 f32",
                           "n7 ci18 co36 l8 k8 s4 p2 g18 bias f32"}) {
    const core::Problem all = problem_of(line);
    std::vector<float> x(static_cast<std::size_t>(all.x_elements())),
        w(static_cast<std::size_t>(all.weight_elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1009) / 997.0f - 0.4f;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7919 % 811) / 997.0f - 0.4f;
    for (const std::string& simd : SimdTarget::all()) {
      const Outcome many = run_samples(all, x, w, 0, 1, simd, simd);
      for (int64_t n = 1; n <= 4; ++n) {
        core::Problem few = all;
        few.n = n;
        const Outcome some = run_samples(few, x, w, 0, 1, simd, simd);
        EXPECT_EQ(std::memcmp(some.y.data(), many.y.data(), some.y.size() * sizeof(float)), 0)
            << line << ", " << simd << ", " << n << " samples";
      }
    }
  }
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
