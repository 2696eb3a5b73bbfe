// The planes of cuda.sm90.weight_blocked on devices that need not be here: the sums over the axis of all
// samples are the weight gradient's, and what a plan asks for fits.
#include "cuda/sm90/weight_blocked_plan.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/refusal.hpp"
#include "cuda/sm90/weight.hpp"
#include "judge/draw.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

core::Problem drawn(judge::Rng& rng) {
  judge::DrawOptions draw;
  draw.gradients = false;
  core::Problem p = judge::draw_valid(rng, draw);
  p.operation = core::Operation::weight;
  return p;
}

Sm90WeightBlockedConfig drawn_config(judge::Rng& rng) {
  auto below = [&](int most) { return static_cast<int>(rng.between(0, most - 1)); };
  return {below(kSm90WeightBlockedShapes), 1 << below(4), 1 << below(4), 1 + below(5),
          rng.chance(30) ? 128 : 0,        rng.chance(50)};
}

int sample_of(int64_t n, int64_t i) {
  return static_cast<int>((n * 31 + i * 17 + i * i * 5) % 11) - 5;
}

// One channel of x with one of dy, as the pass and the main kernel take them: taps from planes and shifts.
std::vector<int64_t> sums_of_planes(const Sm90WeightBlockedPlan& first) {
  Sm90WeightBlockedPlan plan = first;
  const Sm90WeightBlockedParams& k = plan.params;
  const int positions = plan.layout().positions;
  std::vector<int64_t> dw(static_cast<std::size_t>(k.k));
  for (int chunk = 0; chunk < plan.chunks; ++chunk) {
    set_chunk(plan, chunk);
    // Element `at` of a row of a plane.
    auto element = [&](const Sm90WeightPassOperand& o, int plane, int64_t at) -> int64_t {
      const int64_t place = o.first + at;
      if (place < 0 || place / k.pitch >= k.samples) return 0;
      const int64_t i = o.stride * (place % k.pitch) + plane * o.dilation - o.padding;
      return i < 0 || i >= o.length ? 0 : sample_of(place / k.pitch, i) + (&o == &plan.pass.y ? 3 : 0);
    };
    for (int64_t at = 0; at < int64_t{k.stages} * positions; ++at) {
      for (int tap = 0; tap < k.taps; ++tap) {
        const int64_t from = at + k.front - int64_t{tap} * k.shift;
        EXPECT_GE(from, 0);
        for (int v = 0; v < k.x_planes; ++v) {
          const int64_t x = element(plan.pass.x, v, from);
          for (int a = 0; x != 0 && a < k.y_planes; ++a) {
            const int64_t kk = a + (v + int64_t{tap} * k.x_planes) * k.tap_stride;
            if (kk < k.k) dw[static_cast<std::size_t>(kk)] += x * element(plan.pass.y, a, at);
          }
        }
      }
    }
  }
  return dw;
}

TEST(WeightBlockedPlan, PlanesHaveEveryProductOnce) {
  judge::Rng rng(31);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 4000; ++i) {
    const core::Problem p = drawn(rng);
    if (!sm90_weight_blocked_supports(p).ok || p.n * p.l * p.k > 20000 || p.lout() > 4000) continue;
    const Sm90WeightBlockedPlan plan = sm90_weight_blocked_plan_of(p, d, drawn_config(rng));
    if (plan.blocks == 0 || plan.positions > 4000) continue;
    ++taken;
    std::vector<int64_t> dw(static_cast<std::size_t>(p.k));
    for (int64_t k = 0; k < p.k; ++k) {
      for (int64_t n = 0; n < p.n; ++n) {
        for (int64_t l = 0; l < p.l; ++l) {
          const int64_t o = p.stride * l + p.dilation * k - p.padding;
          if (o < 0 || o >= p.lout()) continue;
          dw[static_cast<std::size_t>(k)] += int64_t{sample_of(n, l)} * (sample_of(n, o) + 3);
        }
      }
    }
    EXPECT_EQ(sums_of_planes(plan), dw) << text(p) << ": " << describe(plan);
  }
  EXPECT_GT(taken, 500);
}

void expect_sound(const Sm90WeightBlockedPlan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + ": " + describe(plan);
  const Sm90WeightBlockedParams& k = plan.params;
  const Sm90WeightBlockedLayout layout = plan.layout();
  const Sm90WeightBlockedShape shape = plan.shape();
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_GE(k.slots, 2) << what;
  EXPECT_LE(16 * k.slots, kSm90WeightBlockedBarriers) << what;
  EXPECT_EQ(k.slot_bytes % 1024, 0) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.tiles} * k.splits) << what;
  EXPECT_GE(int64_t{k.plane_blocks} * 64, int64_t{k.cin_group} * k.x_planes) << what;
  EXPECT_GE(int64_t{k.in_tiles.rows} * shape.rows() / 64, k.row_blocks) << what;
  EXPECT_GE(int64_t{k.in_tiles.columns} * shape.columns, int64_t{k.cout_group} * k.y_planes) << what;
  EXPECT_GE(int64_t{k.taps} * k.x_planes * k.tap_stride, p.k) << what;
  // Columns of the second run belong to no output of the last shift, whose tiles leave them out.
  const WeightColumns& c = k.in_columns;
  EXPECT_EQ(c.first + c.rest, k.y_planes) << what;
  EXPECT_EQ(c.first_run % 8, 0) << what;
  EXPECT_GE(c.first_run, c.first * k.cout_group) << what;
  EXPECT_EQ(k.tiles, p.groups * k.in_tiles.of_group) << what;
  if (k.in_rows.early_shifts < k.taps) {
    EXPECT_EQ(k.in_rows.early_blocks, k.plane_blocks * k.in_rows.early_shifts) << what;
    EXPECT_EQ(k.in_rows.early_shifts, k.taps - 1) << what;
    EXPECT_LT(k.in_tiles.of_group, k.in_tiles.rows * k.in_tiles.columns) << what;
    EXPECT_EQ((k.taps - 1) * k.tap_stride + c.first, p.k) << what;
    EXPECT_GE(int64_t{k.in_tiles.early_rows} * shape.rows(), int64_t{k.plane_blocks} * (k.taps - 1) * 64)
        << what;
    EXPECT_GE(int64_t{k.in_tiles.last_columns} * shape.columns, c.first_run) << what;
  } else {
    EXPECT_EQ(c.rest, 0) << what;
  }
  EXPECT_LE(k.y_planes, k.tap_stride) << what;
  EXPECT_LE(int64_t{k.chain} * layout.row_bytes() / layout.parts / kWeightStepBytes, kSm90WeightChain)
      << what;
  // One split goes straight to dw, or through partial sums to whole lines.
  const Sm90WeightBlockedSumParams sum = sm90_weight_blocked_sum(k, shape);
  EXPECT_TRUE(k.splits == 1 ? k.direct || sum.line_bytes > 0 : !k.direct) << what;
  EXPECT_LE(sum.line_bytes, 48 * 1024) << what;
  if (sum.line_bytes > 0) {
    EXPECT_EQ(sum.line_rows, k.taps * k.x_planes) << what;
    EXPECT_GE(int64_t{sum.by_chunks.value} * sum.by_chunk_units.value, sum.by_units.value) << what;
  }
  EXPECT_TRUE(plan.part_bytes > 0 || (k.direct && plan.chunks == 1)) << what;
  EXPECT_GE(k.slots * k.slot_bytes, shape.rows() * (shape.columns + 8) * 4) << what;  // staged sums
  // What tensor copies rely on: boxes of whole units, places on multiples of 16 bytes.
  EXPECT_EQ(k.x_box % layout.unit_planes, 0) << what;
  EXPECT_EQ(k.y_box % layout.unit_planes, 0) << what;
  EXPECT_LE(k.x_box, 64) << what;
  EXPECT_LE(k.y_box, shape.columns) << what;
  EXPECT_EQ(k.front % layout.unit_positions, 0) << what;
  EXPECT_TRUE(k.taps == 1 || k.shift % layout.unit_positions == 0) << what;
  EXPECT_GE(k.front, (k.taps - 1) * k.shift) << what;
  EXPECT_EQ(k.chunk_positions, int64_t{k.chunk_stages} * layout.positions) << what;
  EXPECT_GE(plan.chunks * k.chunk_positions, plan.positions) << what;
  for (const Sm90WeightPassOperand* o : {&plan.pass.x, &plan.pass.y}) {
    EXPECT_GE(int64_t{o->rows} * layout.unit_planes, int64_t{o->channels} * o->planes) << what;
    const int64_t bytes = o == &plan.pass.x ? plan.x_bytes : plan.y_bytes;
    EXPECT_GE(bytes, o->part_units * layout.parts * 16) << what;
    EXPECT_EQ(bytes % 256, 0) << what;
  }
}

TEST(WeightBlockedPlan, SoundOverRandomProblems) {
  judge::Rng rng(32);
  const core::DeviceInfo d = device("h200");
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const core::Problem p = drawn(rng);
    if (!sm90_weight_blocked_supports(p).ok) continue;
    const Sm90WeightBlockedPlan best = sm90_weight_blocked_plan(p, d),
                                other = sm90_weight_blocked_plan_of(p, d, drawn_config(rng));
    for (const Sm90WeightBlockedPlan* plan : {&best, &other}) {
      if (plan->blocks == 0) continue;
      ++taken;
      expect_sound(*plan, p, d);
    }
  }
  EXPECT_GT(taken, 1500);
}

}  // namespace
}  // namespace tconv::cuda
