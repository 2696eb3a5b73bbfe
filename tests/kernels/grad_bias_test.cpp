// The gradients of weight and bias from one plan: right, and of the bits that two calls have, with every
// kernel.
#include "support/grad_bias.hpp"

#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

TEST(GradBias, OnePlanHasTheBitsOfTwo) {
  expect_bits_of_two_plans(200, *judge::cpu_target(2), 61);
}

TEST(GradBias, RightOnEveryKernel) {
  for (const char* line :
       {"weight n2 ci16 co12 l50 k4 s2 p1", "weight n0 ci4 co3 l5 k2 f32", "weight n2 ci4 co6 l2 k1 p1",
        "weight n3 ci1 co70 l900 k3 s3 op2", "weight n2 ci8 co8 g8 l300 k5 s2 p2 d3"}) {
    for (const char* bias : {" bias", " xbias"}) {
      judge_problem(problem_of(line + std::string(bias)), "all", 7,
                    {judge::Fill::integers, judge::Fill::uniform, judge::Fill::special});
    }
  }
}

}  // namespace
}  // namespace tconv::tests
