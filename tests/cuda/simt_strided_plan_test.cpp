// How cuda.simt.strided cuts a problem: that pieces cover x, and that windows hold what threads read.
#include <gtest/gtest.h>

#include "cuda/refusal.hpp"
#include "cuda/simt/strided.hpp"

namespace tconv::cuda {
namespace {

void check_pieces(const simt::StridedConfig& c, const core::Problem& p) {
  const std::string what = text(p) + ": " + c.text();
  const int64_t positions = c.lanes * c.positions;
  EXPECT_EQ(simt::kStridedThreads % c.lanes, 0) << what;
  EXPECT_GE(c.parts * positions, p.l) << what;
  EXPECT_LT((c.parts - 1) * positions, p.l) << what;
  EXPECT_GE(c.row_tiles * c.rows, p.cin_per_group()) << what;
}

TEST(SimtStridedPlan, SoundOverRandomProblems) {
  judge::Rng rng(11);
  int taken = 0, addressed = 0;
  plan::PlanOptions forced;
  forced.force_kernel = kSimtStrided.name;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 6000; ++i) {
    const core::Problem p = cuda_test::draw_transposed(rng);
    if (p.output_elements() == 0 || !kSimtStrided.supports(p, d, forced).ok) continue;
    ++taken;
    const simt::StridedConfig c = simt::plan_strided_windows(p);
    const std::string what = text(p) + ": " + c.text();
    const int64_t positions = c.lanes * simt::kStridedPositions;
    check_pieces(c, p);
    if (simt::strided_direct_refusal(p).empty()) {
      for (const int each : {0, simt::kStridedFewPositions, simt::strided_most_positions(c.rows)}) {
        check_pieces(simt::plan_strided_direct(p, each), p);
      }
    }
    if (simt::plan_strided(p, d).direct && c.shared_bytes > d.shared_per_block) continue;
    EXPECT_LE(c.channels, p.cout_per_group()) << what;
    EXPECT_TRUE(c.turns == 1 || c.channels == p.cout_per_group()) << what;
    EXPECT_LE(c.turns, c.row_tiles) << what;
    // The last element that a thread reads, in the window and in shared memory.
    const int64_t last = p.stride * (positions - 1) + p.dilation * (p.k - 1);
    EXPECT_LT(last, c.window) << what;
    EXPECT_LT(simt::strided_place(c.window - 1), c.pitch) << what;
    // Threads whose positions lie a multiple of 32 words apart address them all from the first one.
    const int64_t step = p.stride * c.lanes;
    for (int64_t n = 1; step % 32 == 0 && n < simt::kStridedPositions; ++n) {
      for (int64_t e :
           {int64_t{0}, p.stride, step - 1, c.window - 1 - (simt::kStridedPositions - 1) * step}) {
        ASSERT_EQ(simt::strided_place(e + n * step), simt::strided_place(e) + n * simt::strided_place(step))
            << what;
        ++addressed;
      }
    }
    EXPECT_GE(c.unit_words, c.channels * (c.pitch + p.k * c.rows)) << what;
    const int64_t element = p.dtype == core::DType::f64 ? 8 : 4;
    EXPECT_EQ(c.shared_bytes, c.unit_words * c.units_a_block() * element) << what;
    EXPECT_LE(c.shared_bytes, d.shared_per_block) << what;
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(addressed, 2000);
}

TEST(SimtStridedPlan, TakesWhatTensorCoresWouldWaste) {
  auto refusal = [](const char* text, bool forced = false) {
    return cuda_test::refusal(kSimtStrided, text, "h200", forced);
  };
  EXPECT_EQ(refusal("gx n16 ci512 co512 l1000 k4 s2 p1 g512 f32 tf32"), "");
  EXPECT_EQ(refusal("gx n16 ci1 co32 l128000 k7 p3 f32"), "");
  EXPECT_NE(refusal("gx n16 ci256 co256 l4096 k16 s8 p4 f32 tf32").find("expected to be faster"),
            std::string::npos);
  EXPECT_EQ(refusal("gx n16 ci256 co256 l4096 k16 s8 p4 f32 tf32", true), "");
  EXPECT_NE(refusal("n16 ci512 co512 l1000 k4 s2 p1 g512 f32").find("for strided"), std::string::npos);
}

}  // namespace
}  // namespace tconv::cuda
