// cpu.dense: the judge on lines that reach each path of it, and what the judge does not ask: which bits and
// buffers may be relied on.
#include <cstring>

#include "kernels/cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kName = "cpu.dense";

core::Problem drawn(judge::Rng& rng) {
  core::Problem p;
  p.groups = rng.pick<int64_t>({1, 1, 1, 2, 3});
  p.cin = p.groups * rng.between(1, 40);
  p.cout = p.groups * rng.between(1, 24);
  p.n = rng.between(1, 5);
  p.l = rng.pick<int64_t>({1, 2, 5, 17, 48, 49, 100, 301});
  p.k = rng.between(1, 19);
  p.stride = rng.between(1, 12);
  p.dilation = rng.pick<int64_t>({1, 1, 1, 2, 3, 7});
  return p;
}

template <class T>
std::vector<T> ramp(int64_t count, int64_t modulus) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<T>(static_cast<double>((static_cast<int64_t>(i) * 7919) % modulus) / 997.0 - 0.4);
  }
  return v;
}

struct Planned {
  plan::Plan plan;
  std::vector<std::byte> memory;
  std::byte* workspace;

  Planned(const core::Problem& problem, int threads)
      : plan(make(problem, threads)), memory(plan.workspace_bytes(false) + 256) {
    workspace = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
  }
  static plan::Plan make(const core::Problem& problem, int threads) {
    plan::PlanOptions options;
    options.force_kernel = kName;
    options.threads = threads;
    return std::move(plan::make_plan(problem, cpu::host_device(), options).value());
  }
  plan::RunContext context() { return {workspace, cpu::pool_executor(plan.options.threads), nullptr}; }

  std::vector<float> run(const std::vector<float>& x, const void* w, const std::vector<float>& bias,
                         bool packed) {
    std::vector<float> y(static_cast<std::size_t>(plan.problem.y_elements()), -1e30f);
    const plan::Operands operands{x.data(), w, bias.data(), nullptr, y.data()};
    EXPECT_TRUE(plan::run(plan, operands, packed, context(), memory.size() - 256).ok());
    return y;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const char* const kShapes[] = {
    "n3 ci70 co9 l130 k16 s8 p4 bias f32",      "n4 ci600 co5 l40 k4 s2 p1 bias f32",
    "n5 ci20 co12 l7 k11 s4 p5 op3 bias f32",   "n2 ci16 co6 l50 k21 s10 p10 op9 d9 bias f32",
    "n3 ci8 co4 l30 k300 s1 p150 bias f32",     "n2 ci12 co6 l300 k3 s1 d200 p190 g2 bias f32",
    "n2 ci1100 co16 l600 k3 s3 p0 op2 bias f32"};

TEST(CpuDense, OddAndEvenStrides) {
  judge_lines(
      kName,
      {"n2 ci5 co9 l53 k3 s1 p1 bias", "n1 ci7 co5 l50 k4 s2 p1 bias", "n2 ci3 co5 l61 k3 s2 p0 op1",
       "n1 ci9 co3 l49 k7 s3 p2 bias", "n2 ci6 co2 l20 k8 s4 p2", "n1 ci4 co10 l47 k10 s5 p3 op1 bias",
       "n1 ci3 co2 l60 k16 s8 p4 bias", "n1 ci2 co3 l9 k22 s11 p6 op1", "n3 ci2 co2 l5 k40 s20 p3 bias"});
}

TEST(CpuDense, DilationAndResiduesWithoutTaps) {
  judge_lines(kName, {"n2 ci4 co9 l70 k3 s2 p1 d2 bias", "n1 ci4 co4 l60 k5 s1 p2 d3",
                      "n2 ci3 co5 l33 k4 s6 p1 d4 bias", "n1 ci3 co2 l40 k3 s2 p1 d3 bias",
                      "n1 ci2 co3 l12 k2 s9 p4 bias", "n1 ci8 co1 l30 k21 s10 p10 op9 d9",
                      "n1 ci2 co2 l3 k2 s1500 p7 bias"});
}

TEST(CpuDense, ShortSamplesSideBySide) {
  judge_lines(kName,
              {"n40 ci6 co10 l1 k22 s11 p6 op1 bias", "n33 ci5 co8 l4 k4 s2 p1 bias",
               "n9 ci3 co12 l4 k5 s1 p2", "n7 ci4 co40 l6 k9 s1 p4 bias", "n5 ci3 co3 l2 k7 s2 p5 op1 bias"});
}

TEST(CpuDense, SeveralDepthBlocks) {
  judge_lines(kName, {"n1 ci1040 co3 l20 k4 s2 p1 bias", "n2 ci520 co9 l60 k3 s1 p1",
                      "n2 ci3 co2 l20 k600 s1 p5 bias", "n2 ci3 co2 l20 k601 s2 p5 bias",
                      "n1 ci2 co2 l500 k270 s1 p3 d2", "n2 ci3 co5 l40 k3 s1 p9 d300 bias"});
}

// Strips of columns in L1 and passes of units; the other targets run plans made for the machine's vectors.
TEST(CpuDense, SeveralStripsAndPasses) {
  judge_lines(kName, {"n1 ci300 co40 l130 k3 s1 p1 bias", "n3 ci200 co12 l51 k16 s8 p4 bias",
                      "n2 ci250 co33 l60 k5 s2 p2 op1 d3", "n1 ci300 co9 l60 k40 s1 p3",
                      "n1 ci16 co70 l700 k7 s1 p3 bias", "n20 ci260 co20 l40 k3 s1 p1",
                      "n2 ci180 co16 l120 k7 s1 p9 d3 g2 bias"});
}

TEST(CpuDense, Groups) {
  judge_lines(kName, {"n2 ci24 co16 l50 k4 s2 p1 g2 bias", "n1 ci12 co12 l30 k5 s3 p1 g12",
                      "n2 ci9 co6 l20 k4 s4 p0 g3"});
}

TEST(CpuDense, AnyStridesOfX) {
  judge_lines(kName, {"n2 ci5 co9 l53 k4 s2 p1 xs0,53,1", "n2 ci5 co9 l53 k4 s2 p1 xs265,0,1",
                      "n2 ci5 co9 l53 k4 s2 p1 xs7,1,0", "n3 ci20 co9 l53 k4 s2 p1 xs1060,1,20",
                      "n2 ci5 co9 l10 k4 s2 p1 xs0,0,0"});
}

TEST(CpuDense, Random) {
  judge_random(kName, 400, 31, [](judge::Rng& rng, core::Problem& p) { p = drawn(rng); });
}

TEST(CpuDense, InfiniteWeightsStayWhereTapsAre) {
  for (const char* line :
       {"n2 ci3 co5 l9 k5 s1 p2 f32", "n2 ci3 co5 l9 k16 s8 p4 f32", "n3 ci2 co3 l4 k7 s3 p1 op2 f32",
        "n1 ci2 co2 l12 k5 s2 p3 d3 f32", "n1 ci2 co2 l20 k300 s1 p9 f32", "n1 ci6 co6 l8 k4 s2 p1 g3 f32"}) {
    judge_infinite_weights(kName, line);
  }
}

// f(line) for every shape on every SIMD target.
template <class F>
void each_shape(F&& f) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    SCOPED_TRACE(simd);
    for (const char* line : kShapes) f(line);
  }
}

TEST(CpuDense, SameBitsForAnyThreadCount) {
  each_shape([](const char* line) {
    const core::Problem p = problem_of(line);
    const auto x = ramp<float>(p.x_elements(), 1009), w = ramp<float>(p.weight_elements(), 811);
    const auto bias = ramp<float>(p.cout, 13);
    const auto one = Planned(p, 1).run(x, w.data(), bias, false);
    for (const int threads : {2, 3, 8, 64}) {
      EXPECT_TRUE(same_bits(one, Planned(p, threads).run(x, w.data(), bias, false)))
          << line << ", " << threads;
    }
  });
}

TEST(CpuDense, SameBitsForAnyBatch) {
  each_shape([](const char* line) {
    const core::Problem all = problem_of(line);
    core::Problem one = all;
    one.n = 1;
    const auto x = ramp<float>(all.x_elements(), 1009), w = ramp<float>(all.weight_elements(), 811);
    const auto bias = ramp<float>(all.cout, 13);
    const auto together = Planned(all, 2).run(x, w.data(), bias, false);
    for (int64_t n = 0; n < all.n; ++n) {
      const std::vector<float> sample(x.begin() + n * one.x_elements(),
                                      x.begin() + (n + 1) * one.x_elements());
      const std::vector<float> part(together.begin() + n * one.y_elements(),
                                    together.begin() + (n + 1) * one.y_elements());
      EXPECT_TRUE(same_bits(part, Planned(one, 1).run(sample, w.data(), bias, false)))
          << line << ", sample " << n;
    }
  });
}

// One packed buffer serves every plan with the same key: other lengths, batches and thread counts.
TEST(CpuDense, PackedWeightsServeEveryPlanOfTheirKey) {
  for (const char* line : kShapes) {
    const core::Problem p = problem_of(line);
    const auto w = ramp<float>(p.weight_elements(), 811), bias = ramp<float>(p.cout, 13);
    Planned first(p, 1);
    std::vector<std::byte> memory(first.plan.kernel->packed_bytes() + 256);
    std::byte* packed = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
    ASSERT_TRUE(plan::pack(first.plan, w.data(), packed, first.context()).ok());
    core::Problem other = p;
    other.n = 2, other.l = p.l + 77, other.padding = p.padding / 2;
    Planned second(other, 4);
    ASSERT_EQ(first.plan.kernel->pack_key(), second.plan.kernel->pack_key()) << line;
    ASSERT_EQ(first.plan.kernel->packed_bytes(), second.plan.kernel->packed_bytes()) << line;
    const auto x = ramp<float>(other.x_elements(), 1009);
    EXPECT_TRUE(same_bits(second.run(x, packed, bias, true), second.run(x, w.data(), bias, false))) << line;
  }
}

// Raw weights are packed by the threads that read them, in chunks; the order of sums is that of packed ones.
// Shapes of several chunks, depth blocks, classes of taps and a last cout block that is not full.
TEST(CpuDense, RawWeightsHaveTheBitsOfPackedOnes) {
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (const char* line :
         {"n1 ci300 co37 l100 k10 s5 p2 bias f32", "n2 ci200 co70 l120 k16 s8 p4 bias f32",
          "n1 ci700 co21 l60 k11 s4 p1 bias f32", "n3 ci90 co26 l30 k7 s1 p3 bias g2 f32",
          "n1 ci64 co40 l90 k5 s2 p1 d3 bias f32", "n1 ci520 co9 l400 k3 s3 p0 bias f32"}) {
      const core::Problem p = problem_of(line);
      const auto x = ramp<float>(p.x_elements(), 1009), w = ramp<float>(p.weight_elements(), 811);
      const auto bias = ramp<float>(p.cout, 13);
      Planned one(p, 1), many(p, 5);
      ASSERT_TRUE(one.plan.kernel->reads_raw()) << line;
      std::vector<std::byte> memory(one.plan.kernel->packed_bytes() + 256);
      std::byte* packed = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
      ASSERT_TRUE(plan::pack(one.plan, w.data(), packed, one.context()).ok());
      const auto expected = one.run(x, packed, bias, true);
      EXPECT_TRUE(same_bits(expected, one.run(x, w.data(), bias, false))) << simd << ", " << line;
      EXPECT_TRUE(same_bits(expected, many.run(x, w.data(), bias, false))) << simd << ", " << line;
    }
  }
}

// The documented bound: packed weights plus 8 MiB a thread.
TEST(CpuDense, WorkspaceIsBounded) {
  for (const char* line :
       {"n1 ci5120 co2560 l250 k16 s8 p4 f64", "n1 ci100000 co2 l9000 k3 s1 p1 f64",
        "n9 ci3 co2 l100000 k4096 s1 p0 f64", "n1 ci64 co64 l4000 k4096 s1000 p0 f64",
        "n1 ci64 co64 l4000 k300000 s1000 p0 f64", "n2 ci8 co8 l50 k70000 s65536 p0 f64",
        "n2 ci8 co8 l5000 k900 s1 d1000 p0 f64", "n64 ci64 co64 l40000 k3 s2 p0 d1001 f64"}) {
    for (const int threads : {1, 2, 64}) {
      const plan::Plan plan = Planned::make(problem_of(line), threads);
      EXPECT_LE(plan.workspace_bytes(true), static_cast<std::size_t>(threads) << 23)
          << line << ", " << threads;
      EXPECT_LE(plan.workspace_bytes(false),
                plan.kernel->packed_bytes() + 256 + (static_cast<std::size_t>(threads) << 23))
          << line << ", " << threads;
    }
  }
}

}  // namespace
}  // namespace tconv::tests
