// The numbers of cuda.sm80.thin: every product of every output once, from the word that holds its source, in
// windows and stages that fit.
#include "cuda/sm80/thin_plan.hpp"

#include <gtest/gtest.h>

#include "cuda/plan/tensor.hpp"
#include "cuda/refusal.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;

bool is_strided(const Problem& p) {
  return p.operation == core::Operation::strided;
}

// Whether tap k of output o has source q, by the definition of the operation.
bool is_product(const Problem& p, int64_t o, int64_t k, int64_t q) {
  if (is_strided(p)) return q == p.stride * o - p.padding + p.dilation * k;
  return o + p.padding == p.stride * q + p.dilation * k;
}

int64_t products_of(const Problem& p, int64_t o) {
  const int64_t sources = is_strided(p) ? p.lout() : p.l;
  int64_t count = 0;
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t at =
        is_strided(p) ? p.stride * o - p.padding + p.dilation * k : o + p.padding - p.dilation * k;
    if (at < 0 || (!is_strided(p) && at % p.stride != 0)) continue;
    count += (is_strided(p) ? at : at / p.stride) < sources;
  }
  return count;
}

// Of one output: as the kernel finds its row, position, taps and words.
void check_output(const ThinPlan& plan, const Problem& p, int64_t o, const std::string& what) {
  const ThinParams& k = plan.params;
  const int64_t columns = int64_t{kThinWarps / k.row_warps} * k.warp_columns;
  const int64_t m = (o + k.out_lead) / k.out_stride, phase = (o + k.out_lead) % k.out_stride;
  ASSERT_LT(m, k.positions) << what;
  const int64_t inside = m % columns;  // of its tile
  int64_t count = 0;
  for (int64_t j = 0; j < k.taps; ++j) {
    const int64_t tap = k.tap_first + k.tap_step * j + phase, e = k.in_stride * inside + k.dilation * j;
    const int64_t q = k.in_stride * (m - inside) - k.lead + e;
    ASSERT_LT(e, k.window) << what;
    const int64_t ahead = k.dilation * j;
    const int64_t word = ahead % k.in_stride * k.plane_pitch + ahead / k.in_stride + inside;
    EXPECT_EQ(word, e % k.in_stride * k.plane_pitch + e / k.in_stride) << what;
    EXPECT_LT(word, k.pair_pitch) << what;
    if (tap < 0 || tap >= k.k_count || q < 0 || q >= k.source_length) continue;
    EXPECT_TRUE(is_product(p, o, tap, q)) << what << ", o " << o << ", tap " << tap << ", q " << q;
    ++count;
  }
  EXPECT_EQ(count, products_of(p, o)) << what << ", o " << o;
}

void check_places(const ThinPlan& plan, const Problem& p, const core::DeviceInfo& d,
                  const std::string& what) {
  const ThinParams& k = plan.params;
  EXPECT_LE(plan.shared_bytes, d.shared_per_block) << what;
  const int parts = arithmetic_of(p) == Arithmetic::ieee ? 2 : 1;
  EXPECT_LE((k.block_row_tiles * k.steps + 1) * parts * kThinFragmentBytes, k.table_at) << what;
  EXPECT_GE(k.steps * kThinStepWords, k.pairs * k.taps) << what;
  EXPECT_GE(k.pairs * (size_of(p.dtype) == 2 ? 2 : 1), k.channels) << what;
  EXPECT_LE(k.staged_at + kThinWarps * k.staged_warp, k.window_at) << what;
  EXPECT_LE(k.window, k.chunks * k.chunk) << what;
  if (size_of(p.dtype) == 2) {
    // A channel begins at any of 8 places, and whole chunks are read.
    EXPECT_LE(k.window_at + k.pairs * k.pair_pitch * 4, k.channels_at) << what;
    EXPECT_LE(7 + k.window, k.channel_vectors * 8) << what;
    EXPECT_LE(((2 * k.pairs - 1) * k.channel_vectors * 8 + 7 + k.chunks * k.chunk) * 2,
              plan.shared_bytes - k.channels_at)
        << what;
  } else {
    EXPECT_LE(k.pairs * k.pair_pitch * 4, k.window_bytes) << what;
    EXPECT_LE(k.window_at + k.window_bytes + k.pairs * k.pair_pitch * 4, plan.shared_bytes) << what;
  }
  EXPECT_LE(k.chunks * k.chunk / k.in_stride, k.plane_pitch) << what;
  EXPECT_LE(k.in_stride * k.plane_pitch, k.pair_pitch) << what;
  EXPECT_EQ(k.chunk % k.in_stride, 0) << what;
  const int64_t columns = int64_t{kThinWarps / k.row_warps} * k.warp_columns, tiles = k.sample_tiles.value;
  EXPECT_TRUE(tiles * columns >= k.positions && (tiles - 1) * columns < k.positions) << what;
  EXPECT_GE(int64_t{k.row_blocks.value} * k.block_row_tiles * kThinRowTile, k.rows) << what;
  EXPECT_LE(k.walkers.value, static_cast<uint32_t>(k.tiles)) << what;
  EXPECT_FALSE(where(plan, p, p.output_elements() - 1).empty());
}

TEST(ThinPlan, SoundOverRandomProblems) {
  judge::Rng rng(15);
  const core::DeviceInfo d = cuda_test::device("h200");
  int taken = 0, phases = 0, planes = 0, several = 0;
  for (int i = 0; i < 12000; ++i) {
    Problem p = cuda_test::draw_transposed(rng);
    if (i % 2 == 0) p.operation = core::Operation::strided;
    p.dtype = i % 3 == 0 ? core::DType::bf16 : core::DType::f32;
    p.precision = i % 3 == 1 ? core::Precision::tf32 : core::Precision::ieee;
    if (!validate(p).ok() || !cuda_test::takes(kSm80Thin, p, d)) continue;
    for (const ThinConfig& config : {ThinConfig{1, 1, 1}, ThinConfig{2, 2, 2}, ThinConfig{1, 4, 4}}) {
      const ThinPlan plan = thin_plan_of(p, d, config);
      if (plan.blocks == 0) continue;
      const ThinParams& k = plan.params;
      ++taken;
      phases += k.out_stride > 1, planes += k.in_stride > 1, several += k.sample_tiles.value > 1;
      const std::string what = text(p) + ": " + describe(plan, p);
      check_places(plan, p, d, what);
      const int64_t step = std::max<int64_t>(1, k.output_length / 50);
      for (int64_t o = 0; o < k.output_length; o += step) check_output(plan, p, o, what);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(phases, 200);
  EXPECT_GT(planes, 200);
  EXPECT_GT(several, 50);
}

TEST(ThinPlan, RefusesWithAReason) {
  const auto of = [](const char* words, const char* device) {
    return cuda_test::refusal(kSm80Thin, words, device, true);
  };
  const auto says = [&](const char* words, const char* device, const char* part) {
    EXPECT_NE(of(words, device).find(part), std::string::npos) << words << ": " << of(words, device);
  };
  says("n1 ci8 co8 l1000 k4 s2 p1 f64", "h200", "dtype f64");
  says("n1 ci4 co8 l1000 k4 s2 p1 f32", "h200", "fewer than 16 terms");
  says("n1 ci8 co8 l1000 k4 s2 p1 bf16", "t4", "8.0");
  says("n1 ci8 co8 l1000 k40 s20 p1 bf16", "h200", "stride above 16");
  says("n1 ci8 co8 l1000 k4 s2 p1 d2 bf16", "h200", "dilation skews the phases");
  says("n1 ci8 co8 l1000 k2 s3 p0 bias bf16", "h200", "no product");
  says("strided n1 ci8 co8 l1000 k80 s40 p0 bf16", "h200", "stride 40");
  says("n1 ci1024 co1024 l1000 k4 s2 p1 bf16", "h200", "do not fit in shared memory");
  EXPECT_EQ(of("n1 ci8 co8 l1000 k4 s2 p1 bias bf16", "h200"), "");
  EXPECT_EQ(of("strided n1 ci8 co8 l1000 k7 s1 p3 d5 f16", "a100"), "");
  EXPECT_EQ(of("n1 ci8 co8 l1000 k4 s2 p1 bias f32", "h200"), "");
  EXPECT_EQ(of("n1 ci4 co8 l1000 k4 s2 p1 f32 tf32", "h200"), "");
}

// Layers that it was built for, and some that tensor copies serve better.
TEST(ThinPlan, IsChosenForFewChannelsAlongManyPositions) {
  const auto kernel_of = [](const char* words) {
    const auto plan = plan::make_plan(core::parse(words).value(), cuda_test::device("h200"), {}, "");
    return std::string(plan.value().entry->name);
  };
  for (const char* words :
       {"strided n128 ci16 co8 l61697 k7 s1 p15 d5 bf16", "n256 ci8 co8 l29975 k4 s2 p1 bias bf16",
        "n1 ci16 co16 l242931 k11 s1 p25 d5 f16", "strided n128 ci16 co8 l61697 k7 s1 p15 d5 f32 tf32",
        "n8 ci12 co6 l169172 k4 s2 p1 f32"}) {
    EXPECT_EQ(kernel_of(words), "cuda.sm80.thin") << words;
  }
  for (const char* words : {"n16 ci512 co256 l8000 k16 s8 p4 bf16",
                            "strided n16 ci64 co64 l65536 k3 s1 p1 bf16", "n1 ci16 co16 l50 k4 s2 p1 bf16"}) {
    EXPECT_NE(kernel_of(words), "cuda.sm80.thin") << words;
  }
}

}  // namespace
}  // namespace tconv::cuda
