// What becomes of a finished sum (epilogue/epilogue.hpp), on hosts; and a kernel that lacks what is asked.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "cpu/threads/pool.hpp"
#include "epilogue/rounding.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"

namespace tconv::epilogue {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

uint32_t bits(float v) {
  return std::bit_cast<uint32_t>(v);
}

using F32 = HostRounding<float>;

TEST(Epilogue, AddsTheBiasAndRoundsOnce) {
  const Epilogue<F32> finish{0.5f};
  EXPECT_EQ(finish(2.0f), 2.5f);
  EXPECT_EQ(finish.begun(2.0f), 2.0f);
  // 1 + 2^-11 lies halfway between two numbers of f16: to even. Rounded before the bias it would be 1 as
  // well, and 1.5 with the bias; rounded twice, so would 1 + 2^-11 + 2^-20.
  const Epilogue<HostRounding<F16>> half{0x1p-20f};
  EXPECT_EQ(half(1.0f + 0x1p-11f).bits, 0x3c01);
  EXPECT_EQ(Epilogue<HostRounding<F16>>{}(1.0f + 0x1p-11f).bits, 0x3c00);
}

TEST(Epilogue, AnOutputWithoutProductsIsItsBias) {
  const Epilogue<F32> finish{-0.0f};
  EXPECT_EQ(bits(finish.alone()), 0x80000000u);
  EXPECT_EQ(bits(finish(0.0f)), 0u);
}

TEST(Epilogue, EveryNanIsTheCanonicalOne) {
  const float odd = std::bit_cast<float>(0xffc12345u);
  EXPECT_EQ(bits(Epilogue<F32>{odd}.alone()), core::kNanF32);
  EXPECT_EQ(bits(Epilogue<F32>{1}(odd)), core::kNanF32);
  EXPECT_EQ(bits(Epilogue<F32>{-kInf}(kInf)), core::kNanF32);
  EXPECT_EQ(Epilogue<HostRounding<BF16>>{0}(odd).bits, core::kNanBF16);
}

TEST(Epilogue, AScaleAndTheBiasRoundOnce) {
  // The product, 1 + 2^-11 + 2^-24, takes a bit more than a float has.
  const float sum = 1.0f + 0x1p-12f, scale = 1.0f + 0x1p-12f;
  const Epilogue<F32, Scaled<float>> finish{-1.0f, {scale}};
  EXPECT_EQ(finish(sum), 0x1p-11f + 0x1p-24f);
  EXPECT_NE(finish(sum), sum * scale - 1.0f);
}

struct Relu {
  float operator()(float v) const { return v < 0 ? 0 : v; }
};

TEST(Epilogue, TheActivationComesAfterTheResidual) {
  const Epilogue<F32, Unscaled, Relu> finish{1.0f};
  EXPECT_EQ(finish(-3.0f), 0.0f);
  EXPECT_EQ(finish(-3.0f, 4.0f), 2.0f);
  EXPECT_EQ(finish(3.0f, -10.0f), 0.0f);
  EXPECT_EQ((Epilogue<F32, Unscaled, Relu>{-1.0f}.alone()), 0.0f);
  EXPECT_EQ(finish.begun(-2.0f), 0.0f);
}

TEST(Epilogue, EmptySlotsTakeNoRoom) {
  EXPECT_EQ(sizeof(Epilogue<F32>), sizeof(float));
}

TEST(Features, TextAndDifference) {
  const Features both{Feature::activation, Feature::residual};
  EXPECT_EQ(both.text(), "residual, activation");
  EXPECT_EQ(both.without({Feature::residual}).text(), "activation");
  EXPECT_TRUE(both.without(both).empty());
}

core::Result<plan::Plan> plan_with(const Features& features, const std::string& force) {
  plan::PlanOptions options;
  options.force_kernel = force;
  options.features = features;
  return plan::make_plan(core::parse("n1 ci16 co16 l50 k4 s2 p1 f32").value(), cpu::host_device(), options,
                         "");
}

TEST(Features, WhatNoKernelHasIsRefusedInWords) {
  for (const Feature feature : kFeatures) {
    bool known = false;
    for (const plan::KernelEntry* entry : plan::registry()) {
      known = known || (entry->device == core::DeviceKind::cpu && entry->features.has(feature));
    }
    const auto plan = plan_with({feature}, "");
    EXPECT_EQ(plan.ok(), known) << name_of(feature);
    if (!plan.ok()) {
      EXPECT_NE(plan.status().message().find(std::string("the plan needs ") + name_of(feature)),
                std::string::npos)
          << plan.status().message();
    }
  }
  EXPECT_TRUE(plan_with({}, "").ok());
}

}  // namespace
}  // namespace tconv::epilogue
