// Which CPU kernel takes a layer, where that depends on the length of the vectors or has been measured anew.
#include <gtest/gtest.h>

#include <string>

#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

// Batches of 1 and 50 are asked: the choice may not depend on N, or a sample's bits would.
std::string chosen(const std::string& line, int32_t vector_bytes) {
  core::DeviceInfo device = cpu::host_device();
  device.vector_bytes = vector_bytes;
  const auto of_batch = [&](const std::string& n) {
    return std::string(plan::make_plan(problem_of(n + line), device, {}).value().entry->name);
  };
  const std::string one = of_batch("n1 "), many = of_batch("n50 ");
  return one == many ? one : one + " or " + many;
}

struct Choice {
  const char *line, *at_64, *at_32;
};

void expect_choices(std::initializer_list<Choice> choices) {
  for (const Choice& choice : choices) {
    EXPECT_EQ(chosen(choice.line, 64), choice.at_64) << choice.line;
    EXPECT_EQ(chosen(choice.line, 32), choice.at_32) << choice.line;
  }
}

TEST(CpuChoice, FewProducts) {
  expect_choices({{"ci2 co16 l4671 k6 s3 f32", "cpu.depthwise", "cpu.depthwise"},
                  {"ci1 co384 l3048 k7 f32", "cpu.depthwise", "cpu.depthwise"},
                  {"ci1 co16 l120968 k9 p4 f32", "cpu.narrow", "cpu.depthwise"},
                  {"ci1 co24 l3326 k16 s8 f32", "cpu.depthwise", "cpu.dense"},
                  {"ci1 co1 l255369 k33 s8 p12 f32", "cpu.dense", "cpu.dense"},
                  {"ci1 co1 l3000 k20 s20 f32", "cpu.dense", "cpu.dense"},
                  {"ci2 co1 l27857 k5 s5 f32", "cpu.narrow", "cpu.narrow"}});
}

TEST(CpuChoice, LongStridesAndFewPositions) {
  expect_choices({{"ci1026 co1 l1 k1024 s256 f32", "cpu.short", "cpu.short"},
                  {"ci402 co1 l12 k400 s100 f32", "cpu.short", "cpu.short"},
                  {"ci1026 co1 l100 k1024 s256 f32", "cpu.longk", "cpu.longk"},
                  {"ci258 co1 l464 k256 s240 f32", "cpu.longk", "cpu.dense"}});
}

TEST(CpuChoice, StridedOfFewProductsOrRows) {
  expect_choices(
      {{"strided ci512 co1 l1000 k3 p1 f32", "cpu.strided_depthwise", "cpu.strided_depthwise"},
       {"strided ci512 co1 l1000 k7 p3 f32", "cpu.strided", "cpu.strided_depthwise"},
       {"strided ci1 co32 l8914 k7 p3 f32", "cpu.strided_depthwise", "cpu.strided_depthwise"},
       {"strided ci1 co32 l8914 k7 s2 p3 f32", "cpu.strided", "cpu.strided"},
       {"strided ci2 co512 l6 k40 s16 f32", "cpu.dots", "cpu.dots"},
       {"strided ci2 co512 l7 k40 s16 f32", "cpu.strided", "cpu.strided"},
       {"strided ci512 co512 l4 k63 p31 g512 f32", "cpu.strided_depthwise", "cpu.strided_depthwise"}});
}

}  // namespace
}  // namespace tconv::tests
