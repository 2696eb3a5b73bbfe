// The gradients of weight and bias from one plan on a GPU: right, and of the bits that two calls have.
#include "support/grad_bias.hpp"

#include "gpu/device.hpp"
#include "judge/judge.hpp"

namespace tconv::gpu_test {
namespace {

class GradBias : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto made = judge::cuda_target(0);
    ASSERT_TRUE(made.ok()) << made.status().message();
    target_ = std::move(made.value());
  }
  std::unique_ptr<judge::Target> target_;
};

TEST_F(GradBias, OnePlanHasTheBitsOfTwo) {
  expect_bits_of_two_plans(200, *target_, 62);
}

TEST_F(GradBias, RightOnEveryKernel) {
  for (const char* line :
       {"weight n4 ci32 co48 l500 k4 s2 p1 f32 tf32", "weight n2 ci64 co64 l1000 k3 s1 p1 bf16",
        "weight n3 ci1 co70 l900 k3 s3 op2 f32", "weight n2 ci8 co8 g8 l300 k5 s2 p2 d3 f64",
        "weight n0 ci4 co3 l5 k2 f32", "weight n2 ci4 co6 l2 k1 p1 f16"}) {
    for (const char* bias : {" bias", " xbias"}) {
      const core::Problem p = core::parse(line + std::string(bias)).value();
      for (const judge::Verdict& v : judge::judge(p, "all", *target_, {.seed = 7, .fills = {}})) {
        EXPECT_TRUE(v.right) << text(p) << ": " << v.kernel << ": " << v.failure;
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
