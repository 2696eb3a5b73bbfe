// The choice of cuda.sm90.dense on a device that need not be here: what it refuses, that what it chooses
// fits, and what may not depend on what.
#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using cuda_test::device;

std::string refusal(const std::string& text, const char* name, bool forced = false) {
  return cuda_test::refusal(kSm90Dense, text, name, forced);
}

TEST(Sm90Plan, RefusesInWords) {
  EXPECT_EQ(refusal("n1 ci64 co64 l1000 k4 s2 p1 f32 tf32", "h200"), "");
  EXPECT_NE(refusal("n1 ci64 co64 l1000 k4 s2 p1 f32 tf32", "a100").find("capability"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l1000 k4 s2 p1 f32 tf32", "b200").find("capability"), std::string::npos);
  EXPECT_EQ(refusal("n64 ci128 co128 l65536 k3 s1 p0 f32", "h200"), "");
  EXPECT_NE(refusal("n1 ci16 co16 l10 k3 s1 p0 f32", "h200").find("slower"), std::string::npos);
  EXPECT_EQ(refusal("n1 ci16 co16 l10 k3 s1 p0 f32", "h200", true), "");
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 f64", "h200", true).find("f64"), std::string::npos);
  EXPECT_NE(refusal("gw n1 ci64 co64 l100 k4 s2 p1 f32", "h200").find("weight"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 xs6400,1,64 f32", "h200").find("positions"),
            std::string::npos);
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f16", "h200").find("16 channels"), std::string::npos);
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f32", "h200", true).find("16 channels"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k80 s80 p1 f16", "h200", true).find("64 phases"), std::string::npos);
}

// Every output has its column, also where phases are skewed and outputs have no taps: those go with the phase
// whose place modulo the stride is the nearest below theirs, as store.cuh counts it.
void expect_covered(const Sm90Plan& plan, const core::Problem& p) {
  const Sm90Params& k = plan.params;
  if (k.folded || p.stride > 64 || p.lout() > 4096) return;
  for (int64_t o = 0; o < p.lout(); ++o) {
    const int64_t q = o + p.padding, place = q % p.stride;
    int64_t lead = 0, nearest = -1;
    for (int64_t a = 0; a < k.phases; ++a) {
      const int64_t slot = a * p.dilation % p.stride;
      if (slot > place || slot <= nearest) continue;
      nearest = slot;
      lead = a * p.dilation + place - slot;
    }
    const int64_t u = core::floor_div(q - lead, p.stride);
    ASSERT_EQ(u * p.stride + lead, q) << text(p);
    ASSERT_GE(u, k.first_u) << text(p) << " output " << o;
    ASSERT_LT(u, k.first_u + k.sample_columns) << text(p) << " output " << o;
  }
}

// What direct.cuh relies on.
void expect_direct_sound(const Sm90Plan& plan, const core::Problem& p, const Sm90Tile& tile, int element,
                         const std::string& what) {
  const Sm90Params& k = plan.params;
  const Sm90DirectTile direct = sm90_direct_tile(plan, tile);
  const int vector = 16 / element, warpgroups = direct.warpgroups;
  if (k.tap_group > 0) {
    EXPECT_EQ(k.step, 1) << what;
    EXPECT_LE(k.taps, 4) << what;
    EXPECT_EQ(k.tap_group, k.taps) << what;
    EXPECT_EQ(k.row_classes, 1) << what;
  } else {
    const int parts = sm90_layout(plan.mode, plan.config.held).parts;
    const int operands = 2 * parts * kSm90Blocks * (direct.half_tile() + k.halo) * 16;
    EXPECT_EQ(k.halo % 8, 0) << what;
    EXPECT_EQ(k.shared_stage % 16, 0) << what;
    EXPECT_GE(k.staged_bytes * (k.windows ? 1 : 4), operands) << what;
  }
  EXPECT_FALSE(k.partial || k.skewed) << what;
  // Each class's rows begin on 16 bytes, or equally far behind.
  const int behind = k.row_classes > 1 ? vector : 0;
  EXPECT_EQ(k.row_classes * k.x_step[1] % vector, 0) << what;
  EXPECT_EQ(k.class_turn, k.x_step[1] % vector) << what;
  if (k.samples > 1 && k.row_classes == 1) {
    EXPECT_EQ(k.x_step[0] % vector, 0) << what;
  } else if (k.samples > 1) {
    EXPECT_EQ(k.sample_rows * k.x_step[1], k.x_step[0]) << what;
  }
  EXPECT_EQ(k.region_bytes % 128, 0) << what;
  EXPECT_GE(k.region_bytes, direct.channels / k.row_classes * k.raw_pitch) << what;
  EXPECT_EQ(k.raw_bytes, k.row_classes * k.region_bytes) << what;
  EXPECT_EQ(k.raw_pitch, k.width * element) << what;
  EXPECT_GE(k.width, direct.half_tile() + k.halo + behind) << what;
  EXPECT_LE(k.width, 256) << what;  // a box's limit
  EXPECT_GE(k.halo, (k.taps - 1) * k.step) << what;
  EXPECT_EQ(k.raw_pitch % 16, 0) << what;
  EXPECT_EQ((k.first_u - k.halo) % vector, 0) << what;
  EXPECT_EQ(k.half_step % vector, 0) << what;
  EXPECT_LE(k.walkers, k.half_rounds) << what;
  EXPECT_GE(int64_t{k.half_rounds} * warpgroups, int64_t{k.samples} * k.half_tiles.value) << what;
  EXPECT_GE(k.shared_weights, warpgroups * k.stages * k.raw_bytes) << what;
  EXPECT_GE(k.staged_bytes, (k.pass_couts + 1) * k.row_pitch * element) << what;
  EXPECT_EQ(k.row_pitch % vector, 0) << what;
  EXPECT_EQ(k.pass_rows % k.phases == 0 || k.pass_rows == kSm90Rows, true) << what;
  EXPECT_EQ(plan.counter_bytes > 0, k.resident) << what;
  // Windows leave no output out: a half tile's is at most 7 outputs late.
  const int64_t step = int64_t{k.half_step} * p.stride, all = int64_t{direct.half_tile()} * p.stride;
  EXPECT_LE(step + (k.windows ? 7 : 0), all) << what;
  EXPECT_EQ(k.windows ? step * element % k.window_bytes : 0, 0) << what;
  const int64_t last = k.first_u * p.stride - p.padding + (k.half_tiles.value - 1) * step;
  EXPECT_GE(last + all, p.lout()) << what;
  if (k.windows) {
    EXPECT_EQ(k.row_vectors * vector, step) << what;
  }
}

// Everything that the kernel relies on without a check of its own.
void expect_sound(const Sm90Plan& plan, const core::Problem& p, const core::DeviceInfo& d) {
  const std::string what = text(p) + " on " + d.name + ": " + describe(plan, p);
  const Sm90Params& k = plan.params;
  const Sm90Tile& tile = sm90_tile(plan.config);
  const int element = sm90_layout(plan.mode, plan.config.held).element, vector = 16 / element;
  ASSERT_GT(plan.blocks, 0) << what;
  EXPECT_LE(static_cast<int64_t>(plan.shared_bytes), d.shared_per_block) << what;
  EXPECT_EQ(plan.blocks, int64_t{k.walkers} * k.row_runs * k.groups * k.splits) << what;
  EXPECT_LE(k.splits, k.units) << what;
  EXPECT_GE(k.stages, 2) << what;
  EXPECT_LE(k.stages, kSm90MaxStages) << what;
  EXPECT_EQ(k.partial, k.folded || k.splits > 1) << what;
  EXPECT_EQ(k.partial, plan.partial_bytes > 0) << what;
  EXPECT_EQ(plan.config.held, plan.tile_marks_bytes > 0) << what;
  EXPECT_EQ(plan.packed_bytes % 16, 0) << what;
  EXPECT_LE(k.block_couts * k.phases, kSm90Rows) << what;
  // Outputs 0 and lout-1 have their columns.
  EXPECT_LE(k.first_u * p.stride, p.padding) << what;
  if (k.skewed) {
    EXPECT_LE((k.first_u - 1) * p.stride + (k.phases - 1) * p.dilation + p.stride, p.padding) << what;
  }
  if (!k.folded) {
    EXPECT_GE((k.first_u + k.sample_columns) * p.stride, p.lout() + p.padding) << what;
  }
  if (tile.direct) {
    expect_direct_sound(plan, p, tile, element, what);
    return;
  }
  EXPECT_LE(k.walkers, k.column_tiles) << what;
  EXPECT_GE(k.halo, k.step * (k.tap_group - 1)) << what;
  EXPECT_EQ(k.halo % 2, 0) << what;
  EXPECT_GE(k.x_pitch, k.width) << what;
  EXPECT_LE(k.x_pitch * 16 >> 4, 0x3fff) << what;  // a descriptor's 14 bits
  if (k.resident) {
    EXPECT_GE(int64_t{k.slots} * k.splits, int64_t{k.slabs} * k.taps) << what;
  }
  if (!k.partial) {
    EXPECT_EQ(k.row_pitch % vector, 0) << what;
    EXPECT_GE(k.row_pitch, k.span + vector) << what;
    EXPECT_EQ(k.row_vectors * vector, sm90_pass(tile, element) * k.stride) << what;
  }
}

TEST(Sm90Plan, SoundOverRandomProblems) {
  judge::Rng rng(7);
  int taken = 0, strided = 0, held = 0, split = 0;
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
    ++(asked.operation == core::Operation::forward ? taken : strided);
    // Small problems are not held in float16 by choice.
    if (!sm90_holds(plan.mode)) continue;
    for (int tile = 2; tile < static_cast<int>(sm90_tiles().size()); ++tile) {
      Sm90Config config = plan.config;
      config.held = true;
      config.tile = tile;
      config.walkers = config.stages = 0;
      if (!sm90_has(plan.mode, true, tile)) continue;
      const Sm90Plan first = sm90_plan_of(p, d, config);
      if (first.blocks == 0) continue;
      ++(plan.mode == Sm80Mode::ieee ? split : held);
      expect_sound(first, p, d);
      const Sm90Plan second = sm90_second(first, p, d);
      expect_sound(second, p, d);
      // The marks that the first leaves are the tiles of the second.
      EXPECT_EQ(second.params.column_tiles, first.params.column_tiles);
      EXPECT_EQ(second.params.row_runs, first.params.row_runs);
      EXPECT_EQ(second.params.first_u, first.params.first_u);
      EXPECT_EQ(second.partial_bytes, first.partial_bytes);
      EXPECT_EQ(second.packed_bytes, first.packed_bytes);
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(strided, 500);
  EXPECT_GT(held, 50);
  EXPECT_GT(split, 20);
}

// The short way says what the search says, also where little fits.
TEST(Sm90Plan, FitsWhereThePlanHasBlocks) {
  core::DeviceInfo small = device("h200");
  int fits = 0, not_fits = 0;
  for (const char* text : {"n1 ci64 co64 l400 k1 s40 p0 f16", "n1 ci64 co64 l400 k3 s60 p0 f32",
                           "n1 ci64 co64 l400 k4 s2 p1 bf16", "n1 ci512 co64 l40 k1 s40 p0 f32 tf32"}) {
    const core::Problem p = core::parse(text).value();
    for (int64_t kib = 8; kib <= 227; kib += 3) {
      small.shared_per_block = kib * 1024;
      for (const bool invariant : {false, true}) {
        const bool found = sm90_plan(p, small, invariant).blocks > 0;
        EXPECT_EQ(sm90_fits(p, small, invariant), found) << text << ", " << kib << " KiB";
        ++(found ? fits : not_fits);
      }
    }
  }
  EXPECT_GT(fits, 50);
  EXPECT_GT(not_fits, 50);
}

TEST(Sm90Plan, OutputsWithoutTapsBehindASkewedPhase) {
  for (const char* text :
       {"n1 ci4 co5 l1 k2 s5 p2 d6 bias f16", "n1 ci16 co20 l3 k2 s5 p2 d6 bias f16",
        "n2 ci32 co17 l9 k2 s7 p3 d9 bias f32 tf32", "n1 ci16 co16 l40 k3 s12 p5 d14 f16"}) {
    const core::Problem p = core::parse(text).value();
    for (int tile = 2; tile < 5; ++tile) {
      Sm90Config config;
      config.tile = tile;
      const Sm90Plan plan = sm90_plan_of(p, device("h200"), config);
      ASSERT_TRUE(plan.params.skewed) << text;
      expect_covered(plan, p);
    }
  }
}

TEST(Sm90Plan, BatchInvariantBitsDoNotDependOnN) {
  core::Problem p = core::parse("n1 ci512 co64 l40 k16 s8 p4 f32 tf32").value();
  const Sm90Plan one = sm90_plan(p, device("h200"), true);
  EXPECT_GT(one.config.splits, 1) << describe(one, p);
  for (int64_t n : {2, 7, 64, 1000}) {
    p.n = n;
    const Sm90Plan plan = sm90_plan(p, device("h200"), true);
    EXPECT_EQ(plan.config.splits, one.config.splits);
    EXPECT_FALSE(plan.config.held);
  }
}

TEST(Sm90Plan, PackedWeightsDoNotDependOnLength) {
  core::Problem p = core::parse("n1 ci256 co128 l10 k8 s4 p2 f32 tf32").value();
  plan::PlanOptions options;
  options.force_kernel = kSm90Dense.name;
  const auto first = kSm90Dense.make(p, device("h200"), options);
  for (int64_t l : {1, 100, 5000, 100000}) {
    p.l = l;
    const auto kernel = kSm90Dense.make(p, device("h200"), options);
    EXPECT_EQ(kernel->pack_key(), first->pack_key());
    EXPECT_EQ(kernel->packed_bytes(), first->packed_bytes());
  }
}

// Whatever its taps and the alignment of its rows.
TEST(Sm90Plan, LongSamplesGoDirect) {
  auto plan = [](const char* text) { return sm90_plan(core::parse(text).value(), device("h200"), false); };
  auto group = [&](const char* text) {
    const Sm90Plan p = plan(text);
    EXPECT_TRUE(sm90_tile(p.config).direct) << text << ": " << describe(p, core::parse(text).value());
    return p.params.tap_group;
  };
  EXPECT_EQ(group("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32"), 3);
  EXPECT_EQ(group("n64 ci128 co128 l65536 k3 s1 p0 bf16"), 3);
  EXPECT_EQ(group("n64 ci128 co128 l65536 k3 s1 p0 f32"), 3);
  EXPECT_EQ(group("n1 ci512 co256 l8000 k16 s8 p4 f32 tf32"), 2);
  EXPECT_EQ(group("n16 ci32 co64 l131072 k3 s2 p1 d2 bf16"), 3);
  EXPECT_EQ(group("n16 ci128 co64 l55104 k4 s2 p1 f32 tf32"), 2);
  EXPECT_EQ(group("n32 ci32 co64 l131072 k5 s1 p0 d3 f32 tf32"), 0);
  EXPECT_EQ(group("n64 ci128 co128 l65535 k3 s1 p0 f32 tf32"), 0);
  EXPECT_EQ(group("n64 ci128 co128 l65535 k3 s1 p0 bf16"), 0);
  auto tile = [&](const char* text) { return sm90_tile(plan(text).config); };
  EXPECT_EQ(group("n64 ci125 co128 l65535 k3 s1 p0 f32 tf32"), 0);
  EXPECT_EQ(group("n64 ci128 co128 l65535 k3 s1 p0 f32"), 0);
  EXPECT_EQ(group("n4 ci512 co256 l32768 k4 s1 p1 f32"), 0);
  // Samples that begin between rows.
  EXPECT_FALSE(tile("n64 ci128 co128 l65535 k3 s1 p0 xs8388483,65535,1 f32 tf32").direct);
}

// Few couts, where phases make rows of them and there is much to do; and batches of short samples.
TEST(Sm90Plan, LeavesWhatOthersDoFaster) {
  auto takes = [](const char* text, bool batch_invariant = false) {
    plan::PlanOptions options;
    options.batch_invariant = batch_invariant;
    return kSm90Dense.supports(core::parse(text).value(), device("h200"), options).ok;
  };
  EXPECT_TRUE(takes("n1 ci64 co8 l220499 k8 s4 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n1 ci64 co8 l2000 k8 s4 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n16 ci64 co8 l220499 k8 s2 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n16 ci8 co64 l220499 k8 s2 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n32 ci512 co512 l17 k12 s12 p0 bias f32 tf32"));
  EXPECT_TRUE(takes("n32 ci512 co512 l17 k12 s12 p0 bias f32 tf32", true));
  EXPECT_TRUE(takes("n1 ci512 co512 l17 k12 s12 p0 bias f32 tf32"));
}

// Direct sums have another order, so that nothing that depends on n may choose them.
TEST(Sm90Plan, BatchInvariantPlansDoNotGoDirect) {
  const Sm90Plan plan =
      sm90_plan(core::parse("n64 ci128 co128 l65536 k3 s1 p0 bf16").value(), device("h200"), true);
  EXPECT_FALSE(sm90_tile(plan.config).direct);
}

TEST(Sm90Plan, LargeProblemsHoldTf32InFloat16) {
  const core::Problem p = core::parse("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32").value();
  const Sm90Plan plan = sm90_plan(p, device("h200"), false);
  EXPECT_TRUE(plan.config.held) << describe(plan, p);
  EXPECT_EQ(plan.config.splits, 1);
}

}  // namespace
}  // namespace tconv::cuda
