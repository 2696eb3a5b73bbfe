// The numbers of cuda.sm80.thin_weight: every element of dw in one place of one block, every product from
// words that hold its positions, in windows that fit.
#include "cuda/sm80/thin_weight_plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "cuda/refusal.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

// As the kernel finds a word's positions: that of a row (channel, tap) at word `at` of a tile that begins at
// m.
void check_word(const ThinWeightSide& s, const ThinWeightParams& k, int64_t tap, int64_t m, int64_t at,
                int64_t words, const std::string& what) {
  const int64_t window = s.dilation * tap + s.stride * at;  // in the channel's words, but for its place
  for (const int64_t place : {0, 7})
    EXPECT_LT(window + (k.buffer_bytes > 0 ? place % 4 : place), s.quads * 4) << what;
  const int64_t first = s.stride * m - s.lead + window;
  EXPECT_EQ(first, s.stride * (m + at) - s.lead + s.dilation * tap) << what;
  if (k.buffer_bytes == 0) {
    EXPECT_EQ(first + s.second, s.stride * (m + words + at) - s.lead + s.dilation * tap) << what;
    EXPECT_LE(7 + window + s.second, s.vectors * 8) << what;
  } else {
    EXPECT_LE(3 + window, s.vectors * 4) << what;
  }
}

// Of the channels that a block's tiles of rows need, each has a place in its shared memory.
void check_side(const ThinWeightSide& s, int size, int64_t end, const std::string& what) {
  const int64_t rows = int64_t{s.channels} * s.taps;
  EXPECT_GE(int64_t{s.blocks.value} * s.block_tiles * size, rows) << what;
  EXPECT_LT((int64_t{s.blocks.value} - 1) * s.block_tiles * size, rows) << what;
  EXPECT_LE(s.vectors * 16, s.channel_bytes) << what;
  EXPECT_LE(s.quads * 4, s.pitch) << what;
  EXPECT_EQ(s.pitch % 8, 4) << what;
  for (int64_t b = 0; b < s.blocks.value; ++b) {
    const int64_t first = b * s.block_tiles * size, last = std::min(rows, first + s.block_tiles * size) - 1;
    EXPECT_LE(s.words_at + (last / s.taps - first / s.taps + 1) * s.pitch * 4, end) << what;
  }
}

void check(const ThinWeightPlan& plan, const Problem& p, const core::DeviceInfo& d, const std::string& what) {
  const ThinWeightParams& k = plan.params;
  const int64_t words = plan.config.words, halves = k.buffer_bytes > 0 ? 1 : 2;
  EXPECT_LE(plan.shared_bytes, d.shared_per_block) << what;
  EXPECT_EQ(k.tile_positions, words * halves) << what;
  EXPECT_EQ(k.steps * kThinWeightStep, words) << what;
  EXPECT_EQ(k.steps % (1 << k.depth_warp_bits), 0) << what;
  EXPECT_EQ(k.row_warp_bits + k.column_warp_bits + k.depth_warp_bits, 3) << what;
  const int64_t tiles = k.sample_tiles.value;
  EXPECT_TRUE(tiles * k.tile_positions >= p.l && (tiles - 1) * k.tile_positions < p.l) << what;
  EXPECT_LE(k.walkers.value, static_cast<uint32_t>(k.tiles)) << what;
  EXPECT_EQ(plan.part_bytes, int64_t{k.walkers.value} * p.weight_elements() * 4) << what;
  check_side(k.rows, kThinWeightRows, k.columns.words_at, what);
  check_side(k.columns, kThinWeightColumns, halves == 1 ? k.buffer_bytes : k.rows.channels_at, what);
  const ThinWeightSide &x = k.rows_move ? k.columns : k.rows, &y = k.rows_move ? k.rows : k.columns;
  EXPECT_EQ(x.taps, 1) << what;
  EXPECT_EQ(y.taps, p.k) << what;
  for (const int64_t at : {int64_t{0}, words - 1}) {
    check_word(x, k, 0, 0, at, words, what);
    for (int64_t tap = 0; tap < p.k; tap += std::max<int64_t>(1, p.k / 7)) {
      check_word(y, k, tap, k.tile_positions, at, words, what);
    }
    check_word(y, k, p.k - 1, 0, at, words, what);
  }
  EXPECT_FALSE(where(plan, p, p.weight_elements() - 1).empty());
}

TEST(ThinWeightPlan, SoundOverRandomProblems) {
  judge::Rng rng(16);
  const core::DeviceInfo d = cuda_test::device("h200");
  int taken = 0, blocks = 0, pairs = 0;
  for (int i = 0; i < 8000; ++i) {
    Problem p = cuda_test::draw_transposed(rng);
    p.operation = core::Operation::weight, p.has_bias = false;
    p.dtype = i % 2 == 0 ? core::DType::bf16 : core::DType::f32;
    p.precision = i % 4 == 1 ? core::Precision::tf32 : core::Precision::ieee;
    if (!validate(p).ok() || !cuda_test::takes(kSm80ThinWeight, p, d)) continue;
    for (const ThinWeightConfig& config :
         {ThinWeightConfig{false, 5, 1, 1, 64}, ThinWeightConfig{true, 7, 2, 1, 128},
          ThinWeightConfig{true, 0, 4, 2, 16}, ThinWeightConfig{false, 13, 1, 8, 32},
          thin_weight_plan(p, d).config}) {
      const ThinWeightPlan plan = thin_weight_plan_of(p, d, config);
      if (plan.blocks == 0) continue;
      ++taken;
      blocks += plan.params.rows.blocks.value * plan.params.columns.blocks.value > 1;
      pairs += p.dtype == core::DType::bf16;
      check(plan, p, d, text(p) + ": " + describe(plan, p));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(taken, 3000);
  EXPECT_GT(blocks, 100);
  EXPECT_GT(pairs, 1000);
}

// Which block and warps an element's `where` names: each pair (row tile, column tile) has its own.
TEST(ThinWeightPlan, TilesHaveTheirOwnWarps) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const Problem p = core::parse("gw n2 ci40 co12 l900 k5 s2 p1 g2 bf16").value();
  const ThinWeightPlan plan = thin_weight_plan_of(p, d, {false, 1, 2, 2, 64});
  ASSERT_GT(plan.blocks, 0);
  std::set<std::string> warps;
  for (int64_t i = 0; i < p.weight_elements(); ++i) {
    const std::string words = where(plan, p, i);
    warps.insert(words.substr(words.find(';')));
  }
  // Two groups; of 20 rows two tiles, a warp's each; of 30 columns two warps' tiles of 16.
  EXPECT_EQ(warps.size(), 2u * 2 * 2);
}

TEST(ThinWeightPlan, Refusals) {
  const auto refusal = [](const char* words, const char* device = "h200") {
    return cuda_test::refusal(kSm80ThinWeight, words, device, true);
  };
  EXPECT_EQ(refusal("gw n1 ci16 co8 l1000 k4 s2 p1 bf16"), "");
  EXPECT_NE(refusal("gw n1 ci16 co8 l1000 k4 s2 p1 f64").find("dtype f64"), std::string::npos);
  EXPECT_NE(refusal("n1 ci16 co8 l1000 k4 s2 p1 bf16").find("operation"), std::string::npos);
  EXPECT_NE(refusal("gw n1 ci16 co8 l1000 k4 s2 p1 bf16", "v100").find("compute capability"),
            std::string::npos);
  EXPECT_NE(refusal("gw n1 ci2 co2 l20 k4 s30000 p1 f32 tf32").find("shared memory"), std::string::npos);
}

TEST(ThinWeightPlan, TakesFewChannelsAlongManyPositions) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto kernel_of = [&](const char* words) {
    return std::string(plan::make_plan(core::parse(words).value(), d, {}).value().entry->name);
  };
  for (const char* words :
       {"gw n128 ci16 co8 l61697 k7 s1 p15 d5 bf16", "gw n32 ci29 co14 l132718 k4 s2 p1 f32",
        "gw n128 ci24 co12 l21172 k4 s2 p1 g2 f32 tf32"}) {
    EXPECT_EQ(kernel_of(words), "cuda.sm80.thin_weight") << words;
  }
  for (const char* words :
       {"gw n16 ci256 co256 l27411 k11 s5 p3 bf16", "gw n1 ci2048 co1024 l29031 k4 s2 p0 f32",
        "gw n16 ci256 co256 l103170 k3 s1 p1 g256 bf16"}) {
    EXPECT_NE(kernel_of(words), "cuda.sm80.thin_weight") << words;
  }
}

}  // namespace
}  // namespace tconv::cuda
