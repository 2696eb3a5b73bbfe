// Who makes which output of cuda.sm90.dense: each output has one register, and no register makes two.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

TEST(Sm90Maker, NoRegisterMakesTwoOutputs) {
  int plans = 0, by_copies = 0, in_windows = 0;
  for (const char* text_of : {"n2 ci32 co40 l520 k3 s1 p1 bf16", "n2 ci32 co70 l521 k5 s1 p2 d3 f32 tf32",
                              "n2 ci40 co36 l602 k8 s3 p5 f16", "n1 ci32 co64 l700 k3 s2 p1 d2 f32 tf32",
                              "n2 ci64 co48 l130 k16 s8 p4 g2 f32", "n1 ci16 co20 l400 k2 s5 p2 d6 f16",
                              "n3 ci48 co33 l61 k4 s2 p1 bf16"}) {
    const core::Problem p = core::parse(text_of).value();
    const Arithmetic mode = arithmetic_of(p);
    for (int tile = 0; tile < static_cast<int>(sm90_tiles().size()); ++tile) {
      for (int variant = 0; variant < 4; ++variant) {
        Sm90Config c;
        c.tile = tile;
        c.resident = tile % 2 == 0;
        c.folded = variant % 2 == 1;
        c.scaled = variant / 2 == 1;
        if (!sm90_has(mode, c.scaled, tile) || (c.folded && p.n == 1)) continue;
        const Sm90Plan plan = sm90_plan_of(p, device("h200"), c);
        if (plan.blocks == 0) continue;
        ++plans;
        by_copies += sm90_tile(c).tma;
        in_windows += sm90_tile(c).tma && plan.params.writer.windows;
        std::vector<Sm90Maker> makers;
        for (int64_t i = 0; i < p.y_elements(); ++i) {
          const Sm90Maker m = sm90_maker(plan, i);
          if (!m.has_taps) continue;
          makers.push_back(m);
          ASSERT_LT(m.block, plan.blocks) << text(plan.config) << " output " << i;
          ASSERT_GE(m.tile, 0) << text(plan.config);
          ASSERT_TRUE(m.warp >= 0 && m.warp < 4 && m.lane >= 0 && m.lane < 32)
              << text(plan.config) << ": " << text(m);
          ASSERT_TRUE(m.index >= 0 && m.index < 128 && m.product >= 0 && m.product < 2) << text(m);
        }
        std::sort(makers.begin(), makers.end());
        EXPECT_GT(makers.size(), 0u);
        EXPECT_EQ(std::adjacent_find(makers.begin(), makers.end()), makers.end())
            << text_of << ": " << text(plan.config);
      }
    }
  }
  EXPECT_GT(plans, 40);
  EXPECT_GT(by_copies, 8);
  EXPECT_GT(in_windows, 2);
}

// Of 4 neighbouring positions and of rows (cout) 0 and 1: the accumulator of wgmma, by hand.
TEST(Sm90Maker, NamesLaneAndRegister) {
  const core::Problem p = core::parse("n1 ci32 co64 l512 k1 s1 p0 bf16").value();
  Sm90Config c;
  c.tile = 6;
  const Sm90Plan plan = sm90_plan_of(p, device("h200"), c);
  ASSERT_GT(plan.blocks, 0);
  auto expect = [&](int64_t co, int64_t o, int64_t tile, int warp, int lane, int product, int index) {
    const Sm90Maker m = sm90_maker(plan, co * p.lout() + o);
    EXPECT_TRUE(m.tile == tile && m.warp == warp && m.lane == lane && m.product == product &&
                m.index == index)
        << co << "," << o << ": " << text(m);
  };
  expect(0, 0, 0, 0, 0, 0, 0);
  expect(1, 0, 0, 0, 0, 0, 1);
  expect(0, 1, 0, 0, 0, 0, 2);
  expect(0, 2, 0, 0, 0, 1, 0);
  expect(2, 3, 0, 0, 1, 1, 2);
  expect(9, 4, 0, 0, 4, 0, 5);
  expect(0, 32, 0, 1, 0, 0, 0);
  expect(0, 128, 1, 0, 0, 0, 0);
}

}  // namespace
}  // namespace tconv::cuda
