// Numbers of up to 63 bits on every CUDA kernel that takes such a problem: the device's own index arithmetic.
#include "gpu/device.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"

namespace tconv::gpu_test {
namespace {

class Far : public Gpu {
 protected:
  void expect_right(const core::Problem& problem, uint64_t seed) {
    if (!target_) {
      auto made = judge::cuda_target(0);
      ASSERT_TRUE(made.ok()) << made.status().message();
      target_ = std::move(made.value());
    }
    judge::JudgeOptions options;
    options.seed = seed;
    for (const judge::Verdict& v : judge::judge(problem, "all", *target_, options)) {
      EXPECT_TRUE(v.right) << text(problem) << ": " << v.kernel << ": " << v.failure;
    }
  }

 private:
  std::unique_ptr<judge::Target> target_;
};

TEST_F(Far, Corners) {
  for (const char* line : {
           "n1 ci32 co2 g2 l16 k2 s1 p576460752303423488 d1152921504606846976",
           "n1 ci32 co32 l1 k1 s9223372036854775807 p0",
           "n8 ci1 co16 l1 k2 s2 p2305843009213693952 d4611686018427387905",
           "n8 ci1 co1 l1 k2 s2 p2305843009213693952 d4611686018427387905 bias",
           "n1 ci1 co1 l1 k2 s2 p536870912 d1073741825",
           "n2 ci3 co2 l1 k9 s9223372036854775807 p2 bias",  // a tap's successor lies beyond 63 bits
           "n2 ci3 co2 l2 k2 s4611686018427387900 p4611686018427387800 d4611686018427387901 bias",
           "n1 ci1 co1 l1 k1000000 s1",
           "n2 ci20 co20 l3 k3 s1099511627773 p1099511627773 d7 op20",
           "gx n2 ci3 co2 l2 k2 s3 p4611686018427387900 d9223372036854775800",
           "gw n2 ci3 co2 l2 k2 s4611686018427387900 p4611686018427387800 d4611686018427387901",
       }) {
    for (const char* dtype : {" f32", " f64", " bf16"}) {
      const core::Problem p = core::parse(line + std::string(dtype)).value();
      ASSERT_TRUE(validate(p).ok()) << validate(p).message();
      expect_right(p, 1);
    }
  }
}

TEST_F(Far, RandomProblems) {
  for (uint64_t i = 0; i < 1'500 && !HasFailure(); ++i) {
    judge::Rng rng(27, i);
    expect_right(judge::draw_far(rng), i);
  }
}

}  // namespace
}  // namespace tconv::gpu_test
