// The plans of cuda.sm90.weight_rows and cuda.sm90.weight_turned on devices that need not be here: tiles and
// stages reach all of the problem, copies stay within their boxes and boxes within shared memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/polyphase.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"
#include "plan/planner.hpp"

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
  p.bias_of_x = p.has_bias && rng.chance(20);
  return p;
}

// Stages have each element of dy in one place, and sums do not lie where others do.
void expect_runs(const Sm90WeightRowsPlan& plan, const std::string& what) {
  const Sm90WeightRowsRaw& y = plan.params.y_raw;
  EXPECT_EQ(y.boxes * y.box_columns, plan.params.stage_positions) << what;
  EXPECT_GE(y.width, y.stride * y.box_columns + 3) << what << ": a copy may begin up to three elements early";
  EXPECT_EQ(plan.params.bias_each, plan.params.splits * plan.params.y_planes) << what;
}
void expect_runs(const Sm90WeightTurnedPlan& plan, const std::string& what) {
  const Sm90WeightRaw& y = plan.params.y_raw;
  EXPECT_EQ(y.stride * y.box_columns % 16, 0) << what;
  EXPECT_EQ(y.columns, plan.params.stage_positions) << what;
  EXPECT_EQ(y.stride * (y.columns - (y.boxes - 1) * y.box_columns) % 16, 0) << what;
  EXPECT_GT(y.columns - (y.boxes - 1) * y.box_columns, 0) << what;
  EXPECT_LE(y.stride * y.box_columns, y.width) << what;
  EXPECT_LE(y.piece_units, 4) << what << ": units that lanes tell apart";
  EXPECT_EQ(plan.params.bias_each, plan.params.splits) << what;
}
int early(const Sm90WeightRowsPlan&) {
  return 0;
}
int early(const Sm90WeightTurnedPlan& plan) {
  return plan.mode == Arithmetic::ieee ? 3 : 7;
}
// How often the elements of a row that begins `late` elements behind 16 bytes are summed.
std::vector<int> times_summed(const Sm90WeightRowsParams& k, int) {
  std::vector<int> times(static_cast<std::size_t>(k.lout));
  for (int64_t u = k.first_u; u < k.first_u + k.pitch; ++u) {
    for (int64_t a = 0; a < k.stride; ++a) {  // phases, and what lies behind the last one
      const int64_t o = k.stride * u + a - k.padding;
      if (o >= 0 && o < k.lout) ++times[static_cast<std::size_t>(o)];
    }
  }
  return times;
}
std::vector<int> times_summed(const Sm90WeightTurnedParams& k, int late) {
  std::vector<int> times(static_cast<std::size_t>(k.lout));
  const Sm90WeightRaw& y = k.y_raw;
  const int eight = weight_turned_positions(Arithmetic::ieee) == k.stage_positions ? 4 : 8;
  for (int stage = 0; stage < k.sample_stages; ++stage) {
    for (int box = 0; box < y.boxes; ++box) {
      const int column = box * y.box_columns, columns = std::min(y.box_columns, y.columns - column);
      const int64_t start = int64_t{y.stride} * column - y.padding;  // as make_piece() has it
      const int64_t before = (start + y.stride * k.first_u + late) & (eight - 1);
      const int64_t first = start - before + y.stride * (k.first_u + int64_t{stage} * k.stage_positions);
      for (int64_t o = std::max<int64_t>(0, first); o < std::min(k.lout, first + y.stride * columns); ++o) {
        ++times[static_cast<std::size_t>(o)];
      }
    }
  }
  return times;
}

template <class Plan>
void expect_summed(const Plan& plan, const core::Problem& p) {
  const std::string what = text(p) + ": " + describe(plan);
  const auto& k = plan.params;
  EXPECT_TRUE(p.writes_grad_bias() && !p.bias_of_x) << what;
  EXPECT_LE(p.stride * k.first_u - p.padding, 0) << what;
  EXPECT_GE(p.stride * (k.first_u + k.pitch) - p.padding - early(plan), p.lout()) << what;
  EXPECT_EQ(int64_t{k.sample_stages} * k.stage_positions, k.pitch) << what;
  EXPECT_EQ(k.stages, p.n * k.sample_stages) << what;
  EXPECT_EQ(k.bias_at % 8, 0) << what;
  EXPECT_GE(k.bias_at, int64_t{k.slots} * k.slot_bytes) << what;
  EXPECT_GE(k.bias_at, int64_t{plan.shape().rows()} * (plan.shape().columns + 8) * 4) << what;
  expect_runs(plan, what);
  for (int late = 0; p.lout() < 1 << 16 && late <= early(plan); ++late) {
    const std::vector<int> times = times_summed(k, late);
    EXPECT_EQ(std::ranges::count(times, 1), p.lout()) << what << ", late " << late;
  }
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
  EXPECT_GE(int64_t{k.in_tiles.rows} * plan.shape().rows() / 64, k.row_blocks) << what;
  EXPECT_GE(int64_t{k.row_blocks}, int64_t{k.plane_blocks} * k.taps) << what;
  EXPECT_GE(int64_t{k.plane_blocks} * 64, int64_t{k.cin_group} * k.x_planes) << what;
  EXPECT_GE(int64_t{k.in_tiles.columns} * plan.shape().columns, int64_t{k.cout_group} * k.y_planes) << what;
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
  if (k.sums_y) expect_summed(plan, p);
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

std::string planned(const std::string& line, const char* force = "") {
  plan::PlanOptions options;
  options.force_kernel = force;
  return plan::make_plan(core::parse(line).value(), device("h200"), options, "").value().name();
}

TEST(WeightUnitsPlan, SumsDyBesideTheWeight) {
  for (const char* problem : {"n64 ci128 co128 l65536 k3 s1 p0", "n32 ci32 co64 l131072 k5 s1 p0 d3",
                              "n16 ci32 co64 l131072 k3 s2 p1 d2"}) {
    const std::string weight = std::string("weight ") + problem;
    for (const char* mode : {" bf16", " f32"}) {
      const std::string alone = planned(weight + mode);
      EXPECT_TRUE(alone == "cuda.sm90.weight_rows" || alone == "cuda.sm90.weight_turned") << alone;
      const bool wide =
          std::string(problem).starts_with("n64") && mode == std::string(" bf16");  // 128 columns
      EXPECT_EQ(planned(weight + " bias" + mode), alone + (wide ? " + cuda.simt.bias" : ""));
    }
    EXPECT_EQ(planned(weight + " bias f32 tf32"), "cuda.sm90.weight_rows + cuda.simt.bias");
    EXPECT_EQ(planned(weight + " bias f32 tf32", "cuda.sm90.weight"), "cuda.sm90.weight + cuda.simt.bias");
    // Of a Conv1d the sums are those of x.
    EXPECT_EQ(planned(weight + " xbias f32 tf32"), "cuda.sm90.weight_rows + cuda.simt.bias");
    EXPECT_EQ(planned(weight + " xbias f16"), "cuda.sm90.weight_turned + cuda.simt.bias");
  }
  // A row of a copy does not hold runs of 16 elements of 17 phases.
  EXPECT_EQ(planned("weight n2 ci64 co64 l4096 k17 s17 bias bf16", "cuda.sm90.weight_turned"),
            "cuda.sm90.weight_turned + cuda.simt.bias");
  EXPECT_EQ(planned("weight n2 ci64 co8 l4096 k8 s8 bias bf16", "cuda.sm90.weight_turned"),
            "cuda.sm90.weight_turned");
}

// A layer whose gradients these kernels may be the fastest for.
core::Problem long_rows(judge::Rng& rng) {
  core::Problem p;
  p.operation = core::Operation::weight;
  p.dtype = rng.pick({core::DType::f32, core::DType::f16, core::DType::bf16});
  if (p.dtype == core::DType::f32 && rng.chance(50)) p.precision = core::Precision::tf32;
  p.n = rng.between(1, 32);
  p.cin = 8 * rng.between(1, 40), p.cout = 8 * rng.between(1, 40);
  p.l = 8 * rng.between(50, 20'000);
  p.stride = rng.pick({1, 1, 2, 3, 8});
  p.k = p.stride + rng.between(0, 7);
  p.dilation = p.stride == 1 ? rng.between(1, 4) : 1;
  p.padding = rng.between(0, p.dilation * (p.k - 1));
  p.has_bias = true;
  p.bias_of_x = rng.chance(20);
  return p;
}

// An entry that sums dy asks for the choice with the bias, the others without: one of them accepts.
TEST(WeightUnitsPlan, OneKernelTakesABias) {
  judge::Rng rng(43);
  int summed = 0, moved = 0;
  for (int i = 0; i < 400; ++i) {
    const core::Problem p = long_rows(rng);
    const auto plan = plan::make_plan(p, device("h200"), {}, "");
    ASSERT_TRUE(plan.ok()) << text(p);
    core::Problem alone = p;
    alone.has_bias = alone.bias_of_x = false;
    const auto without = plan::make_plan(alone, device("h200"), {}, "");
    if (plan.value().bias_entry != nullptr) {
      EXPECT_EQ(plan.value().entry, without.value().entry) << text(p);
      continue;
    }
    ++summed;
    moved += plan.value().entry != without.value().entry;
    EXPECT_FALSE(p.bias_of_x) << text(p);
    EXPECT_GE(plan.value().workspace_bytes(false), static_cast<std::size_t>(p.cout) * 8) << text(p);
  }
  EXPECT_GT(summed, 30);
  EXPECT_GT(moved, 0) << "no kernel was taken because it sums dy";
}

}  // namespace
}  // namespace tconv::cuda
