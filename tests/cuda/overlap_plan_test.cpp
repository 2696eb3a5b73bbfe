// How cuda.sm80.overlap cuts a problem: that every weight has a row, every column and its halo a tile, and
// that copies are as wide as what lies before them allows.
#include "cuda/sm80/overlap_plan.hpp"

#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/refusal.hpp"

namespace tconv::cuda {
namespace {

// Row of (cout, k) in its tile, as the kernel has it; checked to be below the tile's rows.
void check_rows(const OverlapParams& k, const Phases& f, int tile_rows, const std::string& what) {
  for (int kk = 0; kk < k.k; ++kk) {
    const int phase = static_cast<int>(kk % f.tap_stride), tap = static_cast<int>(kk / f.tap_stride);
    ASSERT_LT(phase, k.phases) << what;
    const int first_phase = phase / k.chunk * k.chunk;
    const int row = (k.couts - 1) * k.cout_rows + tap * k.tap_rows + phase - first_phase;
    ASSERT_LT(row, tile_rows) << what;
    EXPECT_LT(tap * k.tap_rows + phase - first_phase, k.cout_rows) << what;
    EXPECT_LT(first_phase / k.chunk, k.phase_tiles) << what;
    if (k.whole) {
      EXPECT_EQ(tap * k.tap_rows + phase, kk) << what;
    }
  }
  EXPECT_GE(k.cout_tiles * k.couts, k.cout_group) << what;
  EXPECT_LT((k.cout_tiles - 1) * k.couts, k.cout_group) << what;
}

void check_columns(const OverlapParams& k, const core::Problem& p, int tile_columns,
                   const std::string& what) {
  EXPECT_EQ(k.columns, p.n * p.l) << what;
  EXPECT_EQ(k.own + k.halo, tile_columns) << what;
  EXPECT_GE(k.column_tiles * k.own, k.columns) << what;
  if (k.column_tiles > 1) {
    EXPECT_GE(k.halo, (k.taps - 1) * k.step) << what;
  }
  const int elements = static_cast<int>(k.x_copy) / static_cast<int>(size_of(p.dtype));
  EXPECT_EQ(k.own % elements, 0) << what;
  EXPECT_EQ(k.halo % elements, 0) << what;
  EXPECT_EQ(p.l % elements, 0) << what;
  EXPECT_EQ(k.x_step[0] % elements, 0) << what;
  EXPECT_EQ(k.x_step[1] % elements, 0) << what;
}

TEST(OverlapPlan, SoundOverRandomProblems) {
  judge::Rng rng(12);
  int taken = 0, chunked = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 6000; ++i) {
    const core::Problem p = cuda_test::draw_transposed(rng);
    if (!cuda_test::takes(kSm80Overlap, p, d)) continue;
    ++taken;
    const OverlapPlan plan = overlap_plan(p, d, false);
    const OverlapParams& k = plan.params;
    const std::string what = text(p) + ": " + describe(plan, p);
    ASSERT_GT(plan.blocks, 0) << what;
    chunked += k.whole ? 0 : 1;
    check_rows(k, plan.phases, kOverlapTiles[plan.config.tile].rows, what);
    check_columns(k, p, kOverlapTiles[plan.config.tile].columns, what);
    EXPECT_LE(k.splits, k.slabs) << what;
    const int64_t elements = static_cast<int>(k.weight_copy) / static_cast<int64_t>(size_of(p.dtype));
    EXPECT_EQ(k.weight_step % elements, 0) << what;
    EXPECT_EQ(k.whole ? k.couts * p.k % elements : p.k % elements, 0) << what;
    if (!k.whole) {
      EXPECT_EQ(k.chunk % elements + k.tap_stride % elements, 0) << what;
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(chunked, 0);
}

TEST(OverlapPlan, BatchInvariantSplitsAreThoseOfASample) {
  const core::DeviceInfo d = cuda_test::device("h200");
  for (const char* words : {"ci512 co256 l16 k16 s8 p4 f32 tf32", "ci1024 co64 l9 k4 s2 p1 bf16"}) {
    const core::Problem one = core::parse(std::string("n1 ") + words).value();
    const core::Problem many = core::parse(std::string("n64 ") + words).value();
    EXPECT_EQ(overlap_plan(one, d, true).config.splits, overlap_plan(many, d, true).config.splits) << words;
  }
}

TEST(OverlapPlan, OneLaunchWithoutASplitBeforeHopper) {
  const core::Problem p = core::parse("n1 ci512 co256 l16 k16 s8 p4 f32 tf32").value();
  EXPECT_GT(overlap_plan(p, cuda_test::device("h200"), false).config.splits, 1);
  EXPECT_EQ(overlap_plan(p, cuda_test::device("a100"), false).config.splits, 1);
}

TEST(OverlapPlan, RefusesInWords) {
  auto refusal = [](const char* text, bool forced = true) {
    return cuda_test::refusal(kSm80Overlap, text, "h200", forced);
  };
  EXPECT_EQ(refusal("n1 ci512 co256 l32 k16 s8 p4 f32 tf32"), "");
  EXPECT_NE(refusal("n1 ci512 co256 l32 k16 s8 p4 f64").find("f64"), std::string::npos);
  EXPECT_NE(refusal("strided n1 ci512 co256 l32 k16 s8 p4 f32 tf32").find("transposed"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l32 k3 s2 p1 d3 f32 tf32").find("skews"), std::string::npos);
}

}  // namespace
}  // namespace tconv::cuda
