// How cuda.simt.strided cuts a problem: that pieces cover x, and that windows hold what threads read.
#include <gtest/gtest.h>

#include <numeric>

#include "cuda/refusal.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/simt/strided_sliding.hpp"

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
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 6000; ++i) {
    const core::Problem p = cuda_test::draw_transposed(rng);
    if (!cuda_test::takes(kSimtStrided, p, d)) continue;
    ++taken;
    const simt::StridedConfig c = simt::plan_strided_windows(p);
    const std::string what = text(p) + ": " + c.text();
    const int64_t positions = c.lanes * simt::kStridedPositions;
    check_pieces(c, p);
    if (simt::strided_direct_refusal(p).empty()) {
      for (const int each : {simt::kStridedFewPositions, simt::strided_most_positions(c.rows)}) {
        check_pieces(simt::plan_strided_direct(p, each), p);
      }
    }
    if (c.shared_bytes > d.shared_per_block) continue;
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
    EXPECT_LE(c.tiles, c.turns) << what;
    EXPECT_GE(c.weights_at, c.channels * c.pitch) << what;
    EXPECT_GE(c.unit_words, c.weights_at + c.tiles * c.channels * p.k * c.rows) << what;
    EXPECT_TRUE(c.weights_at % 4 == 0 && c.unit_words % 4 == 0) << what;  // loads of vectors
    const int64_t element = p.dtype == core::DType::f64 ? 8 : 4;
    EXPECT_EQ(c.shared_bytes, c.unit_words * c.units_a_block() * element) << what;
    EXPECT_LE(c.shared_bytes, d.shared_per_block) << what;
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(addressed, 2000);
}

TEST(SimtStridedPlan, SlidingWindowsHoldWhatThreadsRead) {
  judge::Rng rng(13);
  int taken = 0, resident = 0, shared = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 8000; ++i) {
    core::Problem p = cuda_test::draw_transposed(rng);
    p.operation = core::Operation::strided;
    p.l = p.l * (1 + i % 40), p.dilation = 1;
    if (p.output_elements() == 0 || !simt::strided_sliding_refusal(p, d).empty()) continue;
    ++taken;
    const simt::StridedConfig c = simt::plan_strided_sliding(p);
    const std::string what = text(p) + ": " + c.text();
    check_pieces(c, p);
    resident += c.resident, shared += c.units_a_block() > 1;
    EXPECT_TRUE(c.resident || c.lanes == simt::kStridedThreads) << what;
    EXPECT_TRUE(c.resident ? c.channels == p.cout_per_group() && c.walk == 1 : c.turns == 1) << what;
    EXPECT_LE(c.tiles, c.turns) << what;
    // The last element that a product takes, and behind the last one of the vectors that a thread reads.
    const int64_t last = c.lanes - 1, first = p.stride * simt::kSlidingPositions * last;
    EXPECT_EQ(c.window, first + p.stride * (simt::kSlidingPositions - 1) + p.k) << what;
    const int64_t behind = first + (p.k - 1) / 4 * 4 + simt::sliding_window(static_cast<int>(p.stride));
    EXPECT_GE(behind, c.window) << what;
    EXPECT_GE(c.pitch, behind + (behind - 1) / 32 * 4) << what;
    EXPECT_EQ(c.pitch % 4, 0) << what;
    // A thread's loads reach the end of the window.
    const int64_t of_word = size_of(p.dtype) == 2 ? 2 : 1;
    EXPECT_GE(simt::sliding_loads(size_of(p.dtype), p.stride) * of_word * c.lanes, c.window) << what;
    EXPECT_GE(c.weights_at, c.units_a_block() * c.stages * c.channels * c.pitch) << what;
    EXPECT_GE(c.biases_at, c.weights_at + c.tiles * p.cout_per_group() * p.k * c.rows) << what;
    EXPECT_GE(c.outputs_at, c.biases_at + c.tiles * c.rows) << what;
    EXPECT_TRUE(c.weights_at % 4 == 0 && c.outputs_at % 4 == 0 && c.unit_words % 4 == 0) << what;
    EXPECT_EQ(c.shared_bytes, 4 * c.unit_words) << what;
    EXPECT_LE(c.shared_bytes, d.shared_per_block) << what;
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(resident, 100);
  EXPECT_GT(shared, 50);
}

// What a block of the staged way reads, and where.
void check_staged(const simt::StridedStagedConfig& c, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + ": " + c.text();
  EXPECT_LE(c.threads(), simt::strided_most_threads(c.tile.sums())) << what;
  EXPECT_GE(c.parts * c.positions(), p.l) << what;
  EXPECT_GE(c.row_blocks * c.rows(), p.cin_per_group()) << what;
  EXPECT_LE(c.channels, p.cout_per_group()) << what;
  EXPECT_TRUE(c.stages > 1 || c.channels == p.cout_per_group()) << what;
  EXPECT_EQ(c.weight_pitch % 4, 0) << what;
  EXPECT_GE(c.weight_pitch, c.rows()) << what;
  EXPECT_EQ(c.threads() % c.copy_lanes, 0) << what;
  const int64_t words = c.ring_at(p.k) + c.stages * c.stage_words(p.k);
  EXPECT_GE(c.shared_bytes, 4 * words) << what;
  EXPECT_LE(c.shared_bytes, d.shared_per_block) << what;
  EXPECT_GE(c.slot_pitch, c.slot_row + (c.contiguous ? 3 : 0)) << what;
  if (c.contiguous) {
    EXPECT_TRUE(c.channels == p.cout_per_group() || c.channels * p.y_steps()[1] % 4 == 0) << what;
  }
  // Every tap of the first and the last position lies where the kernel's table says that it does.
  const int64_t phases = c.contiguous ? 1 : p.stride / std::gcd(p.stride, p.dilation);
  for (const int64_t i : {int64_t{0}, c.positions() - 1}) {
    for (const int64_t k : {int64_t{0}, p.k / 2, p.k - 1}) {
      const int64_t slot = k % c.slots, place = c.step * i + k / c.slots * c.tap_step;
      ASSERT_TRUE(c.slots == phases || k / c.slots == 0) << what;
      ASSERT_LT(place, c.slot_row) << what;
      const int64_t o = c.contiguous ? place : p.stride * place + p.dilation * slot;
      ASSERT_EQ(o, p.stride * i + p.dilation * k) << what;
    }
  }
}

TEST(SimtStridedPlan, StagesHoldWhatThreadsRead) {
  judge::Rng rng(12);
  int taken = 0, contiguous = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 4000; ++i) {
    core::Problem p = cuda_test::draw_transposed(rng);
    p.operation = core::Operation::strided;
    p.dtype = core::DType::f32;
    if (p.output_elements() == 0 || !simt::strided_staged_refusal(p, d).empty()) continue;
    ++taken;
    const simt::StridedStagedConfig c = simt::plan_strided_staged(p, d);
    check_staged(c, p, d);
    EXPECT_EQ(simt::plan_strided_staged(p, d, true).warps_s, 1) << text(p);
    for (const simt::StridedTile& tile : simt::kStridedTiles) {
      const simt::StridedStagedConfig one = simt::strided_staged_config(p, d, tile, 2, 1, 2);
      if (one.shared_bytes > 0) check_staged(one, p, d);
    }
    contiguous += c.contiguous;
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(contiguous, 200);
}

// With batch_invariant the parts of a sum do not depend on N.
TEST(SimtStridedPlan, PartsOfSumsWithoutN) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto parts = [&](const char* line) {
    const simt::StridedConfig c = simt::plan_strided(core::parse(line).value(), d, true);
    return c.staged ? c.staged->warps_s : 1;
  };
  EXPECT_GT(parts("strided n1 ci1 co224 l35889 k5 s1 p2 f32"), 1);
  EXPECT_EQ(parts("strided n1 ci1 co224 l35889 k5 s1 p2 f32"),
            parts("strided n64 ci1 co224 l35889 k5 s1 p2 f32"));
  EXPECT_EQ(parts("strided n1 ci32 co16 l162977 k3 s1 p3 d3 f32"),
            parts("strided n8 ci32 co16 l162977 k3 s1 p3 d3 f32"));
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
