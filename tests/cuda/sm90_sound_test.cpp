// That plans of cuda.sm90.dense hold what the kernel relies on without a check of its own: every output has a
// column, everything fits, and the second launch looks at the tiles that the first one marks.
#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/gathered_places.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

// Every output has its column, also where phases are skewed and outputs have no taps: those go with the phase
// whose place modulo the stride is the nearest below theirs, as writer_rows.cuh counts it.
void expect_covered(const Sm90Plan& plan, const core::Problem& p) {
  const Sm90StageParams& k = plan.params;
  if (k.columns.folded || p.stride > 64 || p.lout() > 4096) return;
  for (int64_t o = 0; o < p.lout(); ++o) {
    const int64_t q = o + p.padding, place = q % p.stride;
    int64_t lead = 0, nearest = -1;
    for (int64_t a = 0; a < k.sizes.phases; ++a) {
      const int64_t slot = a * p.dilation % p.stride;
      if (slot > place || slot <= nearest) continue;
      nearest = slot;
      lead = a * p.dilation + place - slot;
    }
    const int64_t u = core::floor_div(q - lead, p.stride);
    ASSERT_EQ(u * p.stride + lead, q) << text(p);
    ASSERT_GE(u, k.columns.first_u) << text(p) << " output " << o;
    ASSERT_LT(u, k.columns.first_u + k.columns.sample_columns) << text(p) << " output " << o;
  }
}

// What tma_stages.cuh relies on.
void expect_tma_sound(const Sm90Plan& plan, const core::Problem& p, const Sm90Tile& tile, int element,
                      const std::string& what) {
  const Sm90StageParams& k = plan.params;
  const Sm90WarpgroupTile direct = sm90_warpgroup_tile(plan, tile);
  const int vector = 16 / element, warpgroups = direct.warpgroups;
  if (k.tma.tap_group > 0) {
    EXPECT_EQ(k.sizes.step, 1) << what;
    EXPECT_LE(k.sizes.taps, 4) << what;
    EXPECT_EQ(k.tma.tap_group, k.sizes.taps) << what;
    EXPECT_EQ(k.tma.row_classes, 1) << what;
  } else {
    const int parts = sm90_layout(plan.mode, plan.config.scaled).parts;
    const int operands = 2 * parts * kSm90Blocks * (direct.positions() + k.tma.halo) * 16;
    EXPECT_EQ(k.tma.halo % 8, 0) << what;
    EXPECT_EQ(k.writer.shared % 16, 0) << what;
    EXPECT_GE(k.writer.staged_bytes * (k.writer.windows ? 1 : 4), operands) << what;
  }
  EXPECT_FALSE(k.pass.partial || k.sizes.skewed) << what;
  // Each class's rows begin on 16 bytes, or equally far behind.
  const int behind = k.tma.row_classes > 1 ? vector : 0;
  EXPECT_EQ(k.tma.row_classes * k.sizes.x_step[1] % vector, 0) << what;
  EXPECT_EQ(k.tma.class_turn, k.sizes.x_step[1] % vector) << what;
  if (k.sizes.samples > 1 && k.tma.row_classes == 1) {
    EXPECT_EQ(k.sizes.x_step[0] % vector, 0) << what;
  } else if (k.sizes.samples > 1) {
    EXPECT_EQ(k.tma.sample_rows * k.sizes.x_step[1], k.sizes.x_step[0]) << what;
  }
  EXPECT_EQ(k.tma.region_bytes % 128, 0) << what;
  EXPECT_GE(k.tma.region_bytes, direct.channels / k.tma.row_classes * k.tma.pitch) << what;
  EXPECT_EQ(k.tma.stage_bytes, k.tma.row_classes * k.tma.region_bytes) << what;
  EXPECT_EQ(k.tma.pitch, k.tma.width * element) << what;
  EXPECT_GE(k.tma.width, direct.positions() + k.tma.halo + behind) << what;
  EXPECT_LE(k.tma.width, 256) << what;  // a box's limit
  EXPECT_GE(k.tma.halo, (k.sizes.taps - 1) * k.sizes.step) << what;
  EXPECT_EQ(k.tma.pitch % 16, 0) << what;
  EXPECT_EQ((k.columns.first_u - k.tma.halo) % vector, 0) << what;
  EXPECT_EQ(k.tiles.step % vector, 0) << what;
  EXPECT_LE(k.grid.walkers, k.tiles.rounds) << what;
  EXPECT_GE(int64_t{k.tiles.rounds} * warpgroups, int64_t{k.sizes.samples} * k.tiles.per_sample.value)
      << what;
  EXPECT_GE(k.weights.shared, warpgroups * k.tma.stages * k.tma.stage_bytes) << what;
  EXPECT_GE(k.writer.staged_bytes, (k.writer.pass_couts + 1) * k.writer.row_pitch * element) << what;
  EXPECT_EQ(k.writer.row_pitch % vector, 0) << what;
  EXPECT_EQ(k.writer.pass_rows % k.sizes.phases == 0 || k.writer.pass_rows == kSm90Rows, true) << what;
  // Windows leave no output out: a warpgroup tile's is at most 7 outputs late.
  const int64_t step = int64_t{k.tiles.step} * p.stride, all = int64_t{direct.positions()} * p.stride;
  EXPECT_LE(step + (k.writer.windows ? 7 : 0), all) << what;
  EXPECT_EQ(k.writer.windows ? step * element % k.writer.window_bytes : 0, 0) << what;
  const int64_t last = k.columns.first_u * p.stride - p.padding + (k.tiles.per_sample.value - 1) * step;
  EXPECT_GE(last + all, p.lout()) << what;
  if (k.writer.windows) {
    EXPECT_EQ(k.writer.row_vectors * vector, step) << what;
  }
}

// Everything that the kernel relies on without a check of its own.
void expect_sound(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + " on " + d.name + ": " + describe(plan, p);
  const Sm90StageParams& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const int element = sm90_layout(plan.mode, plan.config.scaled).element, vector = 16 / element;
  ASSERT_GT(plan.blocks, 0) << what;
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.grid.walkers} * k.grid.row_runs * k.sizes.groups * k.grid.splits) << what;
  EXPECT_LE(k.grid.splits, k.grid.units) << what;
  EXPECT_GE(plan.config.stages, 2) << what;
  EXPECT_LE(plan.config.stages, kSm90MaxStages) << what;
  EXPECT_EQ(k.pass.partial, k.grid.splits > 1 || k.sizes.cout_blocks > 1) << what;
  EXPECT_EQ(k.pass.partial, plan.partial_bytes > 0) << what;
  EXPECT_EQ(plan.config.scaled, plan.tile_marks_bytes > 0) << what;
  EXPECT_EQ(plan.packed_bytes % 16, 0) << what;
  EXPECT_LE(k.sizes.block_couts * k.sizes.phases, kSm90Rows) << what;
  // Outputs 0 and lout-1 have their columns.
  EXPECT_LE(k.columns.first_u * p.stride, p.padding) << what;
  if (k.sizes.skewed) {
    EXPECT_LE((k.columns.first_u - 1) * p.stride + (k.sizes.phases - 1) * p.dilation + p.stride, p.padding)
        << what;
  }
  if (!k.columns.folded) {
    EXPECT_GE((k.columns.first_u + k.columns.sample_columns) * p.stride, p.lout() + p.padding) << what;
  }
  if (tile.tma) {
    expect_tma_sound(plan, p, tile, element, what);
    return;
  }
  EXPECT_LE(k.grid.walkers, k.columns.column_tiles) << what;
  EXPECT_GE(k.gather.halo, k.sizes.step * (k.gather.tap_group - 1)) << what;
  EXPECT_EQ(k.gather.halo % 2, 0) << what;
  EXPECT_GE(k.gather.pitch, k.gather.width) << what;
  EXPECT_LE(k.gather.pitch * 16 >> 4, 0x3fff) << what;  // a descriptor's 14 bits
  EXPECT_FALSE(k.weights.resident) << what;
  const int parts = sm90_layout(plan.mode, plan.config.scaled).parts;
  const Sm90Storing storing = sm90_dense_storing(parts);
  cuda_test::expect_gathered_places(plan, storing, element, what);
  if (k.grid.turns) {  // both rings have room for two tiles of a block
    const int slabs =
        std::min(k.grid.slabs, (k.grid.units + k.grid.splits - 1) / k.grid.splits * k.grid.unit_slabs);
    EXPECT_GE(k.gather.stages, 2 * slabs * k.gather.tap_groups) << what;
    EXPECT_GE(k.weights.slots, 2 * slabs * k.sizes.taps) << what;
    EXPECT_EQ(parts, 1) << what;
  }
  if (!k.pass.partial) {
    EXPECT_EQ(k.pass.row_pitch % vector, 0) << what;
    EXPECT_GE(k.pass.row_pitch, k.pass.span + vector) << what;
    EXPECT_EQ(k.pass.columns, std::min(tile.n, storing.pass_bytes / element)) << what;
    EXPECT_EQ(k.pass.row_vectors * vector, k.pass.columns * k.sizes.stride) << what;
  }
  if (!k.pass.partial && k.columns.folded) {  // a window of a row has all outputs of a pass
    EXPECT_TRUE(k.pass.by_elements) << what;
    EXPECT_EQ(k.pass.window, std::min<int64_t>(p.lout(), k.pass.span)) << what;
    EXPECT_TRUE(k.pass.log_lanes == 7 || 1 << k.pass.log_lanes >= k.pass.window) << what;
  }
}

TEST(Sm90Sound, OverRandomProblems) {
  judge::Rng rng(7);
  int taken = 0, strided = 0, scaled = 0, split = 0;
  const core::DeviceInfo d = device("h200");
  plan::PlanOptions forced;
  forced.force_kernel = kSm90Dense.name;
  for (int i = 0; i < 4000; ++i) {
    const core::Problem asked = cuda_test::draw_transposed(rng), p = transposed_form(asked).product;
    const bool supported = kSm90Dense.supports(asked, d, forced).ok;  // of empty problems as well
    if (p.output_elements() == 0 || !supported) continue;
    const Sm90Plan plan = sm90_plan(p, d, false);
    EXPECT_TRUE(sm90_fits(p, d, false) && sm90_fits(p, d, true)) << text(p);
    expect_sound(plan, p, d);
    expect_covered(plan, p);
    ++(asked.operation == core::Operation::transposed ? taken : strided);
    // Small problems are not scaled to float16 by choice.
    if (!sm90_scales(plan.mode)) continue;
    for (int tile = 2; tile < static_cast<int>(sm90_tiles().size()); ++tile) {
      Sm90Config config = plan.config;
      config.scaled = true;
      config.tile = tile;
      config.walkers = config.stages = 0;
      if (!sm90_has(plan.mode, true, tile)) continue;
      const Sm90Plan first = sm90_plan_of(p, d, config);
      if (first.blocks == 0) continue;
      ++(plan.mode == Arithmetic::ieee ? split : scaled);
      expect_sound(first, p, d);
      const Sm90Plan second = sm90_second(first, p, d);
      expect_sound(second, p, d);
      // The marks that the first leaves are the tiles of the second.
      EXPECT_EQ(second.params.columns.column_tiles, first.params.columns.column_tiles);
      EXPECT_EQ(second.params.grid.row_runs, first.params.grid.row_runs);
      EXPECT_EQ(second.params.columns.first_u, first.params.columns.first_u);
      EXPECT_EQ(second.partial_bytes, first.partial_bytes);
      EXPECT_EQ(second.packed_bytes, first.packed_bytes);
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(strided, 500);
  EXPECT_GT(scaled, 50);
  EXPECT_GT(split, 20);
}

// Large problems of one run of row blocks whose weights stay draw tiles from counters; others go by turns.
TEST(Sm90Sound, LargeProblemsDrawTiles) {
  const auto plan_of = [](const char* text) {
    return sm90_plan(core::parse(text).value(), device("h200"), false);
  };
  for (const char* text :
       {"n64 ci128 co128 l65536 k3 p0 bf16", "n16 ci32 co64 l131072 k3 s2 p1 d2 f32 tf32"}) {
    const Sm90Plan plan = plan_of(text);
    EXPECT_TRUE(plan.config.drawn && plan.params.weights.resident) << text;
    EXPECT_EQ(plan.counter_bytes, 4) << text;
  }
  for (const char* text : {"n16 ci128 co128 l65536 k3 p0 bf16", "n64 ci128 co256 l65536 k3 p0 bf16"}) {
    const Sm90Plan plan = plan_of(text);
    EXPECT_FALSE(plan.config.drawn) << text;
    EXPECT_EQ(plan.counter_bytes, 0) << text;
  }
}

TEST(Sm90Sound, OutputsWithoutTapsBehindASkewedPhase) {
  for (const char* text :
       {"n1 ci4 co5 l1 k2 s5 p2 d6 bias f16", "n1 ci16 co20 l3 k2 s5 p2 d6 bias f16",
        "n2 ci32 co17 l9 k2 s7 p3 d9 bias f32 tf32", "n1 ci16 co16 l40 k3 s12 p5 d14 f16"}) {
    const core::Problem p = core::parse(text).value();
    for (int tile = 2; tile < 5; ++tile) {
      Sm90Config config;
      config.tile = tile;
      const Sm90Plan plan = sm90_plan_of(p, device("h200"), config);
      ASSERT_TRUE(plan.params.sizes.skewed) << text;
      expect_covered(plan, p);
    }
  }
}

}  // namespace
}  // namespace tconv::cuda
