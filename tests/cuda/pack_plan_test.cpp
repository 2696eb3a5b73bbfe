// How packing is divided for cuda.sm90.dense and cuda.sm90.blocked: every channel and cout has a block and a
// place in a stage, and what a launch asks for fits, on a device that need not be here.
#include "cuda/sm90/pack_plan.hpp"

#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/dense.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using cuda_test::device;

// Beside the dynamic shared memory: scales, and the launcher's own limit.
constexpr int64_t kStaticBytes = 2 * 1024;

void expect_stream(const Sm90PackParams& k, int threads, const std::string& what) {
  const Sm90PackStream& s = k.stream;
  EXPECT_EQ(s.items % kSm90Rows, 0) << what;
  EXPECT_EQ(threads % s.items, 0) << what;
  EXPECT_GE(int64_t{k.parts} * s.tile, int64_t{k.taps} * kSm90Rows) << what;
  EXPECT_LT(int64_t{k.parts - 1} * s.tile, int64_t{k.taps} * kSm90Rows) << what << ": an empty part";
  EXPECT_LE(k.ranks, k.channel_blocks) << what;
}

// Every channel and cout has a block that looks at it, and a block that packs reads little of what they
// found.
void expect_look(const Sm90PackLaunch& launch, int64_t groups, const std::string& what) {
  const Sm90LookParams& look = launch.look;
  EXPECT_EQ(launch.look_blocks, groups * look.tiles * look.shares) << what;
  EXPECT_GE(int64_t{look.shares} * look.share_channels, look.channels) << what;
  EXPECT_LT(int64_t{look.shares - 1} * look.share_channels, look.channels) << what << ": an empty share";
  EXPECT_GE(int64_t{look.tiles} * look.tile_couts, look.cout_group) << what;
  EXPECT_LE(look.tile_couts, kSm90PackThreads) << what;
  EXPECT_LE(look.shares, kSm90Shares) << what;
  EXPECT_LE(look.shares * launch.params.block_couts, 1024) << what;
}

void expect_stage(const Sm90PackParams& k, int64_t element, const std::string& what) {
  const Sm90PackStage& s = k.stage;
  EXPECT_EQ(s.channels % s.granule, 0) << what;
  EXPECT_EQ(s.channels * k.steps.phases, s.blocks * 8) << what;
  if (s.direct) {
    // One stage for all: nothing is copied.
    EXPECT_GE(s.couts, k.part_couts) << what;
    EXPECT_GE(int64_t{s.blocks} * k.ranks, k.channel_blocks) << what;
    EXPECT_EQ(s.bytes, 0) << what;
    return;
  }
  const int64_t length = int64_t{s.channels} * k.steps.k;
  EXPECT_EQ(s.pitch % 16, 0) << what;
  EXPECT_EQ(s.pitch / 16 % 2, 1) << what;
  EXPECT_GE(s.pitch, 16 - element + length * element) << what << ": a line that begins behind 16 bytes";
  EXPECT_EQ(s.bytes, int64_t{s.couts} * s.pitch) << what;
  // A table's entries are offsets within a stage; threads copy whole lines between them.
  EXPECT_LE(s.blocks * 8, 2048) << what;
  EXPECT_LE(1 << s.log_line_threads, kSm90PackThreads) << what;
  EXPECT_LE(s.log_warp_rows, 3) << what;
}

TEST(Sm90Pack, EveryWeightHasABlockAndFits) {
  judge::Rng rng(28);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    core::Problem p = cuda_test::draw_transposed(rng);
    if (i % 2 == 1) p.operation = core::Operation::strided;
    if (!cuda_test::takes(kSm90Dense, p, d)) continue;
    ++taken;
    const TransposedForm form = transposed_form(p);
    const Sm90Plan plan = sm90_plan(form.product, d, false);
    for (const bool both : {false, true}) {
      if (both && !sm90_scales(plan.mode)) continue;
      const Sm90PackLaunch launch = sm90_pack_launch(plan, form, d, both);
      const Sm90PackParams& k = launch.params;
      const std::string what = text(p) + (both ? ", both layouts" : "");
      EXPECT_EQ(launch.stream, p.operation == core::Operation::transposed) << what;
      EXPECT_LE(static_cast<int64_t>(launch.shared_bytes) + kStaticBytes, d.shared_per_block) << what;
      EXPECT_EQ(launch.blocks, int64_t{plan.params.sizes.groups} * k.row_blocks * k.parts * k.ranks) << what;
      EXPECT_LE(k.parts * k.ranks, kSm90RowMarks) << what;
      EXPECT_GE(k.ranks, 1) << what;
      if (both) {
        expect_look(launch, plan.params.sizes.groups, what);
      } else {
        EXPECT_EQ(launch.look_blocks, 0) << what;
      }
      if (launch.stream) {
        expect_stream(k, launch.threads, what);
        continue;
      }
      EXPECT_GE(k.parts * k.part_couts, k.block_couts) << what;
      EXPECT_LT((k.parts - 1) * k.part_couts, k.block_couts) << what << ": an empty part";
      EXPECT_LE(k.ranks, k.granules) << what;
      EXPECT_GE(int64_t{k.granules} * k.stage.granule * k.steps.phases, k.channel_blocks * 8) << what;
      expect_stage(k, static_cast<int64_t>(core::size_of(p.dtype)), what);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(taken, 300);
}

TEST(Sm90Pack, SaysWhereWeightsComeOneByOne) {
  const auto weights = [](const std::string& problem) {
    plan::PlanOptions forced;
    forced.force_kernel = kSm90Dense.name;
    const auto made = plan::make_plan(core::parse(problem).value(), device("h200"), forced, "");
    for (const plan::StageLine& line : made.value().kernel->stages()) {
      if (line.stage == "weights") return line.words;
    }
    return std::string();
  };
  EXPECT_EQ(weights("strided n1 ci64 co64 l1000 k16 s8 p4 f32 tf32").find("one by one"), std::string::npos);
  EXPECT_NE(weights("strided n1 ci64 co64 l9000 k6007 s1 f32 tf32").find("one by one"), std::string::npos);
  EXPECT_EQ(weights("n1 ci64 co64 l1000 k6007 s1 f32 tf32").find("one by one"), std::string::npos);
}

}  // namespace
}  // namespace tconv::cuda
