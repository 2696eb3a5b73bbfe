// How cuda.sm80.window cuts a problem: that every element of a slab meets its own place of dy, or a zero
// where there is none, in windows that are copied as the kernel copies them.
#include "cuda/sm80/window_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/refusal.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

constexpr int64_t kNothing = -1, kUnset = -2;

int piece_elements(const WindowPieces& pieces, const Problem& p) {
  const auto element = static_cast<int>(size_of(p.dtype));
  return pieces.copy == WindowCopy::element ? 1 : static_cast<int>(pieces.copy) / element;
}

// q of a column's first tap, as the kernel has it.
int64_t place_of(const WindowParams& k, const Problem& p, int64_t column) {
  const int64_t n = column / k.l;
  return n * k.sample_window.value + (column - n * k.l) * k.stride + window_lead(size_of(p.dtype));
}

int64_t first_of(const WindowParams& k, const Problem& p, int64_t column) {
  const int64_t q = place_of(k, p, column);
  return q - ((q - k.padding) & (piece_elements(k.dy_pieces, p) - 1));
}

// Which (n, o) each element of a channel's window holds; kNothing: zero.
std::vector<int64_t> window_of(const WindowParams& k, const Problem& p, int64_t first, int64_t tap) {
  std::vector<int64_t> window(static_cast<std::size_t>(k.window_pitch), kUnset);
  const int elements = piece_elements(k.dy_pieces, p);
  const int64_t sample = k.sample_window.value;
  for (int64_t piece = 0; piece < k.dy_pieces.pieces; ++piece) {
    const int64_t q = first + piece * elements, n = q / sample, inside = q - n * sample;
    const int64_t o = inside + k.dilation * tap - k.padding - window_lead(size_of(p.dtype));
    const bool there = n < k.samples && inside + elements <= sample && o >= 0 && o + elements <= k.lout;
    if (there) {
      EXPECT_EQ(o % elements, 0);
    }
    for (int e = 0; e < elements; ++e) {
      window.at(static_cast<std::size_t>(piece * elements + e)) = there ? n * k.lout + o + e : kNothing;
    }
  }
  return window;
}

void check_column(const WindowParams& k, const Problem& p, const std::vector<int64_t>& window, int64_t first,
                  int64_t column, int64_t tap, const std::string& what) {
  const int64_t n = column / k.l, i = column % k.l, at = place_of(k, p, column) - first;
  for (int64_t t = tap; t < std::min<int64_t>(k.k, tap + k.taps); ++t) {
    const int64_t o = i * k.stride - k.padding + t * k.dilation;
    const bool there = o >= 0 && o < k.lout;
    const int64_t place = at + (t - tap) * k.dilation;
    ASSERT_GE(place, 0) << what;
    ASSERT_LT(place, k.window_pitch) << what;
    ASSERT_EQ(window[static_cast<std::size_t>(place)], there ? n * k.lout + o : kNothing)
        << what << ": column " << column << ", tap " << t;
  }
}

void check_columns(const WindowPlan& plan, const Problem& p, const std::string& what) {
  const WindowParams& k = plan.params;
  const int columns = kWindowTiles[plan.config.tile].columns;
  EXPECT_GE(int64_t{k.column_tiles} * columns, k.columns) << what;
  for (const int tile : std::set<int>{0, k.column_tiles / 2, k.column_tiles - 1}) {
    const int64_t begin = int64_t{tile} * columns, first = first_of(k, p, begin);
    for (const int chunk : std::set<int>{0, k.chunks - 1}) {
      const int64_t tap = int64_t{chunk} * k.taps;
      const std::vector<int64_t> window = window_of(k, p, first, tap);
      for (int64_t column = begin; column < std::min<int64_t>(begin + columns, k.columns); ++column) {
        check_column(k, p, window, first, column, tap, what);
      }
    }
  }
}

// Every (co, k) belongs to one slab, and rows of weights are copied from boundaries.
void check_depth(const WindowPlan& plan, const Problem& p, const std::string& what) {
  const WindowParams& k = plan.params;
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  EXPECT_LE(k.splits, k.slabs) << what;
  EXPECT_GE(k.steps * kWindowStepBytes, k.channels * k.taps * element) << what;
  EXPECT_LT((k.steps - 1) * kWindowStepBytes, k.channels * k.taps * element) << what;
  const int64_t pieces = piece_elements(k.weight_pieces, p);
  EXPECT_EQ(k.weight_pieces.pieces * pieces * element, k.steps * kWindowStepBytes) << what;
  EXPECT_EQ(k.weight_row % pieces, 0) << what;
  int64_t elements = 0;
  for (int64_t slab = 0; slab < k.slabs; ++slab) {
    const int64_t channel = k.chunks > 1 ? slab / k.chunks : slab * k.channels;
    const int64_t tap = k.chunks > 1 ? slab % k.chunks * k.taps : 0;
    ASSERT_LT(channel, k.cout_group) << what;
    ASSERT_LT(tap, k.k) << what;
    EXPECT_EQ((channel * k.k + tap) % pieces, 0) << what;
    elements += std::min<int64_t>(k.channels, k.cout_group - channel) * std::min<int64_t>(k.taps, k.k - tap);
  }
  EXPECT_EQ(elements, k.weight_row) << what;
}

TEST(WindowPlan, SoundOverRandomProblems) {
  judge::Rng rng(14);
  int taken = 0, chunked = 0, vectors = 0, elements = 0;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 12000; ++i) {
    const Problem p = cuda_test::draw_transposed(rng);
    if (!cuda_test::takes(kSm80Window, p, d)) continue;
    if (p.cout_per_group() * p.k > 1 << 16) continue;
    for (int tile = 0; tile < kWindowTileCount; ++tile) {
      const WindowPlan plan = window_plan_of(p, d, {tile, 1});
      if (plan.blocks == 0) continue;
      ++taken;
      const WindowParams& k = plan.params;
      const std::string what = text(p) + ": " + describe(plan, p);
      EXPECT_LE(plan.shared_bytes, d.shared_per_block) << what;
      chunked += k.chunks > 1;
      vectors += k.dy_pieces.copy == WindowCopy::vector;
      elements += k.dy_pieces.copy == WindowCopy::element;
      check_depth(plan, p, what);
      check_columns(plan, p, what);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(chunked, 50);
  EXPECT_GT(vectors, 50);
  EXPECT_GT(elements, 50);
}

// The order of sums does not depend on the tile, and with batch_invariant not on the batch.
TEST(WindowPlan, DepthIsThatOfTheProblem) {
  const core::DeviceInfo d = cuda_test::device("h200");
  for (const char* words : {"ci256 co512 l16 k16 s8 p4 f32 tf32", "ci64 co1024 l9 k5 s2 p1 bf16",
                            "ci40 co30 l900 k700 s50 p1 f16"}) {
    const Problem one = core::parse(std::string("strided n1 ") + words).value();
    const Problem many = core::parse(std::string("strided n64 ") + words).value();
    EXPECT_EQ(window_plan(one, d, true).config.splits, window_plan(many, d, true).config.splits) << words;
    const WindowPlan first = window_plan_of(one, d, {1, 1});
    for (int tile = 1; tile < kWindowTileCount; ++tile) {
      const WindowPlan plan = window_plan_of(many, d, {tile, 1});
      if (plan.blocks == 0) continue;
      EXPECT_EQ(plan.params.channels, first.params.channels) << words;
      EXPECT_EQ(plan.params.taps, first.params.taps) << words;
    }
  }
}

TEST(WindowPlan, RefusesWithAReason) {
  using cuda_test::refusal;
  const auto of = [](const char* words, const char* device) {
    return refusal(kSm80Window, words, device, true);
  };
  EXPECT_NE(of("n1 ci64 co64 l100 k4 s2 p1 bf16", "h200").find("this kernel is for strided"),
            std::string::npos);
  EXPECT_NE(of("strided n1 ci64 co64 l100 k4 s2 p1 f64", "h200").find("f64"), std::string::npos);
  EXPECT_NE(of("strided n1 ci64 co64 l100 k4 s2 p1 f16", "t4").find("8.0"), std::string::npos);
  EXPECT_NE(of("strided n1 ci64 co4 l100 k4 s2 p1 f32", "h200").find("fewer than 16 terms"),
            std::string::npos);
  EXPECT_EQ(of("strided n1 ci64 co8 l100 k4 s2 p1 f32", "h200"), "");
}

TEST(WindowPlan, OneBlockADepthBeforeHopper) {
  const Problem p = core::parse("strided n1 ci64 co512 l16 k16 s8 p4 bf16").value();
  EXPECT_EQ(window_plan(p, cuda_test::device("a100"), false).config.splits, 1);
  EXPECT_GT(window_plan(p, cuda_test::device("h200"), false).config.splits, 1);
}

}  // namespace
}  // namespace tconv::cuda
