// The choice of cuda.sm80.dense on devices that need not be here: what it refuses, that what it chooses fits,
// and what must not depend on what.
#include <gtest/gtest.h>

#include <tuple>

#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/candidates.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

std::string refusal(const std::string& text, const char* name, bool forced = false) {
  return cuda_test::refusal(kSm80Dense, text, name, forced);
}

TEST(Sm80Plan, RefusesInWords) {
  EXPECT_EQ(refusal("n16 ci64 co64 l20000 k3 s2 p1 d3 f32 tf32", "a100"), "");
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 f32", "a100").find("expected to be faster"),
            std::string::npos);
  EXPECT_EQ(refusal("n1 ci64 co64 l100 k4 s2 p1 f32", "a100", true), "");
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 f32", "t4").find("capability"), std::string::npos);
  // Taps are channels of a strided product, but those that meet no position make no terms.
  EXPECT_NE(refusal("strided n1 ci18 co2 l1 k15 s1 p7 f32", "a100", true).find("fewer than 16 terms"),
            std::string::npos);
  EXPECT_EQ(refusal("strided n1 ci18 co2 l20 k15 s1 p7 f32", "a100", true), "");
  EXPECT_NE(refusal("gx n1 ci64 co64 l100 k4 s2 p1 f32", "h200").find("cuda.sm80.window is expected"),
            std::string::npos);
  EXPECT_EQ(refusal("gx n1 ci64 co64 l100 k4 s2 p1 f32", "h200", true), "");
  EXPECT_NE(refusal("gx n1 ci64 co64 l9 k4 s2 p1 d100000 f32", "h200").find("far apart"), std::string::npos);
  EXPECT_NE(refusal("gw n1 ci64 co64 l100 k4 s1 p1 f32", "h200").find("weight"), std::string::npos);
  EXPECT_NE(refusal("gx n1 ci64 co64 l2 k1 s1 p1 f32", "h200").find("no outputs"), std::string::npos);
  EXPECT_EQ(refusal("gx n1 ci64 co64 l100 k5 s1 p7 d2 f32", "a100"), "");
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 xs6400,1,64 f32", "h200").find("positions"),
            std::string::npos);
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f16", "h200").find("expected"), std::string::npos);
  EXPECT_EQ(refusal("n1 ci8 co64 l100 k4 s2 p1 f16", "h200", true), "");
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f32", "h200", true).find("16 channels"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s4000 p1 f32", "h200", true).find("stride"), std::string::npos);
}

// Everything that the kernel relies on without a check of its own.
void expect_sound(const Sm80Plan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + " on " + d.name + ": " + describe(plan, p);
  const Sm80Params& k = plan.params;
  const Sm80Tile& tile = kSm80Tiles[plan.config.tile];
  ASSERT_GT(plan.blocks, 0) << what;
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.walkers} * k.row_blocks * k.groups * k.splits) << what;
  EXPECT_LE(k.walkers, k.column_tiles) << what;
  EXPECT_LE(k.splits, k.slabs) << what;
  EXPECT_EQ(k.x_pitch % 8, 4) << what;
  EXPECT_GE(k.x_pitch, k.width) << what;
  EXPECT_LE(k.halo, 1 << k.halo_shift) << what;
  EXPECT_LE(kSm80Blocks << k.halo_shift, std::max(tile.threads(), kSm80Blocks)) << what;  // one thread a unit
  EXPECT_TRUE(k.tap_group == 1 || k.taps % k.tap_group != 1) << what;
  EXPECT_EQ(k.partial, k.folded || k.splits > 1) << what;
  EXPECT_EQ(k.partial, plan.partial_bytes > 0) << what;
  EXPECT_EQ(plan.packed_bytes % 16, 0) << what;
  // Outputs 0 and lout-1 have their columns.
  EXPECT_LE(k.first_u * p.stride, p.padding) << what;
  if (!k.folded) {
    EXPECT_GE((k.first_u + k.sample_columns) * p.stride, p.lout() + p.padding) << what;
  }
}

TEST(Sm80Plan, SoundOverRandomProblems) {
  judge::Rng rng(7);
  int taken = 0, strided = 0;
  for (int i = 0; i < 4000; ++i) {
    const core::Problem asked = cuda_test::draw_transposed(rng), p = transposed_form(asked).product;
    plan::PlanOptions forced;
    forced.force_kernel = kSm80Dense.name;
    if (p.output_elements() == 0) continue;
    for (const char* name : {"a100", "h200", "rtx4090"}) {
      const core::DeviceInfo d = device(name);
      if (!kSm80Dense.supports(asked, d, forced).ok) continue;
      expect_sound(sm80_plan(p, d, false), p, d);
      ++(asked.operation == core::Operation::transposed ? taken : strided);
    }
  }
  EXPECT_GT(taken, 1500);
  EXPECT_GT(strided, 1500);
}

// A search shares what its candidates have alike: the plan that it keeps is that of its configuration alone.
TEST(Sm80Plan, SearchKeepsThePlanOfItsConfiguration) {
  judge::Rng rng(23);
  plan::PlanOptions forced;
  forced.force_kernel = kSm80Dense.name;
  const core::DeviceInfo d = device("a100");
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    const core::Problem p = judge::draw_valid(rng, {});
    if (!kSm80Dense.supports(p, d, forced).ok || p.operation != core::Operation::transposed) continue;
    const Sm80Plan found = sm80_plan(p, d, false), alone = sm80_plan_of(p, d, found.config);
    const std::string what = text(p) + ": " + describe(found, p);
    const Sm80Params &a = found.params, &b = alone.params;
    EXPECT_EQ(describe(alone, p), describe(found, p)) << what;
    EXPECT_EQ(alone.cost.total, found.cost.total) << what;
    EXPECT_GE(found.cost.total, sm80_least_ms(found, p, d)) << what;
    for (const int splits : {1, 2, 4, 8}) {  // what the search may pass over is not better
      Sm80Config other = found.config;
      other.splits = splits, other.walkers = 0;
      const Sm80Plan split = sm80_plan_of(p, d, other);
      if (splits > found.params.slabs || !split.fits() || split.partial_bytes > kMaxPartialBytes) continue;
      EXPECT_GE(split.cost.total, found.cost.total) << what;
    }
    EXPECT_EQ(alone.shared_bytes, found.shared_bytes) << what;
    EXPECT_EQ(alone.blocks, found.blocks) << what;
    EXPECT_EQ(alone.packed_bytes, found.packed_bytes) << what;
    EXPECT_EQ(alone.partial_bytes, found.partial_bytes) << what;
    EXPECT_EQ(std::tie(a.x_pitch, a.width, a.shared_weights, a.shared_stage, a.shared_bias, a.shared_table),
              std::tie(b.x_pitch, b.width, b.shared_weights, b.shared_stage, b.shared_bias, b.shared_table))
        << what;
    EXPECT_EQ(std::tie(a.pass_columns, a.stage_pitch, a.row_shift, a.resident, a.walkers, a.folded, a.splits),
              std::tie(b.pass_columns, b.stage_pitch, b.row_shift, b.resident, b.walkers, b.folded, b.splits))
        << what;
    ++taken;
  }
  EXPECT_GT(taken, 300);
}

TEST(Sm80Plan, BatchInvariantSplitDoesNotDependOnN) {
  core::Problem p = core::parse("n1 ci512 co64 l40 k16 s8 p4 f32 tf32").value();
  const Sm80Plan one = sm80_plan(p, device("h200"), true);
  EXPECT_GT(one.config.splits, 1) << describe(one, p);
  for (int64_t n : {2, 7, 64, 1000}) {
    p.n = n;
    EXPECT_EQ(sm80_plan(p, device("h200"), true).config.splits, one.config.splits);
  }
}

TEST(Sm80Plan, LargeProblemsTakeTheLargeTile) {
  const core::Problem p = core::parse("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32").value();
  const Sm80Plan plan = sm80_plan(p, device("h200"), false);
  EXPECT_STREQ(kSm80Tiles[plan.config.tile].name, "128x128") << describe(plan, p);
  EXPECT_EQ(plan.config.splits, 1);
}

TEST(Sm80Plan, TheKernelTellsItsPrediction) {
  const core::Problem p = core::parse("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32").value();
  const core::DeviceInfo d = device("h200");
  const auto kernel = kSm80Dense.make(p, d, {});
  EXPECT_EQ(kernel->predicted_ms(), sm80_plan(p, d, false).cost.total);
  const core::Work work = work_of(p);
  EXPECT_GT(kernel->predicted_ms(), 1e3 * work.flops / (d.tf32_gflops * 1e9));
}

}  // namespace
}  // namespace tconv::cuda
