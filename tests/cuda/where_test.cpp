// Who makes an output: every output has a holder of its own, which the plan's blocks and threads have.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cuda/entries.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/plan/report.hpp"
#include "cuda/refusal.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "cuda/simt/depthwise_plan.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/simt/outer.hpp"
#include "cuda/simt/plain.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/simt/strided_sliding.hpp"
#include "cuda/simt/weight_plan.hpp"
#include "cuda/simt/weight_staged.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

using core::Problem;
using cuda_test::device;

constexpr const char* kLines[] = {"n2 ci16 co40 l70 k4 s2 p1 bias f32 tf32",
                                  "n3 ci20 co17 l33 k7 s3 p2 d2 f16", "n1 ci512 co24 l20 k9 s2 p1 f32",
                                  "n5 ci32 co32 l12 k3 s1 p1 g2 f64", "n2 ci16 co33 l45 k5 s4 p0 d3 bf16"};

// holder(place) over all outputs that have a phase; tile tells apart what a register holds in turn.
template <class HolderOf>
void expect_own_holders(const Problem& p, int64_t blocks, int threads, HolderOf&& holder) {
  const Phases phases = phases_of(p);
  std::map<std::pair<Holder, int64_t>, int64_t> seen;
  for (int64_t e = 0; e < p.y_elements(); ++e) {
    const OutputPlace at = output_place(p, phases, e);
    EXPECT_EQ((at.n * p.cout + at.cout) * p.lout() + at.o, e);
    if (!at.has_phase()) continue;
    EXPECT_EQ(p.stride * at.u + at.phase * p.dilation - p.padding, at.o) << text(p);
    const auto [held, tile] = holder(at);
    EXPECT_LT(held.block, blocks) << text(p);
    EXPECT_LT(held.thread, threads) << text(p);
    const auto [it, fresh] = seen.try_emplace({held, tile}, e);
    EXPECT_TRUE(fresh) << text(p) << ": elements " << it->second << " and " << e << " at " << text(held);
    if (!fresh) return;
  }
}

TEST(Where, Sm80HoldersAreDistinct) {
  for (const char* line : kLines) {
    const Problem p = core::parse(line).value();
    const Sm80Plan plan = sm80_plan(p, device("h200"), false);
    const Sm80Tile& tile = kSm80Tiles[plan.config.tile];
    expect_own_holders(p, plan.blocks, tile.threads(), [&](const OutputPlace& at) {
      const int64_t column = at.n * plan.params.sample_columns + at.u - plan.params.first_u;
      return std::pair(holder_of(plan, at), column / tile.columns());
    });
  }
}

TEST(Where, SimtDenseHoldersAreDistinct) {
  for (const char* line : kLines) {
    const Problem p = core::parse(line).value();
    const DensePlan plan = plan_dense(p, device("h200"), false);
    const DenseTile& tile = dense_tiles(p.dtype)[static_cast<std::size_t>(plan.tile)];
    expect_own_holders(p, plan.blocks(p), tile.threads(),
                       [&](const OutputPlace& at) { return std::pair(holder_of(plan, p, at), int64_t{0}); });
  }
}

TEST(Where, NarrowHoldersAreDistinct) {
  for (const char* line :
       {"n2 ci4 co6 l300 k4 s2 p1 f32", "n1 ci3 co1 l999 k7 s1 p3 f16", "n2 ci8 co4 l77 k40 s11 p5 f64"}) {
    const Problem p = core::parse(line).value();
    const simt::NarrowConfig c = simt::plan_narrow(p, device("h200"), false, false);
    expect_own_holders(p, simt::grid_blocks(c, p), c.threads(), [&](const OutputPlace& at) {
      return std::pair(simt::holder_of(c, p, at), int64_t{0});
    });
  }
}

// Every way, and outputs without taps too.
TEST(Where, DepthwiseHoldersAreDistinct) {
  for (const char* line : {"n3 ci6 co6 l300 k4 s2 p1 g6 f32", "n2 ci6 co12 l9 k2 s3 g6 bias op2 bf16",
                           "n5 ci8 co4 l1 k5 s4 p2 g4 f16", "n2 ci4 co4 l700 k5 s1 p2 g4 f16",
                           "n4 ci3 co3 l1 k3 s2 p1 g3 f16", "n3 ci5 co5 l41 k2 s7 p3 g5 f32"}) {
    const Problem p = core::parse(line).value();
    std::vector<simt::DepthwiseConfig> ways = {simt::depthwise_flat(p)};
    if (simt::depthwise_rows_refusal(p, device("h200")).empty()) {
      ways.push_back(simt::depthwise_rows(p, device("h200"), false));
      if (p.cin_per_group() == 1) ways.push_back(simt::depthwise_rows(p, device("h200"), true));
    }
    for (const simt::DepthwiseConfig& c : ways) {
      std::map<Holder, int64_t> seen;
      for (int64_t e = 0; e < p.y_elements(); ++e) {
        const Holder held = holder_of(c, p, output_place(p, phases_of(p), e));
        EXPECT_LT(held.block, c.blocks) << line;
        EXPECT_LT(held.thread, c.threads) << line;
        const auto [it, fresh] = seen.try_emplace(held, e);
        ASSERT_TRUE(fresh) << line << ": elements " << it->second << " and " << e << " at " << text(held);
      }
    }
  }
}

// In every tile, whether it fits the problem well or not; in windows, which overlap, too.
TEST(Where, Sm90HoldersAreDistinct) {
  int plans = 0, by_copies = 0, in_windows = 0;
  for (const char* line : {"n2 ci32 co40 l520 k3 s1 p1 bf16", "n2 ci32 co70 l521 k5 s1 p2 d3 f32 tf32",
                           "n2 ci40 co36 l602 k8 s3 p5 f16", "n1 ci32 co64 l700 k3 s2 p1 d2 f32 tf32",
                           "n2 ci64 co48 l130 k16 s8 p4 g2 f32", "n1 ci16 co20 l400 k2 s5 p2 d6 f16",
                           "n3 ci48 co33 l61 k4 s2 p1 bf16"}) {
    const Problem p = core::parse(line).value();
    for (int i = 0; i < 4 * static_cast<int>(sm90_tiles().size()); ++i) {
      Sm90Config c;
      c.tile = i / 4;
      c.resident = sm90_tile(c).tma && c.tile % 2 == 0;
      c.folded = i % 2 == 1;
      c.scaled = i / 2 % 2 == 1;
      if (!sm90_has(arithmetic_of(p), c.scaled, c.tile) || (c.folded && p.n == 1)) continue;
      const Sm90Plan plan = sm90_plan_of(p, device("h200"), c);
      if (plan.blocks == 0) continue;
      ++plans;
      by_copies += sm90_tile(c).tma;
      in_windows += sm90_tile(c).tma && plan.params.writer.windows;
      expect_own_holders(p, plan.blocks, 3 * 128,
                         [&](const OutputPlace& at) { return std::pair(holder_of(plan, at), int64_t{0}); });
    }
  }
  EXPECT_GT(plans, 40);
  EXPECT_GT(by_copies, 8);
  EXPECT_GT(in_windows, 2);
}

// Of 4 neighbouring positions and of rows (cout) 0 and 1: the accumulator of wgmma, by hand.
TEST(Where, Sm90NamesLaneAndRegister) {
  const Problem p = core::parse("n1 ci32 co64 l512 k1 s1 p0 bf16").value();
  Sm90Config c;
  c.tile = 6;
  const Sm90Plan plan = sm90_plan_of(p, device("h200"), c);
  ASSERT_GT(plan.blocks, 0);
  auto expect = [&](int64_t co, int64_t o, int thread, const char* sum) {
    const Holder held = holder_of(plan, output_place(p, plan.phases, co * p.lout() + o));
    EXPECT_TRUE(held.thread % 128 == thread && held.sum == sum) << co << "," << o << ": " << text(held);
  };
  expect(0, 0, 0, "tile 0, sums[0][0]");
  expect(1, 0, 0, "tile 0, sums[0][1]");
  expect(0, 1, 0, "tile 0, sums[0][2]");
  expect(0, 2, 0, "tile 0, sums[1][0]");
  expect(2, 3, 1, "tile 0, sums[1][2]");
  expect(9, 4, 4, "tile 0, sums[0][5]");
  expect(0, 32, 32, "tile 0, sums[0][0]");
  expect(0, 128, 0, "tile 1, sums[0][0]");
}

// The ordered sum's blocks, threads and values, of flat and of phase-wise partial sums.
TEST(Where, EverySumHasAPlaceOfItsOwn) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},    {7, 3},      {64, 1000},
                                                {3, 5000}, {600, 1023}, {2, 50'000}};
  for (const auto& [rows, lout] : shapes) {
    std::map<std::array<int64_t, 3>, int64_t> flat, phases, fours, phased;
    PhaseSumParams by_fours{};
    by_fours.stride = by_fours.phases = 1, by_fours.lout = lout;
    by_fours.padding = 5, by_fours.first_u = -3;
    PhaseSumParams of_phases = by_fours;
    of_phases.stride = of_phases.phases = 6, of_phases.dilation = 1;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < lout; ++o) {
        const SumPosition a = sum_position(rows * lout, row * lout + o), b = sum_position(rows, lout, row, o);
        EXPECT_TRUE(flat.try_emplace({a.block, a.thread, a.index}, o).second);
        EXPECT_TRUE(phases.try_emplace({b.block, b.thread, b.index}, o).second);
        const SumPosition c = sum_position(by_fours, rows, row, o);
        EXPECT_TRUE(fours.try_emplace({c.block, c.thread, c.index}, o).second);
        EXPECT_LT(c.thread, kSumThreads);
        EXPECT_EQ(c.index % kSumFour, o % kSumFour);
        const SumPosition d = sum_position(of_phases, rows, row, o);
        EXPECT_TRUE(phased.try_emplace({d.block, d.thread, d.index}, o).second);
        EXPECT_LT(d.thread, kSumThreads);
        EXPECT_LT(d.index, 2 * kSumFour);
        EXPECT_LT(a.index, kSumEach);
        EXPECT_LT(b.index, kSumEach);
      }
    }
  }
}

TEST(Where, StridedHoldersAreDistinct) {
  for (const char* line : {"gx n2 ci12 co6 l300 k4 s2 p1 g2 f32", "gx n3 ci1 co5 l9 k7 s1 p3 f16",
                           "conv1d n2 ci8 co40 l1200 k5 s2 p2 f64", "gx n40 ci70 co2 l513 k3 s3 f32",
                           "gx n7 ci9 co2 l210 k3 s1 f32", "gx n2 ci4 co3 l2100 k5 s2 g2 bf16"}) {
    const Problem p = core::parse(line).value();
    simt::StridedConfig staged;
    staged.staged = simt::strided_staged_config(p, device("h200"), {4, 4}, 2, 2, 2);
    std::vector<simt::StridedConfig> ways = {
        simt::plan_strided_windows(p), simt::plan_strided_direct(p, simt::kStridedFewPositions), staged};
    if (simt::strided_sliding_refusal(p, device("h200")).empty()) {
      ways.push_back(simt::plan_strided_sliding(p));
      ways.push_back(ways.back());
      ways.back().walk = 2;  // as of more blocks than the device needs
    }
    for (const simt::StridedConfig& c : ways) {
      std::map<Holder, int64_t> seen;
      for (int64_t e = 0; e < p.output_elements(); ++e) {
        const Holder held = holder_of(c, p, e);
        EXPECT_LT(held.thread, c.staged ? c.staged->threads() : simt::kStridedThreads) << line;
        const auto [it, fresh] = seen.try_emplace(held, e);
        ASSERT_TRUE(fresh) << line << ": elements " << it->second << " and " << e << " at " << text(held);
      }
    }
  }
}

TEST(Where, WeightGradientsHaveAPlaceEachInTheGrid) {
  for (const char* line : {"gw n2 ci40 co24 l70 k5 s2 p1 f16", "gw n1 ci12 co18 l33 k9 s3 p2 d2 g2 f32 tf32",
                           "gw n3 ci7 co3 l50 k16 s8 p4 f32"}) {
    const Problem p = core::parse(line).value();
    const WeightPlan plan = weight_plan(p, device("h200"));
    const simt::WeightPlan plain = simt::weight_plan(p, device("h200"));
    const WeightTile& tile = kWeightTileTable[plan.config.tile];
    std::map<WeightPlace, int64_t> places;
    const simt::OuterPlan outer = simt::outer_plan(p, device("h200"));
    std::map<simt::TileSum, int64_t> sums;
    std::map<simt::OuterSum, int64_t> outer_sums;
    const simt::StagedPlan staged = simt::staged_plan(p, device("h200"));
    std::map<simt::StagedSum, int64_t> staged_sums;
    for (int64_t e = 0; e < p.output_elements(); ++e) {
      const WeightPlace at = weight_place(plan.params, tile.rows(), e);
      EXPECT_TRUE(at.tile < plan.params.tiles && at.row < tile.rows() && at.column < tile.columns()) << line;
      EXPECT_TRUE(places.try_emplace(at, e).second) << line << ": element " << e;
      const simt::TileSum sum = simt::tile_sum(plain, e);
      EXPECT_TRUE(sum.tile < plain.params.tiles && sums.try_emplace(sum, e).second) << line << ": " << e;
      const simt::OuterSum mine = simt::outer_sum(outer, e);
      EXPECT_TRUE(mine.tile < outer.params.tiles && outer_sums.try_emplace(mine, e).second)
          << line << ": " << e;
      const simt::StagedSum lanes = simt::staged_sum(staged, e);
      EXPECT_TRUE(lanes.tile < staged.params.tiles && staged_sums.try_emplace(lanes, e).second)
          << line << ": " << e;
    }
  }
}

TEST(Where, ElementsOfEveryOperationHaveNames) {
  EXPECT_EQ(element_text(core::parse("n2 ci4 co3 l5 k2").value(), 3 * 6 + 7), "n 1, cout 1, o 1");
  EXPECT_EQ(element_text(core::parse("gx n2 ci4 co3 l5 k2").value(), 4 * 5 + 11), "n 1, ci 2, i 1");
  EXPECT_EQ(element_text(core::parse("gw n2 ci4 co6 l5 k2 g2").value(), (3 * 3 + 2) * 2 + 1),
            "ci 3, co 5, k 1");
  EXPECT_EQ(element_text(core::parse("gb n2 ci4 co6 l5 k2").value(), 5), "co 5");
}

// Each family's plan prints its stages, and says of an output who makes it.
TEST(Stages, EveryFamilyNamesThem) {
  const std::map<std::string, const char*> lines = {
      {"cuda.sm90.dense", "n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32"},
      {"cuda.sm90.blocked", "n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32"},
      {"cuda.sm80.dense", "n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32"},
      {"cuda.sm80.window", "gx n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32"},
      {"cuda.sm80.thin", "n2 ci4 co40 l70 k4 s2 p1 bias bf16"},
      {"cuda.sm80.pointwise", "n2 ci64 co40 l70 k1 s1 p0 bias f32 tf32"},
      {"cuda.sm90.pointwise", "n2 ci64 co40 l72 k1 s1 p0 bias f32 tf32"},
      {"cuda.sm80.overlap", "n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32"},
      {"cuda.simt.dense", "n2 ci64 co40 l70 k4 s2 p1 bias f32"},
      {"cuda.simt.narrow", "n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.simt.longk", "n1 ci512 co1 l100 k16 s8 p4 f32"},
      {"cuda.simt.depthwise", "n2 ci8 co8 l70 k4 s2 p1 g8 f32"},
      {"cuda.simt.flipped", "n2 ci4 co4 l70 k4 s1 p1 d3 f32"},
      {"cuda.simt.gather", "n2 ci4 co4 l70 k4 s2 p1 d3 f32"},
      {"cuda.simt.strided", "gx n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.simt.outer", "gw n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.simt.weight", "gw n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.simt.weight_staged", "gw n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.sm90.weight_blocked", "gw n2 ci64 co64 l70 k4 s2 p1 f32"},
      {"cuda.sm90.weight_turned", "gw n2 ci64 co64 l72 k4 s2 p1 f32"},
      {"cuda.sm90.weight_rows", "gw n2 ci64 co64 l72 k4 s2 p1 f32"},
      {"cuda.sm90.weight", "gw n2 ci64 co64 l70 k4 s2 p1 f32 tf32"},
      {"cuda.sm80.weight", "gw n2 ci64 co64 l70 k4 s2 p1 f32"},
      {"cuda.sm80.thin_weight", "gw n2 ci8 co4 l700 k4 s2 p1 f32"},
      {"cuda.simt.bias", "gb n2 ci4 co4 l70 k4 s2 p1 f32"},
      {"cuda.simt.plain", "n2 ci4 co4 l70 k4 s2 p1 f32"}};
  for (const plan::KernelEntry* entry : entries()) {
    ASSERT_TRUE(lines.contains(entry->name)) << entry->name << " has no line above";
    plan::PlanOptions options;
    options.force_kernel = entry->name;
    const Problem p = core::parse(lines.at(entry->name)).value();
    const auto plan = plan::make_plan(p, device("h200"), options, "");
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::string words = plan::explain(plan.value());
    for (const char* stage : {"schedule: ", "source: ", "product: ", "epilogue: ", "writer: "}) {
      EXPECT_NE(words.find(stage), std::string::npos) << entry->name << " has no " << stage;
    }
    const std::string where = plan.value().kernel->where(3);
    EXPECT_TRUE(where.starts_with(element_text(p, 3))) << entry->name << ": " << where;
    EXPECT_NE(where.find("block"), std::string::npos) << entry->name << ": " << where;
    if (p.operation != core::Operation::transposed || entry == &kSimtPlain) continue;
    EXPECT_NE(words.find("weights: "), std::string::npos) << entry->name;
  }
}

}  // namespace
}  // namespace tconv::cuda
