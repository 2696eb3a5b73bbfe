// Which way of cuda.simt.depthwise a problem takes, and what its plan says.
#include "cuda/simt/depthwise_plan.hpp"

#include <gtest/gtest.h>

#include "cuda/refusal.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using cuda_test::device;
using cuda_test::refusal;
using simt::DepthwiseWay;

DepthwiseWay way_of(const char* text) {
  return simt::plan_depthwise(core::parse(text).value(), device("h100")).way;
}

TEST(DepthwisePlan, ShortRowsRunFlatInAnyBatch) {
  for (const char* text :
       {"n32 ci608 co608 l17 k2 s2 g608 bias bf16", "n1 ci608 co608 l17 k2 s2 g608 bias bf16",
        "n128 ci1520 co1520 l33 k5 s5 g1520 f32", "n4 ci512 co512 l4 k31 p15 g512 f16",
        "n2 ci16 co8 l9 k3 s1 p1 g2 f32"}) {
    EXPECT_EQ(way_of(text), DepthwiseWay::flat) << text;
  }
}

TEST(DepthwisePlan, LongRowsAndLongSumsDoNot) {
  EXPECT_EQ(way_of("n1 ci256 co256 l8000 k4 s2 p1 g256 f32"), DepthwiseWay::words);
  EXPECT_EQ(way_of("n2 ci24 co24 l701 k4 s2 p1 g24 xs33648,1,24 f32"), DepthwiseWay::elements);
  EXPECT_EQ(way_of("n8 ci64 co64 l200 k31 p15 g64 f16"), DepthwiseWay::elements);
  EXPECT_EQ(way_of("n8 ci512 co64 l100 k9 p4 g64 f16"), DepthwiseWay::elements);
}

// Strides that windows lack run flat however long the rows are, if the kernel is forced.
TEST(DepthwisePlan, EveryStride) {
  for (const int stride : {1, 2, 3, 4, 5, 6, 7, 8, 10, 100}) {
    const std::string behind = " k9 s" + std::to_string(stride) + " p2 g16 f32";
    const std::string brief = "n2 ci16 co16 l3" + behind, lengthy = "n2 ci16 co16 l30000" + behind;
    EXPECT_EQ(refusal(kSimtDepthwise, brief, "h100", true), "") << brief;
    EXPECT_EQ(refusal(kSimtDepthwise, lengthy, "h100", true), "") << lengthy;
    const bool windows = stride == 1 || stride == 2 || stride == 4 || stride == 8;
    EXPECT_EQ(way_of(lengthy.c_str()), windows ? DepthwiseWay::words : DepthwiseWay::flat) << lengthy;
  }
}

// Flat, indices have 32 bits: beyond, windows take the strides that they have.
TEST(DepthwisePlan, BeyondThirtyTwoBits) {
  EXPECT_EQ(way_of("n70000000 ci2 co2 l17 k2 s2 g2 bf16"), DepthwiseWay::elements);
  EXPECT_EQ(refusal(kSimtDepthwise, "n70000000 ci2 co2 l17 k2 s2 g2 bf16", "h100", true), "");
  EXPECT_EQ(refusal(kSimtDepthwise, "n70000000 ci2 co2 l17 k3 s3 g2 bf16", "h100", true),
            "stride 3: this kernel is for 1, 2, 4 and 8 where y has 2^31 elements or more");
  EXPECT_EQ(refusal(kSimtDepthwise, "n2 ci2 co2 l17 k3 s3 g2 xs3000000000,17,1 bf16", "h100", true),
            "stride 3: this kernel is for 1, 2, 4 and 8 where x spans 2^31 elements or more");
}

TEST(DepthwisePlan, SaysSo) {
  plan::PlanOptions options;
  options.force_kernel = kSimtDepthwise.name;
  const auto plan = plan::make_plan(core::parse("n32 ci608 co608 l17 k2 s2 g608 bias bf16").value(),
                                    device("h100"), options, "");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const std::string words = plan::explain(plan.value());
  EXPECT_NE(words.find("flat, a thread a vector of 8 outputs across the ends of rows"), std::string::npos)
      << words;
  EXPECT_NE(words.find("up to 1 product an output"), std::string::npos) << words;
}

// By the planner, before the kernels that give a row a block, or tiles.
TEST(DepthwisePlan, IsChosenForShortRows) {
  for (const char* text :
       {"n32 ci608 co608 l17 k2 s2 g608 bias bf16", "n32 ci608 co608 l17 k2 s2 g608 f32",
        "n128 ci1520 co1520 l33 k5 s5 g1520 f32", "n128 ci1520 co1520 l33 k5 s5 g1520 f16"}) {
    EXPECT_EQ(refusal(kSimtDepthwise, text, "h100", false), "") << text;
  }
}

}  // namespace
}  // namespace tconv::cuda
