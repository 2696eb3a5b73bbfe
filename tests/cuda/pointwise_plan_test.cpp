// How the pointwise kernels cut a problem: that tiles and splits cover it, and that its copies lie on the
// boundaries that they need, in memory and in a stage.
#include "cuda/sm80/pointwise_plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/polyphase.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

Problem draw_pointwise(judge::Rng& rng) {
  while (true) {
    Problem p = cuda_test::draw_transposed(rng);
    p.k = 1, p.stride = 1, p.padding = 0, p.output_padding = 0;
    p.x_contiguous = p.y_contiguous = true;
    p.x_stride = p.y_stride = {0, 0, 0};
    if (rng.chance(50)) p.l = 8 * rng.between(1, 100);
    if (core::validate(p).ok()) return p;
  }
}

void check_copies(const PointwisePlan& plan, const Problem& p, const std::string& what) {
  const PointwiseParams& k = plan.params;
  const PointwiseTile& tile = kPointwiseTiles[plan.config.tile];
  const auto element = static_cast<int>(size_of(p.dtype));
  const int slab = kPointwiseSlabBytes / element;
  if (int64_t{k.groups} * k.depth > 1) {
    EXPECT_EQ(k.x_step[1] * element % k.x_copy, 0) << what;
  }
  if (p.n > 1) {
    EXPECT_EQ(k.x_step[0] * element % k.x_copy, 0) << what;
  }
  EXPECT_EQ(k.weight_step * element % k.weight_copy, 0) << what;
  EXPECT_EQ(int64_t{k.rows} * k.depth * element % k.weight_copy, 0) << what;
  // Places in a stage, of the widest pieces.
  EXPECT_EQ(pointwise_pitch(tile.columns, element) % 16, 0) << what;
  EXPECT_EQ(pointwise_weight_bytes(tile, element, plan.turned) % 16, 0) << what;
  EXPECT_EQ(pointwise_stage_bytes(tile, element, plan.turned) % 16, 0) << what;
  EXPECT_GE(plan.shared_bytes, pointwise_sum_bytes(tile)) << what;
  const int slabs = (k.slabs + k.splits - 1) / k.splits;
  EXPECT_GE(plan.shared_bytes,
            int64_t{std::min(slabs, k.stages)} * pointwise_stage_bytes(tile, element, plan.turned))
      << what;
  EXPECT_GE(int64_t{k.slabs} * slab, k.depth) << what;
  EXPECT_LT(int64_t{k.slabs - 1} * slab, k.depth) << what;
}

// Each output's block, as where() names it, is one of the plan's, and neighbours in a tile share it.
void check_blocks(const PointwisePlan& plan, const Problem& p, const std::string& what) {
  std::set<std::string> places;
  const int64_t step = std::max<int64_t>(1, p.output_elements() / 500);
  for (int64_t e = 0; e < p.output_elements(); e += step) {
    const std::string text = where(plan, p, e);
    const std::string place = text.substr(text.find("; "));
    EXPECT_TRUE(places.insert(place).second) << what << ": " << text;
    EXPECT_LT(std::stoll(place.substr(place.find("block ") + 6)), plan.blocks) << what << ": " << text;
    EXPECT_LT(std::stoll(place.substr(place.find("row ") + 4)), plan.tile_rows) << what << ": " << text;
    EXPECT_LT(std::stoll(place.substr(place.find("column ") + 7)), plan.tile_columns) << what << ": " << text;
  }
}

TEST(PointwisePlan, SoundOverRandomProblems) {
  judge::Rng rng(15);
  int taken = 0, vectors = 0, elements = 0, split = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 400; ++i) {
    const Problem p = draw_pointwise(rng);
    if (!cuda_test::takes(kSm80Pointwise, p, d)) continue;
    for (int tile = 0; tile < kPointwiseTileCount; ++tile) {
      for (const int splits : {1, 2, 8}) {
        const PointwisePlan plan = pointwise_plan_of(p, d, {tile, splits});
        if (plan.blocks == 0) continue;
        ++taken;
        const std::string what = text(p) + ": " + describe(plan, p);
        EXPECT_LE(plan.shared_bytes, d.shared_per_block) << what;
        EXPECT_GT(plan.ms, 0) << what;
        split += splits > 1;
        vectors += plan.params.x_copy == 16;
        elements += plan.params.x_copy < 4;
        check_copies(plan, p, what);
        check_blocks(plan, p, what);
      }
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(split, 100);
  EXPECT_GT(vectors, 100);
  EXPECT_GT(elements, 100);
}

void check_stages(const PointwisePlan& plan, const Problem& p, const std::string& what) {
  const PointwiseParams& k = plan.params;
  const Sm90PointwiseTile& tile = kSm90PointwiseTiles[plan.config.tile];
  const int64_t stage = sm90_pointwise_stage_bytes(tile);
  const int64_t slabs = (k.slabs + k.splits - 1) / k.splits;
  EXPECT_EQ(stage % 1024, 0) << what;  // of the swizzle
  EXPECT_GE(k.stages, std::min<int64_t>(2, slabs)) << what;
  EXPECT_LE(k.stages, kSm90PointwiseMostStages) << what;
  EXPECT_GE(plan.shared_bytes, kSm90PointwiseHead + k.stages * stage) << what;
  EXPECT_GE(plan.shared_bytes, sm90_pointwise_sum_bytes(tile)) << what;
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  EXPECT_EQ(k.weight_step * element % 16, 0) << what;
  EXPECT_TRUE(k.x_step[1] * element % 16 == 0 || int64_t{k.groups} * k.depth == 1) << what;
  EXPECT_LE(slabs * 4, kSm90PointwiseMostSteps) << what;
}

TEST(PointwisePlan, WgmmaSoundOverRandomProblems) {
  judge::Rng rng(16);
  int taken = 0, split = 0, unaligned = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 1500; ++i) {
    const Problem p = draw_pointwise(rng);
    if (!cuda_test::takes(kSm90Pointwise, p, d)) {
      unaligned += sm90_pointwise_refusal(p, d).find("multiples of 16 bytes") != std::string::npos;
      continue;
    }
    for (int tile = 0; tile < kSm90PointwiseTileCount; ++tile) {
      for (const int splits : {1, 2, 8}) {
        const PointwisePlan plan = sm90_pointwise_plan_of(p, d, {tile, splits});
        if (plan.blocks == 0) continue;
        ++taken;
        split += splits > 1;
        const std::string what = text(p) + ": " + describe(plan, p);
        EXPECT_LE(plan.shared_bytes, d.shared_per_block) << what;
        EXPECT_GT(plan.ms, 0) << what;
        check_stages(plan, p, what);
        check_blocks(plan, p, what);
      }
    }
  }
  EXPECT_GT(taken, 300);
  EXPECT_GT(split, 20);
  EXPECT_GT(unaligned, 100);
}

TEST(PointwisePlan, SplitsDoNotDependOnAnInvariantBatch) {
  const core::DeviceInfo d = cuda_test::device("h200");
  for (const char* words : {"ci512 co512 l16 k1 s1 p0 f32 tf32", "ci1024 co64 l9 k1 s1 p0 bf16"}) {
    const Problem one = core::parse(std::string("n1 ") + words).value();
    const Problem many = core::parse(std::string("n64 ") + words).value();
    EXPECT_EQ(pointwise_plan(one, d, true).config.splits, pointwise_plan(many, d, true).config.splits)
        << words;
    EXPECT_EQ(sm90_pointwise_plan(one, d, true).config.splits,
              sm90_pointwise_plan(many, d, true).config.splits)
        << words;
  }
}

TEST(PointwisePlan, RefusesWithAReason) {
  const auto of = [](const char* words, const char* device) {
    return cuda_test::refusal(kSm80Pointwise, words, device, true);
  };
  EXPECT_NE(of("n1 ci64 co64 l100 k2 s1 p0 bf16", "h200").find("pointwise"), std::string::npos);
  EXPECT_NE(of("n1 ci64 co64 l100 k1 s1 p1 bf16", "h200").find("pointwise"), std::string::npos);
  EXPECT_NE(of("n1 ci64 co64 l100 k1 s1 p0 f64", "h200").find("f64"), std::string::npos);
  EXPECT_NE(of("n1 ci64 co64 l100 k1 s1 p0 f16", "t4").find("8.0"), std::string::npos);
  EXPECT_NE(of("n1 ci15 co64 l100 k1 s1 p0 f32", "h200").find("fewer than 16 terms"), std::string::npos);
  EXPECT_NE(of("weight n1 ci64 co64 l100 k1 s1 p0 f32", "h200").find("operation"), std::string::npos);
  const auto of90 = [](const char* words, const char* device) {
    return cuda_test::refusal(kSm90Pointwise, words, device, true);
  };
  EXPECT_NE(of90("n1 ci64 co64 l100 k1 s1 p0 bf16", "h200").find("16 bytes"), std::string::npos);
  EXPECT_NE(of90("n1 ci64 co60 l104 k1 s1 p0 bf16", "h200").find("16 bytes"), std::string::npos);
  EXPECT_NE(of90("n1 ci64 co64 l104 k1 s1 p0 f32", "h200").find("ieee"), std::string::npos);
  EXPECT_NE(of90("n1 ci64 co64 l104 k1 s1 p0 bf16", "a100").find("9.0"), std::string::npos);
  EXPECT_EQ(of90("n1 ci64 co64 l104 k1 s1 p0 bf16", "h200"), "");
  EXPECT_EQ(of90("strided n1 ci62 co64 l100 k1 s1 p0 f32 tf32", "h200"), "");
  EXPECT_EQ(of("n1 ci16 co64 l100 k1 s1 p0 f32", "h200"), "");
  EXPECT_EQ(of("strided n1 ci64 co16 l100 k1 s1 p0 f32", "a100"), "");
}

}  // namespace
}  // namespace tconv::cuda
