// What a plan says it holds against what its making allocates.
#include <gtest/gtest.h>

#include "capi/allocations.hpp"
#include "tconv/tconv.hpp"

namespace {

using tconv::test::t_held;

struct Held {
  std::size_t told = 0, counted = 0;
};

Held held_by(const tconv::Problem& problem, const tconv::PlanOptions& options) {
  tconv_plan* plan = nullptr;
  // The first one of its kind makes what all plans share.
  if (tconv_plan_create(&problem, &options, &plan) != TCONV_OK) return {};
  tconv_plan_destroy(plan);
  const std::size_t before = t_held;
  if (tconv_plan_create(&problem, &options, &plan) != TCONV_OK) return {};
  const Held held{tconv_plan_host_bytes(plan), t_held - before};
  tconv_plan_destroy(plan);
  EXPECT_EQ(t_held, before);
  return held;
}

// Every kernel that takes it, on the CPU and, where the build has CUDA, for a GPU that need not be there.
int check_all_kernels(const char* line) {
  const tconv::Problem problem = tconv::Problem::parse(line);
  int checked = 0;
  for (int32_t i = 0; tconv_kernel_name(i) != nullptr; ++i) {
    for (const char* device : {static_cast<const char*>(nullptr), "h200"}) {
      tconv::PlanOptions options;
      options.device = device == nullptr ? TCONV_CPU : TCONV_CUDA;
      options.device_name = device;
      options.force_kernel = tconv_kernel_name(i);
      const Held held = held_by(problem, options);
      if (held.counted == 0) continue;
      ++checked;
      EXPECT_GE(held.told, held.counted) << line << ", " << options.force_kernel;
      EXPECT_LE(held.told, 2 * held.counted + 8192) << line << ", " << options.force_kernel;
    }
  }
  return checked;
}

TEST(PlanBytes, AllocationsOfTheLibraryAreCounted) {
  const tconv::Problem problem = tconv::Problem::parse("n1 ci4 co4 l50 k3 f32");
  EXPECT_GT(held_by(problem, {}).counted, 500u);
}

TEST(PlanBytes, PlansTellWhatTheyHold) {
  for (const char* line :
       {"n1 ci4 co4 l50 k3 f32", "n2 ci512 co256 l100 k16 s8 p4 bias f32", "n1 ci96 co96 l400 k4 s2 g96 bf16",
        "n1 ci4 co4 l50 k5000 s4096 g4 f32", "n1 ci8 co1 l700 k512 s256 f32",
        "n3 ci1 co1 l3461 k25 s4 d3 f64", "n2 ci1 co2 l20 k70000 s60000 f32", "n1 ci1 co1 l4000 k900 f32",
        "n1 ci1 co1 l2 k1000003 s1000003 f32 tf32", "gx n2 ci16 co24 l90 k16 s8 p4 f32",
        "gx n1 ci4 co4 l4000 k900 s3 g4 f32", "gw n2 ci16 co24 l90 k16 s8 p4 bf16",
        "gw n1 ci4 co4 l4000 k900 s3 g4 f32", "gb n2 ci16 co24 l90 k16 s8 p4 f32"}) {
    EXPECT_GT(check_all_kernels(line), 1) << line;
  }
}

TEST(PlanBytes, NullHoldsNothing) {
  EXPECT_EQ(tconv_plan_host_bytes(nullptr), 0u);
}

}  // namespace
