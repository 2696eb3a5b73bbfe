// The choices of cuda.sm80.weight, cuda.simt.weight and cuda.simt.bias on devices that need not be here: what
// they refuse, and that what they choose fits.
#include "cuda/simt/weight_plan.hpp"

#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/refusal.hpp"
#include "cuda/simt/bias.hpp"
#include "cuda/simt/outer.hpp"
#include "cuda/simt/plain.hpp"
#include "cuda/simt/weight_staged.hpp"
#include "cuda/sm80/weight_layout.hpp"
#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight_plan.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

std::string refusal(const std::string& text, const char* name, bool forced = false) {
  return cuda_test::refusal(kSm80Weight, text, name, forced);
}

core::Problem drawn(judge::Rng& rng, core::Operation operation) {
  judge::DrawOptions draw;
  draw.gradients = false;
  core::Problem p = judge::draw_valid(rng, draw);
  p.operation = operation;
  return p;
}

TEST(WeightPlan, RefusesInWords) {
  EXPECT_EQ(refusal("gw n16 ci64 co64 l1000 k4 s2 p1 f32 tf32", "a100"), "");
  EXPECT_NE(refusal("gw n1 ci64 co64 l100 k4 s2 p1 f32 tf32", "t4").find("capability"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 f32", "h200").find("operation"), std::string::npos);
  EXPECT_NE(refusal("gw n5 ci64 co64 l3 k4 s2 p1 f32", "h200", true).find("16 positions"), std::string::npos);
  EXPECT_NE(refusal("gw n1 ci64 co64 l100 k4 s1100000000 p1 f32", "h200").find("2^30"), std::string::npos);
}

// Every product of the problem lies in one place of one tile, and every byte of a stage within its slot.
void expect_sound(const WeightPlan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + " on " + d.name + ": " + describe(plan, p);
  const WeightParams& k = plan.params;
  const WeightTile& tile = kWeightTileTable[plan.config.tile];
  ASSERT_GT(plan.blocks, 0) << what;
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.tiles} * k.splits) << what;
  // Columns.
  EXPECT_LE(k.rows * k.block_taps, tile.columns()) << what;
  EXPECT_EQ(k.rows, k.block_couts * k.block_phases) << what;
  EXPECT_TRUE(k.block_couts == 1 || k.block_phases == k.phases) << what;
  EXPECT_GE(int64_t{k.cout_blocks} * k.block_couts, p.cout_per_group()) << what;
  EXPECT_GE(int64_t{k.phase_blocks} * k.block_phases, k.phases) << what;
  EXPECT_GE(int64_t{k.tap_blocks} * k.block_taps, k.taps) << what;
  EXPECT_GE(int64_t{k.phases - 1} + int64_t{k.taps - 1} * k.tap_stride + k.tap_stride, p.k) << what;
  EXPECT_GE(int64_t{k.row_tiles} * tile.rows(), p.cin_per_group()) << what;
  EXPECT_EQ(int64_t{k.tiles}, p.groups * k.row_tiles * k.cout_blocks * k.phase_blocks * k.tap_blocks) << what;
  // Positions.
  EXPECT_EQ(1 << k.piece_shift, k.piece) << what;
  EXPECT_EQ(1 << k.pieces_shift, k.stage_pieces) << what;
  EXPECT_GE(int64_t{k.sample_pieces} * k.piece, p.l) << what;
  EXPECT_GE(int64_t{k.stages} * k.stage_pieces, k.pieces) << what;
  EXPECT_LE(k.chain * k.piece * k.stage_pieces, kWeightChain) << what;
  EXPECT_TRUE(!k.direct || (k.splits == 1 && k.stages <= k.chain)) << what;
  EXPECT_TRUE(k.splits == 1 || k.splits <= k.stages) << what;
  // Shared memory.
  const int element = static_cast<int>(size_of(p.dtype));
  EXPECT_EQ(k.piece * element % kWeightStepBytes, 0) << what;
  EXPECT_EQ(k.x_pitch % 16, 0) << what;
  EXPECT_GE(k.x_pitch, k.piece * k.stage_pieces * element) << what;
  const int64_t reach = int64_t{k.stride} * (k.piece - 1 + int64_t{k.block_taps - 1} * k.step) +
                        int64_t{k.block_phases - 1} * k.dilation + 1;
  EXPECT_GE(k.piece_pitch, reach + 16 / element - 1) << what;
  EXPECT_EQ(k.piece_pitch * element % 16, 0) << what;
  EXPECT_GE(k.y_pitch, k.stage_pieces * k.piece_pitch * element) << what;
  EXPECT_EQ(k.y_pitch % 16, 0) << what;
  EXPECT_GE(k.slot_bytes, tile.rows() * k.x_pitch + k.block_couts * k.y_pitch) << what;
  EXPECT_LE(1 << k.line_shift, 32) << what;
  EXPECT_EQ(k.slot_bytes % 128, 0) << what;
  EXPECT_LE((k.piece * k.stage_pieces) / (16 / element), tile.threads()) << what;  // a thread a unit of x
  EXPECT_LE(k.piece * k.stage_pieces, tile.threads()) << what;
}

TEST(WeightPlan, SoundOverRandomProblems) {
  judge::Rng rng(11);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    plan::PlanOptions forced;
    forced.force_kernel = kSm80Weight.name;
    const core::DeviceInfo d = device(i % 3 == 0 ? "a100" : i % 3 == 1 ? "h200" : "rtx4090");
    if (!kSm80Weight.supports(p, d, forced).ok) continue;
    expect_sound(weight_plan(p, d), p, d);
    ++taken;
  }
  EXPECT_GT(taken, 2500);
}

// The choice among kernels passes over a search whose result could not be below this; and what it looks at is
// what runs.
TEST(WeightPlan, NoPlanIsBelowTheLeastTime) {
  judge::Rng rng(18);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    const core::DeviceInfo d = device(i % 2 == 0 ? "h200" : "a100");
    if (!weight_supports(p).ok || weight_search(p, d).blocks == 0) continue;
    const std::string what = text(p) + " on " + d.name;
    const WeightPlan found = weight_search(p, d), plan = weight_plan(p, d);
    EXPECT_GE(found.cost.total, weight_least_seconds(p, d)) << what;
    EXPECT_EQ(found.cost.total, plan.cost.total) << what;
    EXPECT_EQ(found.config, plan.config) << what;
    ++taken;
    if (d.sm != 90 || !sm90_weight_supports(p).ok || sm90_weight_search(p, d).blocks == 0) continue;
    const Sm90WeightPlan hopper = sm90_weight_search(p, d);
    EXPECT_GE(hopper.cost.total, sm90_weight_least_seconds(p, d)) << what;
    EXPECT_EQ(hopper.cost.total, sm90_weight_plan(p, d).cost.total) << what;
  }
  EXPECT_GT(taken, 2000);
}

// Every tile with every number of taps that it may have.
// Bounds leave families out of the comparison; none that would be faster.
TEST(WeightPlan, TheChoiceIsTheFastestByTheModels) {
  judge::Rng rng(12, 21);
  const char* const kNames[] = {"cuda.sm90.weight_rows", "cuda.sm90.weight_turned", "cuda.sm90.weight",
                                "cuda.sm80.weight",      "cuda.sm80.thin_weight",   "cuda.simt.weight"};
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    core::Problem p = drawn(rng, core::Operation::weight);
    p.has_bias = p.bias_of_x = false;
    if (p.y_elements() == 0 || p.x_elements() == 0) continue;
    p.n *= rng.between(1, 64);
    p.l *= rng.between(1, 200);
    p.x_contiguous = p.y_contiguous = true;
    if (!validate(p).ok()) continue;
    const core::DeviceInfo& d = device(rng.pick({"h200", "h100", "a100"}));
    const KernelChoice choice = weight_choice(p, d);
    for (const char* name : kNames) {
      plan::PlanOptions forced;
      forced.force_kernel = name;
      const auto made = plan::make_plan(p, d, forced);
      if (!made.ok()) continue;
      ++compared;
      EXPECT_LE(choice.ms, 1.001 * made.value().kernel->predicted_ms())
          << text(p) << " " << d.name << ": " << choice.entry->name << ", not " << name;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(WeightPlan, SoundInEveryConfiguration) {
  judge::Rng rng(12);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 300; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    if (!weight_supports(p).ok) continue;
    for (int tile = 0; tile < kWeightTiles; ++tile) {
      if (!weight_has(arithmetic_of(p), tile)) continue;
      for (int taps : {1, 2, 3, 7, 300}) {
        const WeightPlan plan = weight_plan_of(p, d, {tile, 32, 2, taps, 1 + i % 70, 1 + i % 5});
        if (plan.blocks == 0) continue;
        expect_sound(plan, p, d);
        ++taken;
      }
    }
  }
  EXPECT_GT(taken, 3000);
}

// On Hopper: the same blocks and pieces, in slots of 1024 bytes of which two or more fit.
TEST(WeightPlan, HopperIsSound) {
  judge::Rng rng(15);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    if (!sm90_weight_supports(p).ok) continue;
    const Sm90WeightPlan plan = sm90_weight_plan(p, d);
    if (plan.blocks == 0) continue;
    ++taken;
    const std::string what = text(p) + ": " + describe(plan);
    const Sm90WeightParams& params = plan.params;
    const WeightParams& k = params.k;
    const Sm90WeightShape& shape = kSm90WeightShapeTable[plan.config.shape];
    const int element = static_cast<int>(size_of(p.dtype)), positions = k.piece * k.stage_pieces;
    EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
    EXPECT_EQ(plan.blocks, int64_t{k.tiles} * k.splits) << what;
    EXPECT_LE(k.rows * k.block_taps, shape.rows()) << what;
    EXPECT_TRUE(k.block_couts == 1 || k.block_phases == k.phases) << what;
    EXPECT_GE(int64_t{k.cout_blocks} * k.block_couts, p.cout_per_group()) << what;
    EXPECT_GE(int64_t{k.phase_blocks} * k.block_phases, k.phases) << what;
    EXPECT_GE(int64_t{k.tap_blocks} * k.block_taps, k.taps) << what;
    EXPECT_GE(int64_t{k.row_tiles} * shape.columns, p.cin_per_group()) << what;
    EXPECT_GE(int64_t{k.stages} * k.stage_pieces, k.pieces) << what;
    EXPECT_LE(int64_t{k.chain} * positions * element / kWeightStepBytes, kSm90WeightChain) << what;
    EXPECT_TRUE(!k.direct || (k.splits == 1 && k.stages <= k.chain)) << what;
    EXPECT_EQ(k.piece * element % kWeightStepBytes, 0) << what;
    EXPECT_EQ(positions * element % kSm90WeightBlock, 0) << what;
    EXPECT_EQ(params.x_bytes, shape.columns * positions * element) << what;
    EXPECT_EQ(params.x_bytes % 1024, 0) << what;
    EXPECT_GE(k.piece_pitch, weight_reach(k) + 16 / element - 1) << what;
    EXPECT_GE(k.y_pitch, k.stage_pieces * k.piece_pitch * element) << what;
    EXPECT_EQ(k.y_pitch % 16, 0) << what;
    EXPECT_GE(k.slot_bytes, params.x_bytes + k.block_couts * k.y_pitch) << what;
    EXPECT_LT(k.slot_bytes, 1 << 24) << what;  // a lane keeps its place in 24 bits
    EXPECT_EQ(k.slot_bytes % 1024, 0) << what;
    EXPECT_GE(params.slots, 2) << what;
    EXPECT_LE(16 * params.slots, kSm90WeightBarriers) << what;
    EXPECT_TRUE(!params.tensor || k.piece * element % kSm90WeightBlock == 0) << what;
  }
  EXPECT_GT(taken, 400);
}

TEST(WeightPlan, NoLayerFallsToTheSlowPath) {
  judge::Rng rng(13);
  for (int i = 0; i < 1500; ++i) {
    for (const core::Operation operation : {core::Operation::weight, core::Operation::bias}) {
      core::Problem p = drawn(rng, operation);
      for (const char* name : {"h200", "v100"}) {
        const core::DeviceInfo d = device(name);
        auto plan = plan::make_plan(p, d, {}, "");
        if (!plan.ok()) continue;  // lout below zero
        const bool slow = plan.value().entry == &kSimtPlain;
        EXPECT_FALSE(slow && weight_supports(p).ok) << text(p) << " on " << name;
      }
    }
  }
}

TEST(WeightPlan, FewChannelsAGroupTakeNoTensorCores) {
  const core::DeviceInfo d = device("h200");
  auto kernel = [&](const char* text) {
    return std::string(plan::make_plan(core::parse(text).value(), d, {}, "").value().entry->name);
  };
  EXPECT_EQ(kernel("gw n16 ci512 co512 l1000 k4 s2 p1 g512 f32 tf32"), "cuda.simt.weight");
  EXPECT_NE(kernel("gw n16 ci256 co256 l8192 k8 s4 p2 g8 f32 tf32"), "cuda.simt.weight");
  EXPECT_EQ(kernel("gb n16 ci256 co256 l8192 k8 s4 p2 g8 f32 tf32"), "cuda.simt.bias");
}

// Where positions are few, the time is that of writing dw: no kernel that adds positions across threads.
TEST(WeightPlan, FewPositionsAreOuterProducts) {
  const core::DeviceInfo d = device("h200");
  for (const char* text : {"gw n1 ci2048 co1024 l4 k3 s1 p1 f32", "gw n1 ci1026 co1 l2 k1024 s256 p512 f32",
                           "gw n1 ci1000 co500 l3 k7 s2 p0 f32 tf32"}) {
    const auto plan = plan::make_plan(core::parse(text).value(), d, {}, "");
    EXPECT_EQ(plan.value().entry, &kSimtOuter) << text;
  }
}

TEST(WeightPlan, OuterSplitsCoverThePositions) {
  judge::Rng rng(15);
  const core::DeviceInfo d = device("h200");
  for (int i = 0; i < 1000; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    const simt::OuterPlan plan = simt::outer_plan(p, d);
    const simt::OuterParams& k = plan.params;
    EXPECT_GE(k.splits * k.split_positions, k.positions) << text(p);
    EXPECT_LE(k.split_positions, simt::kOuterLongest) << text(p);
    EXPECT_TRUE(k.splits == 1 || (k.splits - 1) * k.split_positions < k.positions) << text(p);
    EXPECT_GE(k.row_tiles * simt::kOuterTileTable[plan.tile].rows, k.cin_group) << text(p);
  }
}

// Splits are whole chunks and cover the segments; no lane adds more than kStagedLongest products one after
// the other; what a tile reads of dy lies within its window and its buffer.
TEST(WeightPlan, StagedChunksCoverThePositions) {
  judge::Rng rng(16);
  const core::DeviceInfo d = device("h200"), t4 = device("t4");
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    const simt::StagedPlan plan = simt::staged_plan(p, d);
    if (plan.blocks == 0) continue;
    ++taken;
    const simt::StagedParams& k = plan.params;
    const int64_t segment = int64_t{1} << k.segment_log2;
    EXPECT_GE(k.splits * k.split_segments, k.segments) << text(p);
    EXPECT_TRUE(k.splits == 1 || (k.splits - 1) * k.split_segments < k.segments) << text(p);
    EXPECT_EQ(k.split_segments % k.chunk_segments, 0) << text(p);
    EXPECT_GE(k.by_sample_segments.value * segment, p.l) << text(p);
    EXPECT_LE(k.split_segments * segment / k.slices / 32, simt::kStagedLongest) << text(p);
    EXPECT_EQ(k.chunk_segments * segment, int64_t{k.runs} * simt::kStagedRun) << text(p);
    EXPECT_EQ(k.runs % k.slices, 0) << text(p);
    const int64_t last = p.stride * (segment - 1) + p.dilation * (k.taps - 1);
    EXPECT_EQ(k.window, last + 1) << text(p);
    EXPECT_LT(last / p.stride, k.segment_pitch) << text(p);
    EXPECT_LE(int64_t{k.chunk_segments} * k.segment_pitch, k.phase_pitch) << text(p);
    EXPECT_LE(2 * sizeof(float) * static_cast<std::size_t>(k.buffer_words), plan.shared_bytes) << text(p);
    EXPECT_LE(plan.shared_bytes, 112u * 1024) << text(p);
    EXPECT_LE(simt::staged_plan(p, t4).shared_bytes, static_cast<std::size_t>(t4.shared_per_block))
        << text(p);
    EXPECT_EQ(plan.part_bytes > 0, k.splits > 1) << text(p);
  }
  EXPECT_GT(taken, 700);
}

// Shares cover the steps once, and steps the positions; no lane adds more than kWeightLongest products one
// after the other; steps that are added without a test have all products inside x and dy.
TEST(WeightPlan, SimtStepsCoverThePositions) {
  judge::Rng rng(14);
  const core::DeviceInfo d = device("h200");
  int inside = 0;
  for (int i = 0; i < 1000; ++i) {
    const core::Problem p = drawn(rng, core::Operation::weight);
    if (!simt::weight_refusal(p).empty()) continue;
    const core::Polyphase f(p);
    for (int tile = 0; tile < simt::kWeightTiles; ++tile) {
      const simt::WeightPlan plan = simt::weight_plan_of(p, d, {tile, 1 + i % 3 * 7});
      EXPECT_GE(plan.seconds, simt::weight_least_seconds(p, d)) << text(p);
      const simt::WeightParams& k = plan.params;
      const int64_t of_block = int64_t{k.share_steps} * k.tile_warps, sample_steps = k.by_sample_steps.value;
      EXPECT_GE(k.splits * of_block, k.steps) << text(p);
      EXPECT_TRUE(k.splits == 1 || (k.splits - 1) * of_block < k.steps) << text(p);
      EXPECT_LE(k.share_steps, simt::kWeightLongest) << text(p);
      const int64_t tile_taps = plan.tile().taps, taps = std::min(tile_taps, f.taps);
      EXPECT_GE(sample_steps * k.lane_positions, p.l + (taps - 1) * f.step) << text(p);
      EXPECT_GE(k.by_tap_tiles.value * tile_taps, f.taps) << text(p);
      EXPECT_LE(k.lane_positions * k.lane_phases, 32) << text(p);
      EXPECT_EQ(plan.part_bytes > 0, k.splits > 1) << text(p);
      if (k.inside_first >= k.inside_end) continue;
      ++inside;
      const int64_t first = int64_t{k.inside_first} * k.lane_positions;
      const int64_t last = int64_t{k.inside_end} * k.lane_positions - 1;
      const int64_t last_tap = (k.by_tap_tiles.value - 1) * tile_taps * f.step;
      EXPECT_LE(k.inside_end, sample_steps) << text(p);
      EXPECT_GE(first - (tile_taps - 1) * f.step, 0) << text(p);
      EXPECT_LT(last, p.l) << text(p);
      EXPECT_GE(first * p.stride - p.padding, 0) << text(p);
      EXPECT_LT((last + last_tap) * p.stride + (f.count - 1) * p.dilation - p.padding, p.lout()) << text(p);
    }
  }
  EXPECT_GT(inside, 1000);
}

}  // namespace
}  // namespace tconv::cuda
