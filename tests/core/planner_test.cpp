// Choosing, explaining and forcing a kernel.
#include "plan/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "cpu/threads/pool.hpp"
#include "judge/draw.hpp"
#include "plan/registry.hpp"

namespace tconv::plan {
namespace {

using core::Code;

core::Problem of(const char* line) {
  return core::parse(line).value();
}

core::Result<Plan> plan_for(const core::Problem& p, const std::string& force = "", int threads = 0) {
  PlanOptions options;
  options.force_kernel = force;
  options.threads = threads;
  return make_plan(p, cpu::host_device(), options, "");
}

// With TCONV_FORCE_KERNEL as given, on a device that need not be there.
core::Result<Plan> plan_in_environment(const std::string& kernel, const char* device = nullptr,
                                       const std::string& force = "",
                                       const char* line = "n1 ci16 co16 l50 k4 s2 p1 f32") {
  PlanOptions options;
  options.force_kernel = force;
  const core::DeviceInfo info = device == nullptr ? cpu::host_device() : core::named_device(device).value();
  return make_plan(of(line), info, options, kernel);
}

TEST(Registry, NamesAreUniqueAndTheReferenceIsLast) {
  std::set<std::string> names;
  for (const KernelEntry* entry : registry()) {
    EXPECT_TRUE(names.insert(entry->name).second) << entry->name;
    EXPECT_GT(std::string(entry->summary).size(), 10u) << entry->name;
  }
  EXPECT_STREQ(registry().back()->name, "reference");
}

TEST(Planner, TakesTheFirstEntryThatSupportsTheProblem) {
  for (uint64_t i = 0; i < 2'000; ++i) {
    judge::Rng rng(41, i);
    const core::Problem p = judge::draw_valid(rng);
    const auto plan = plan_for(p);
    ASSERT_TRUE(plan.ok()) << text(p) << ": " << plan.status().message();
    std::vector<const KernelEntry*> before;
    for (const KernelEntry* entry : registry()) {
      if (entry->device != core::DeviceKind::cpu) continue;
      if (entry->supports(p, cpu::host_device(), plan.value().options).ok) {
        EXPECT_EQ(plan.value().entry, entry) << text(p);
        break;
      }
      before.push_back(entry);
    }
    ASSERT_EQ(plan.value().refused.size(), before.size()) << text(p);
    for (std::size_t j = 0; j < before.size(); ++j) {
      EXPECT_EQ(plan.value().refused[j].entry, before[j]);
      EXPECT_FALSE(plan.value().refused[j].reason.empty()) << text(p) << " " << before[j]->name;
    }
  }
}

TEST(Planner, RefusesAnInvalidProblemInItsOwnWords) {
  const auto plan = plan_for(of("ci8 co9 l5 k3 g2"));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::invalid_problem);
  EXPECT_EQ(plan.status().message(), "groups is 2: must divide cout, which is 9");
}

TEST(Planner, ForcesByOptionAndByEnvironment) {
  const core::Problem p = of("n1 ci16 co16 l50 k4 s2 p1 f32");
  EXPECT_STREQ(plan_for(p, "reference").value().entry->name, "reference");
  EXPECT_NE(explain(plan_for(p, "reference").value()).find("reference (forced)"), std::string::npos);
  const auto plan = plan_in_environment("reference");
  EXPECT_STREQ(plan.value().entry->name, "reference");
  EXPECT_NE(explain(plan.value()).find("reference (forced)"), std::string::npos);
}

TEST(Planner, TheOptionWinsOverTheEnvironment) {
  EXPECT_STREQ(plan_in_environment("no.such.kernel", nullptr, "reference").value().entry->name, "reference");
}

TEST(Planner, AnUnknownNameInTheEnvironmentIsRefusedInWords) {
  for (const char* device : {static_cast<const char*>(nullptr), "h200"}) {
    const auto plan = plan_in_environment("no.such.kernel", device);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), Code::invalid_argument);
    const std::string message = plan.status().message();
    EXPECT_EQ(message.rfind("TCONV_FORCE_KERNEL is 'no.such.kernel': no such kernel; the kernels are ", 0),
              0u)
        << message;
  }
}

TEST(Planner, AKernelOfTheEnvironmentThatRefusesSaysWhoForcesIt) {
  const auto plan = plan_in_environment("cpu.depthwise", nullptr, "", "gw n1 ci16 co16 l50 k4 f32");
  ASSERT_FALSE(plan.ok());
  const std::string start = "kernel cpu.depthwise is forced by TCONV_FORCE_KERNEL, but it refuses: ";
  EXPECT_EQ(plan.status().message().rfind(start, 0), 0u) << plan.status().message();
}

// Also in a build without CUDA, whose list has no CUDA kernels.
TEST(Planner, AKernelOfTheEnvironmentLeavesOtherDevicesAlone) {
  const auto cpu = plan_in_environment("cuda.simt.dense");
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  EXPECT_EQ(cpu.value().entry, plan_in_environment("").value().entry);
  const std::string words = explain(cpu.value());
  EXPECT_NE(words.find("TCONV_FORCE_KERNEL is cuda.simt.dense, which does not run on this device"),
            std::string::npos)
      << words;
  EXPECT_EQ(words.find("(forced)"), std::string::npos) << words;
  const auto cuda = plan_in_environment("cpu.dense", "h200"), plain = plan_in_environment("", "h200");
  ASSERT_EQ(cuda.ok(), plain.ok());
  if (!cuda.ok()) return;  // a build without CUDA has no kernel for it
  EXPECT_EQ(cuda.value().entry, plain.value().entry);
  EXPECT_NE(explain(cuda.value()).find("TCONV_FORCE_KERNEL is cpu.dense"), std::string::npos);
}

TEST(Planner, TheEnvironmentIsReadOnce) {
  const std::string first = kernel_of_environment();
  ASSERT_EQ(setenv("TCONV_FORCE_KERNEL", "no.such.kernel", 1), 0);
  EXPECT_EQ(kernel_of_environment(), first);
  EXPECT_TRUE(make_plan(of("ci8 co8 l5 k3"), cpu::host_device(), {}).ok());
  unsetenv("TCONV_FORCE_KERNEL");
}

TEST(Planner, AnUnknownForcedNameIsRefusedWithTheKnownOnes) {
  const auto plan = plan_for(of("ci8 co8 l5 k3"), "no.such.kernel");
  ASSERT_FALSE(plan.ok());
  const std::string message = plan.status().message();
  EXPECT_EQ(message.rfind("force_kernel is 'no.such.kernel': no such kernel; the kernels are ", 0), 0u)
      << message;
  for (const KernelEntry* entry : registry()) EXPECT_NE(message.find(entry->name), std::string::npos);
}

TEST(Planner, AForcedKernelThatRefusesSaysWhy) {
  int refusing = 0;
  for (const KernelEntry* entry : registry()) {
    for (const char* line : {"gw n1 ci64 co64 l20 k3 s1 p0 f64", "n1 ci64 co64 l20 k3 s1 p0 f64",
                             "n1 ci1 co1 l20 k3 s1 p0 f32"}) {
      const auto plan = plan_for(of(line), entry->name);
      if (plan.ok()) continue;
      ++refusing;
      EXPECT_EQ(plan.status().code(), Code::unsupported) << entry->name;
      const std::string start = std::string("kernel ") + entry->name + " is forced, but ";
      EXPECT_EQ(plan.status().message().rfind(start, 0), 0u) << plan.status().message();
      EXPECT_GT(plan.status().message().size(), start.size() + 5);
    }
  }
  EXPECT_GT(refusing, 0) << "no kernel refuses a gradient in float64?";
}

TEST(Planner, SupportingListsWhatCanBeForced) {
  for (uint64_t i = 0; i < 300; ++i) {
    judge::Rng rng(42, i);
    const core::Problem p = judge::draw_valid(rng);
    const auto found = supporting(p, cpu::host_device(), {});
    for (const KernelEntry* entry : registry()) {
      const bool listed = std::find(found.begin(), found.end(), entry) != found.end();
      EXPECT_EQ(plan_for(p, entry->name).ok(), listed) << text(p) << " " << entry->name;
    }
  }
}

TEST(Planner, ExplainNamesKernelConfigurationAndRefusals) {
  const Plan plan = std::move(plan_for(of("gw n1 ci16 co16 l50 k4 s2 p1 f32")).value());
  const std::string words = explain(plan);
  EXPECT_NE(words.find("problem  weight n1 ci16"), std::string::npos);
  EXPECT_NE(words.find(plan.entry->name), std::string::npos);
  EXPECT_NE(words.find(plan.kernel->describe()), std::string::npos);
  for (const Refused& r : plan.refused) {
    EXPECT_NE(words.find(r.entry->name + std::string(": ") + r.reason), std::string::npos);
  }
}

// The promise is microseconds; a sanitizer's build and a busy machine get some room.
TEST(Planner, ANewLengthIsPlannedInMicroseconds) {
  for (const char* shape : {"n1 ci512 co256 k16 s8 p4 bias f32", "n1 ci1026 co1 k1024 s256 p0 f32",
                            "n1 ci64 co64 k4 s2 p1 g64 f16", "n2 ci32 co64 k3 s2 p1 d2 bf16"}) {
    core::Problem p = core::parse(shape + std::string(" l1000")).value();
    double best = 1;
    for (int i = 0; i < 50; ++i) {
      p.l = 1000 + i;
      const auto start = std::chrono::steady_clock::now();
      const auto plan = plan_for(p);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(plan.ok());
      best = std::min(best, taken.count());
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    EXPECT_LT(best, 20e-3) << shape;
#else
    EXPECT_LT(best, 200e-6) << shape;
#endif
  }
}

TEST(Planner, WorkspaceStaysWithinItsBound) {
  for (uint64_t i = 0; i < 5'000; ++i) {
    judge::Rng rng(43, i);
    core::Problem p = judge::draw_valid(rng);
    if (rng.chance(30)) p.l = rng.log_between(1, 1'000'000), p.padding = 0, p.x_contiguous = true;
    const int threads = static_cast<int>(rng.pick({1, 2, 8}));
    const auto made = plan_for(p, "", threads);
    ASSERT_TRUE(made.ok()) << text(p);
    const Plan& plan = made.value();
    const std::size_t scratch = std::size_t{8} * (1 << 20) * static_cast<std::size_t>(threads);
    EXPECT_LE(plan.workspace_bytes(true), scratch) << text(p) << " " << plan.entry->name;
    EXPECT_LE(plan.workspace_bytes(false), plan.packed_bytes() + 256 + scratch) << text(p);
  }
}

TEST(Planner, PackKeysDependOnNeitherBatchNorLengthNorThreads) {
  for (uint64_t i = 0; i < 1'000; ++i) {
    judge::Rng rng(44, i);
    core::Problem p = judge::draw_valid(rng, {.gradients = false});
    const auto a = plan_for(p, "", 1);
    ASSERT_TRUE(a.ok());
    const std::string kernel = a.value().entry->name;
    p.n += 3;
    p.l += 17;
    p.x_contiguous = true;
    const auto b = plan_for(p, kernel, 8);
    if (!b.ok()) continue;  // the kernel may refuse the other length
    EXPECT_EQ(a.value().pack_key(), b.value().pack_key()) << text(p);
    EXPECT_EQ(a.value().packed_bytes(), b.value().packed_bytes()) << text(p);
    EXPECT_GT(a.value().packed_bytes(), 0u) << text(p);
  }
}

TEST(Devices, NamedOnesAreKnownAndOthersRefused) {
  for (const core::DeviceInfo& device : core::named_devices()) {
    const auto found = core::named_device(device.name);
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(found.value().present);
    EXPECT_GT(found.value().copy_gbps, 0);
    EXPECT_GT(found.value().fp32_gflops, 0);
  }
  const auto unknown = core::named_device("abacus");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().message().rfind("device 'abacus' is not known; the known ones are ", 0), 0u);
}

}  // namespace
}  // namespace tconv::plan
