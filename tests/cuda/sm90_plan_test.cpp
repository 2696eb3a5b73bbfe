// The choice of cuda.sm90.dense on a device that need not be here: what it refuses, what it chooses, and what
// must not depend on what.
#include <gtest/gtest.h>

#include <set>

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
  EXPECT_EQ(refusal("n1 ci64 co64 l100 k80 s80 p1 f16", "h200", true), "");
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
                           : reinterpret_cast<Kernel>(f.gather[plan.params.pass.lines][plan.config.tile]));
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
    for (int i = 0; i < 2 * kSm90GatherTiles; ++i) {
      const auto kernel = reinterpret_cast<Kernel>(f.gather[i % 2][i / 2]);
      EXPECT_TRUE(kernel == nullptr || chosen.contains(kernel))
          << name << ", gathered, " << kSm90Tiles[i / 2].name << (i % 2 == 1 ? ", line by line" : "");
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
  // Gathered, ieee float32 is held in float16 too, which is faster than by tensor copies with operands in
  // shared memory: 0.70 ms against 1.04, and of rows of an odd length 3.05 against 4.14 (H200).
  for (const char* text : {"n1 ci384 co179 l397975 k24 s1 p11 bias f32", "n4 ci512 co256 l32768 k4 s1 p1 f32",
                           "n64 ci128 co128 l65535 k3 s1 p0 f32"}) {
    EXPECT_TRUE(plan(text).config.scaled && !tile(text).tma) << text;
  }
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
  EXPECT_TRUE(takes("n16 ci64 co32 l64000 k4 s2 p1 f32 tf32"));
  EXPECT_FALSE(takes("n1 ci64 co8 l2000 k8 s4 p0 bias f32 tf32"));
  EXPECT_FALSE(takes("n4 ci4 co2 l220499 k8 s4 p2 bias f32 tf32"));
  EXPECT_FALSE(takes("n1 ci512 co512 l17 k12 s12 p0 bias f32 tf32"));
  EXPECT_TRUE(takes("n47 ci192 co96 l2819 k4 s2 p1 bias f32 tf32"));
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
