// The choice of cuda.sm90.dense on a device that need not be here: what it refuses, that what it chooses
// fits, and what must not depend on what.
#include <gtest/gtest.h>

#include <set>

#include "core/polyphase.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/tensor.hpp"
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
  EXPECT_EQ(refusal("n16 ci64 co64 l20000 k4 s2 p1 f32 tf32", "h200"), "");
  EXPECT_NE(refusal("n1 ci64 co64 l1000 k4 s2 p1 f32 tf32", "a100").find("capability"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l1000 k4 s2 p1 f32 tf32", "b200").find("capability"), std::string::npos);
  EXPECT_EQ(refusal("n64 ci128 co128 l65536 k3 s1 p0 f32", "h200"), "");
  EXPECT_NE(refusal("n1 ci16 co16 l10 k3 s1 p0 f32", "h200").find("expected to be faster"),
            std::string::npos);
  EXPECT_EQ(refusal("n1 ci16 co16 l10 k3 s1 p0 f32", "h200", true), "");
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 f64", "h200", true).find("f64"), std::string::npos);
  EXPECT_NE(refusal("gw n1 ci64 co64 l100 k4 s2 p1 f32", "h200").find("weight"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k4 s2 p1 xs6400,1,64 f32", "h200").find("positions"),
            std::string::npos);
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f16", "h200").find("expected"), std::string::npos);
  EXPECT_NE(refusal("n1 ci8 co64 l100 k4 s2 p1 f32", "h200", true).find("16 channels"), std::string::npos);
  EXPECT_NE(refusal("n1 ci64 co64 l100 k80 s80 p1 f16", "h200", true).find("64 phases"), std::string::npos);
}

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
  EXPECT_EQ(plan.counter_bytes > 0, k.weights.resident) << what;
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
  EXPECT_EQ(k.pass.partial, k.columns.folded || k.grid.splits > 1) << what;
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
  if (!k.pass.partial) {
    EXPECT_EQ(k.pass.row_pitch % vector, 0) << what;
    EXPECT_GE(k.pass.row_pitch, k.pass.span + vector) << what;
    EXPECT_EQ(k.pass.row_vectors * vector, sm90_pass(tile, element) * k.sizes.stride) << what;
  }
}

TEST(Sm90Plan, SoundOverRandomProblems) {
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

// A layer as networks have them, of any mode; empty outputs and what the kernel refuses are drawn again.
core::Problem draw_layer(judge::Rng& rng) {
  auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[rng.between(0, static_cast<int64_t>(values.size()) - 1)];
  };
  while (true) {
    core::Problem p;
    p.n = one_of({1, 1, 2, 4, 8, 16, 32, 64});
    p.cin = one_of({16, 24, 32, 64, 96, 100, 128, 256, 384, 512, 768, 1024});
    p.cout = one_of({16, 24, 32, 48, 64, 96, 100, 128, 192, 256, 384, 512, 768});
    p.l = one_of({32, 50, 100, 128, 200, 256, 500, 800, 2000, 4000, 8001, 16384, 20000, 65535, 110208});
    p.stride = one_of({1, 1, 1, 2, 2, 3, 4, 5, 8});
    p.k = p.stride == 1 ? one_of({1, 3, 4, 5, 7, 11, 16}) : p.stride * one_of({1, 2, 2, 3, 4});
    p.dilation = one_of({1, 1, 1, 3, 5, 9});
    p.padding = one_of({0, (p.k - 1) / 2, p.dilation * (p.k - 1) / 2});
    const int mode = static_cast<int>(rng.between(0, 3));
    p.dtype = mode == 0 ? core::DType::f16 : mode == 1 ? core::DType::bf16 : core::DType::f32;
    p.precision = mode == 2 ? core::Precision::tf32 : core::Precision::ieee;
    if (core::validate(p).ok() && core::work_of(p).flops < 2e12 && tensor_supports(p).ok) return p;
  }
}

// Each kernel that is compiled is what some plan takes: one that none does is to go.
TEST(Sm90Plan, EveryKernelIsSomePlansChoice) {
  using Kernel = void (*)();
  std::set<Kernel> chosen;
  const core::DeviceInfo d = device("h200");
  auto add = [&](const Sm90Plan& plan) {
    const bool split = plan.mode == Arithmetic::ieee;
    const Sm90Functions f = plan.config.scaled
                                ? (split ? sm90_split : sm90_scaled)()
                                : by_arithmetic(plan.mode, sm90_tf32, sm90_ieee, sm90_f16, sm90_bf16)();
    const Sm90Tile& tile = sm90_tile(plan.config);
    chosen.insert(tile.tma ? reinterpret_cast<Kernel>(f.tma[tile.row_blocks - 1][plan.params.tma.tap_group])
                           : reinterpret_cast<Kernel>(f.gather[plan.config.tile]));
  };
  judge::Rng rng(3);
  for (int i = 0; i < 4000; ++i) {
    const core::Problem p = draw_layer(rng);
    const Sm90Plan plan = sm90_plan(p, d, i % 4 == 0);
    if (plan.blocks == 0) continue;
    add(plan);
    if (plan.config.scaled) add(sm90_second(plan, p, d));
  }
  const struct {
    const char* name;
    Sm90Functions functions;
  } all[] = {{"tf32", sm90_tf32()}, {"ieee", sm90_ieee()},     {"f16", sm90_f16()},
             {"bf16", sm90_bf16()}, {"scaled", sm90_scaled()}, {"split", sm90_split()}};
  for (const auto& [name, f] : all) {
    for (int tile = 0; tile < kSm90GatherTiles; ++tile) {
      const auto kernel = reinterpret_cast<Kernel>(f.gather[tile]);
      EXPECT_TRUE(kernel == nullptr || chosen.contains(kernel))
          << name << ", gathered, " << kSm90Tiles[tile].name;
    }
    for (int i = 0; i < 2 * (kSm90MaxTapGroup + 1); ++i) {
      const auto kernel = reinterpret_cast<Kernel>(f.tma[i % 2][i / 2]);
      EXPECT_TRUE(kernel == nullptr || chosen.contains(kernel))
          << name << ", by tensor copies, " << i % 2 + 1 << " row blocks, " << i / 2 << " taps";
    }
  }
}

// The shortcut gives the same answer as the search, even if little fits.
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
      ASSERT_TRUE(plan.params.sizes.skewed) << text;
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
    EXPECT_FALSE(plan.config.scaled);
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
    EXPECT_TRUE(sm90_tile(p.config).tma) << text << ": " << describe(p, core::parse(text).value());
    return p.params.tma.tap_group;
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
  EXPECT_EQ(group("n32 ci32 co64 l131072 k5 s1 p0 d3 f32"), 0);
  // Gathered, ieee float32 is held in float16 too: long sums have little of it by tensor copies.
  const Sm90Config split = plan("n1 ci384 co179 l397975 k24 s1 p11 bias f32").config;
  EXPECT_TRUE(split.scaled && !sm90_tile(split).tma);
  // Samples that begin between rows.
  EXPECT_FALSE(tile("n64 ci128 co128 l65535 k3 s1 p0 xs8388483,65535,1 f32 tf32").tma);
}

// Few positions, few channels that memory binds, short samples. With batch_invariant one sample decides.
TEST(Sm90Plan, LeavesWhatOthersDoFaster) {
  auto takes = [](const char* text, bool batch_invariant = false) {
    plan::PlanOptions options;
    options.batch_invariant = batch_invariant;
    return kSm90Dense.supports(core::parse(text).value(), device("h200"), options).ok;
  };
  EXPECT_TRUE(takes("n1 ci64 co8 l220499 k8 s4 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n1 ci64 co8 l2000 k8 s4 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n4 ci4 co2 l220499 k8 s4 p2 bias f32 tf32"));
  EXPECT_FALSE(takes("n1 ci512 co512 l17 k12 s12 p0 bias f32 tf32"));
  EXPECT_TRUE(takes("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32"));
  EXPECT_EQ(takes("n64 ci512 co512 l17 k12 s12 p0 bias f32 tf32", true),
            takes("n1 ci512 co512 l17 k12 s12 p0 bias f32 tf32", true));
}

// Direct sums have another order, so that nothing that depends on n may choose them.
TEST(Sm90Plan, BatchInvariantPlansDoNotGoDirect) {
  const Sm90Plan plan =
      sm90_plan(core::parse("n64 ci128 co128 l65536 k3 s1 p0 bf16").value(), device("h200"), true);
  EXPECT_FALSE(sm90_tile(plan.config).tma);
}

TEST(Sm90Plan, LargeProblemsHoldTf32InFloat16) {
  const core::Problem p = core::parse("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32").value();
  const Sm90Plan plan = sm90_plan(p, device("h200"), false);
  EXPECT_TRUE(plan.config.scaled) << describe(plan, p);
  EXPECT_EQ(plan.config.splits, 1);
}

}  // namespace
}  // namespace tconv::cuda
