// The plans of cuda.sm90.weight_rows and cuda.sm90.weight_turned on devices that need not be here: tiles and
// stages reach all of the problem, copies stay within their boxes and boxes within shared memory.
#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

core::Problem drawn(judge::Rng& rng, bool rows) {
  judge::DrawOptions draw;
  draw.gradients = false;
  core::Problem p = judge::draw_valid(rng, draw);
  p.operation = core::Operation::weight;
  if (rows) p.dtype = core::DType::f32;
  if (p.dtype == core::DType::f32) {
    p.precision = rng.chance(50) ? core::Precision::tf32 : core::Precision::ieee;
  }
  return p;
}

// The positions of dy that a tap pairs with positions of x are those of a stage.
template <class Plan>
void expect_covered(const Plan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + ": " + describe(plan);
  const Sm90WeightUnitsParams& k = plan.params;
  const core::Polyphase form(p);
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.tiles} * k.splits) << what;
  EXPECT_TRUE(k.splits == 1 || k.splits <= k.stages) << what;
  EXPECT_TRUE(plan.part_bytes > 0 || k.direct) << what;
  EXPECT_GE(int64_t{k.row_tiles} * plan.shape().rows() / 64, k.row_blocks) << what;
  EXPECT_GE(int64_t{k.row_blocks}, int64_t{k.plane_blocks} * k.taps) << what;
  EXPECT_GE(int64_t{k.plane_blocks} * 64, int64_t{k.cin_group} * k.x_planes) << what;
  EXPECT_GE(int64_t{k.column_tiles} * plan.shape().columns, int64_t{k.cout_group} * k.y_planes) << what;
  EXPECT_GE(int64_t{k.taps} * k.x_planes, form.taps) << what;
  EXPECT_EQ(k.y_planes, form.count) << what;
  // Of every tap: the first and the last output that meet positions of x.
  for (int64_t tap = 0; tap < p.k; ++tap) {
    const int64_t at = tap * p.dilation - p.padding;
    const int64_t first = std::max<int64_t>(0, core::ceil_div(-at, p.stride));
    const int64_t last = std::min(p.l - 1, core::floor_div(p.lout() - 1 - at, p.stride));
    if (first > last) continue;
    // Output stride*u + phase - padding, where u is x's position and the shift of the tap.
    const int64_t shift = tap / form.count * form.step;
    EXPECT_GE(first + shift, k.first_u) << what << " tap " << tap;
    EXPECT_LT(last + shift, k.first_u + k.pitch) << what << " tap " << tap;
  }
  for (const Sm90WeightUnitRows* raw : {static_cast<const Sm90WeightUnitRows*>(&plan.params.x_raw),
                                        static_cast<const Sm90WeightUnitRows*>(&plan.params.y_raw)}) {
    EXPECT_EQ(raw->width * size_of(p.dtype) % 16, 0U) << what;
    EXPECT_LE(raw->width, 256) << what;
    EXPECT_GE(int64_t{raw->boxes} * raw->box_columns, raw->columns) << what;
    EXPECT_GE(raw->width, raw->stride * (raw->box_columns - 1) + raw->phases) << what;
  }
}

void expect_rows(const Sm90WeightRowsPlan& plan, const core::Problem& p) {
  const std::string what = text(p) + ": " + describe(plan);
  const Sm90WeightRowsParams& k = plan.params;
  EXPECT_GE(k.slots, 2) << what;
  EXPECT_GE(k.places, k.slots) << what;
  EXPECT_LE(8 * (3 * k.slots + 2 * k.places), kSm90WeightRowsBarriers) << what;
  EXPECT_LE(kSm90WeightRowsBarriers + plan.shape().columns / 8 * 8, kSm90WeightRowsHead) << what;
  const int64_t used = int64_t{k.slots} * k.slot_bytes + int64_t{k.places} * k.place_bytes;
  EXPECT_LE(kSm90WeightRowsHead + used, static_cast<int64_t>(plan.shared_bytes)) << what;
  EXPECT_EQ(k.slot_bytes % 128, 0) << what;
  EXPECT_EQ(k.y_at % 128, 0) << what;
  const int parts = plan.mode == Arithmetic::ieee ? 3 : 1;
  EXPECT_GE(k.slot_bytes, k.y_at + parts * k.part_bytes) << what;
  // Lanes of neighbouring rows meet other banks.
  EXPECT_EQ(k.x_raw.width / 4 % 2, 1) << what;
  for (const Sm90WeightRowsRaw* raw : {&k.x_raw, &k.y_raw}) {
    EXPECT_LE(raw->box_rows, 256) << what;
    EXPECT_EQ(raw->class_bytes, raw->box_rows * raw->width * 4) << what;
    EXPECT_GE(raw->box_bytes, raw->class_bytes << raw->log_classes) << what;
    // A copy may begin up to three elements early.
    EXPECT_GE(raw->width, raw->stride * (raw->box_columns - 1) + raw->phases + 3) << what;
  }
  // What a row of the tile reads farthest on, from the shift of its last tap.
  const int64_t taps_span = k.x_blocks == 1 ? std::min(k.taps, plan.shape().rows() / 64) - 1 : k.taps - 1;
  EXPECT_GE(k.x_raw.columns, k.stage_positions + taps_span * k.shift + (k.x_planes - 1) * k.step) << what;
  EXPECT_GE(int64_t{k.y_raw.boxes} * k.y_raw.box_columns, k.stage_positions) << what;
}

TEST(WeightUnitsPlan, RowsAreSound) {
  judge::Rng rng(41);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const core::Problem p = drawn(rng, true);
    if (!sm90_weight_rows_supports(p).ok) continue;
    const Sm90WeightRowsConfig config{
        static_cast<int>(rng.between(0, std::ssize(kSm90WeightRowsShapeTable) - 1)), rng.pick({32, 64, 128}),
        rng.chance(50), static_cast<int>(rng.between(1, 140))};
    for (const Sm90WeightRowsPlan& plan :
         {sm90_weight_rows_plan(p, d), sm90_weight_rows_plan_of(p, d, config)}) {
      if (plan.blocks == 0) continue;
      ++taken;
      expect_covered(plan, p, d);
      expect_rows(plan, p);
    }
  }
  EXPECT_GT(taken, 300);
}

TEST(WeightUnitsPlan, TurnedIsSound) {
  judge::Rng rng(42);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const core::Problem p = drawn(rng, false);
    if (!sm90_weight_turned_supports(p).ok) continue;
    const Sm90WeightTurnedConfig config{
        static_cast<int>(rng.between(0, std::ssize(kSm90WeightBlockedShapeTable) - 1)), rng.chance(50),
        static_cast<int>(rng.between(1, 140))};
    for (const Sm90WeightTurnedPlan& plan :
         {sm90_weight_turned_plan(p, d), sm90_weight_turned_plan_of(p, d, config)}) {
      if (plan.blocks == 0) continue;
      ++taken;
      expect_covered(plan, p, d);
      EXPECT_GE(plan.params.slots, 2) << text(p);
      EXPECT_EQ(plan.params.y_at % 128, 0) << text(p);
      EXPECT_GE(plan.params.part_bytes, plan.params.y_at) << text(p);
    }
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace tconv::cuda
