// A weight problem with a bias: one kernel that computes both gradients, or two behind each other.
#include "plan/with_grad_bias.hpp"

#include <gtest/gtest.h>

#include "cpu/threads/pool.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"

namespace tconv::plan {
namespace {

core::Problem of(const std::string& line) {
  return core::parse(line).value();
}

core::Result<Plan> plan_for(const std::string& line, const std::string& force = "",
                            const core::DeviceInfo& device = cpu::host_device(),
                            const std::string& environment = "") {
  PlanOptions options;
  options.force_kernel = force;
  return make_plan(of(line), device, options, environment);
}

constexpr const char* kShape = " n2 ci16 co12 l50 k4 s2 p1 f32";

TEST(WithGradBias, TheWeightsKernelIsThatOfTheWeightAlone) {
  const auto alone = plan_for(std::string("weight") + kShape);
  for (const char* bias : {" bias", " xbias"}) {
    const auto made = plan_for("weight" + std::string(kShape) + bias);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const Plan& plan = made.value();
    EXPECT_EQ(plan.entry, alone.value().entry);
    ASSERT_NE(plan.bias_entry, nullptr);
    EXPECT_STREQ(plan.bias_entry->name, "cpu.bias");
    EXPECT_EQ(plan.name(), std::string(plan.entry->name) + " + cpu.bias");
    EXPECT_EQ(plan.refused.size(), alone.value().refused.size());
    EXPECT_EQ(plan.packed_bytes(), 0u);
  }
  EXPECT_EQ(alone.value().bias_entry, nullptr);
  EXPECT_EQ(alone.value().name(), alone.value().entry->name);
}

TEST(WithGradBias, TheBiasSumsTheTensorThatIsNamed) {
  const core::Problem of_y = grad_bias_of(of("weight n3 ci4 co6 l9 k3 s2 d2 op1 bias ys200,30,1 f16"));
  EXPECT_EQ(text(of_y), "dbias n3 ci1 co6 l22 k1 s1 p0 ys200,30,1 f16");
  const core::Problem of_x = grad_bias_of(of("weight n3 ci4 co6 l9 k3 s2 g2 xbias xs1,30,3 f32 tf32"));
  EXPECT_EQ(text(of_x), "dbias n3 ci1 co4 l9 k1 s1 p0 ys1,30,3 f32");
  const core::Problem empty = grad_bias_of(of("weight n3 ci4 co6 l2 k1 p1 s1 bias"));
  EXPECT_EQ(empty.lout(), 0);
  EXPECT_TRUE(validate(empty).ok());
}

TEST(WithGradBias, ExplainHasBothKernels) {
  const Plan plan = std::move(plan_for("weight" + std::string(kShape) + " bias").value());
  const std::string words = explain(plan), name = plan.entry->name;
  EXPECT_NE(words.find("kernel   " + name + " + cpu.bias: "), std::string::npos) << words;
  EXPECT_NE(words.find(plan.bias_entry->summary), std::string::npos) << words;
  EXPECT_NE(words.find("; bias: 2 slabs of 1 chunks"), std::string::npos) << words;
  EXPECT_TRUE(plan.kernel->stages().empty()) << "theirs say all in one line";
}

TEST(WithGradBias, WhoForcesAKernelForcesThatOfTheWeight) {
  const std::string line = "weight" + std::string(kShape) + " bias";
  const auto forced = plan_for(line, "cpu.weight");
  ASSERT_TRUE(forced.ok()) << forced.status().message();
  EXPECT_EQ(forced.value().name(), "cpu.weight + cpu.bias");
  EXPECT_NE(explain(forced.value()).find("cpu.weight + cpu.bias (forced)"), std::string::npos);
  const auto by_environment = plan_for(line, "", cpu::host_device(), "cpu.weight");
  ASSERT_TRUE(by_environment.ok());
  EXPECT_EQ(by_environment.value().name(), "cpu.weight + cpu.bias");
  const auto other = plan_for(line, "cpu.bias");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().message().rfind("kernel cpu.bias is forced, but it refuses: ", 0), 0u);
}

TEST(WithGradBias, AKernelThatComputesBothStandsAlone) {
  const auto made = plan_for("weight" + std::string(kShape) + " xbias", "reference");
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.value().bias_entry, nullptr);
  EXPECT_EQ(made.value().name(), "reference");
}

TEST(WithGradBias, OneWorkspaceHasRoomForBoth) {
  for (const char* bias : {" bias", " xbias"}) {
    const std::string line = "weight n40 ci16 co3 l5000 k4 s2 p1 f32";
    const Plan both = std::move(plan_for(line + bias).value());
    const Plan weight = std::move(plan_for(line).value());
    const Plan sums = std::move(make_plan(grad_bias_of(of(line + bias)), cpu::host_device(), {}, "").value());
    EXPECT_EQ(both.workspace_bytes(false),
              buffer_bytes(weight.workspace_bytes(false)) + sums.workspace_bytes(false));
    EXPECT_GT(sums.workspace_bytes(false), 0u);
    EXPECT_EQ(both.workspace_bytes(true), both.workspace_bytes(false));
    EXPECT_GT(both.host_bytes(), weight.host_bytes());
  }
}

// Plans for a GPU that need not be there; a build without CUDA has no kernels for it.
TEST(WithGradBias, OnAGpuTheBiasIsSummedThere) {
  bool built = false;
  for (const KernelEntry* entry : registry()) built = built || entry->device == core::DeviceKind::cuda;
  if (!built) GTEST_SKIP() << "this build has no CUDA kernels";
  for (const char* name : {"h200", "a100", "t4"}) {
    const core::DeviceInfo device = core::named_device(name).value();
    for (const char* line : {"weight n16 ci64 co64 l4096 k3 s1 p1 f32 tf32", "weight n2 ci9 co7 l300 k5 f64",
                             "weight n4 ci32 co32 l1000 k4 s2 p1 g32 f16"}) {
      const auto alone = plan_for(line, "", device);
      const auto both = plan_for(line + std::string(" bias"), "", device);
      ASSERT_TRUE(both.ok()) << both.status().message();
      EXPECT_EQ(both.value().name(), std::string(alone.value().entry->name) + " + cuda.simt.bias") << line;
      const std::string words = explain(both.value());
      EXPECT_NE(words.find("\n  weight "), std::string::npos) << words;
      EXPECT_NE(words.find("\n  bias schedule: "), std::string::npos) << words;
      EXPECT_GT(both.value().kernel->predicted_ms(), alone.value().kernel->predicted_ms()) << line;
      for (const KernelEntry* entry : supporting(of(line), device, {})) {
        const auto forced = plan_for(line + std::string(" xbias"), entry->name, device);
        EXPECT_TRUE(forced.ok()) << entry->name << ": " << forced.status().message();
      }
    }
  }
}

}  // namespace
}  // namespace tconv::plan
