// Who makes an output: every output has a holder of its own, which the plan's blocks and threads have.
#include <gtest/gtest.h>

#include <map>

#include "cuda/host/phases.hpp"
#include "cuda/refusal.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/sm80/dense_plan.hpp"
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

// The ordered sum's blocks, threads and values, of flat and of phase-wise partial sums.
TEST(Where, EverySumHasAPlaceOfItsOwn) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},    {7, 3},      {64, 1000},
                                                {3, 5000}, {600, 1023}, {2, 50'000}};
  for (const auto& [rows, lout] : shapes) {
    std::map<std::array<int64_t, 3>, int64_t> flat, phases;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < lout; ++o) {
        const SumPosition a = sum_position(rows * lout, row * lout + o), b = sum_position(rows, lout, row, o);
        EXPECT_TRUE(flat.try_emplace({a.block, a.thread, a.index}, o).second);
        EXPECT_TRUE(phases.try_emplace({b.block, b.thread, b.index}, o).second);
        EXPECT_LT(a.index, kSumEach);
        EXPECT_LT(b.index, kSumEach);
      }
    }
  }
}

// Each plan of these families prints its stages.
TEST(Stages, EveryFamilyNamesThem) {
  const struct {
    const char *line, *kernel;
  } plans[] = {{"n2 ci64 co40 l70 k4 s2 p1 bias f32 tf32", "cuda.sm80.dense"},
               {"n2 ci64 co40 l70 k4 s2 p1 bias f32", "cuda.simt.dense"},
               {"n2 ci4 co4 l70 k4 s2 p1 f32", "cuda.simt.narrow"},
               {"n1 ci512 co1 l100 k16 s8 p4 f32", "cuda.simt.longk"},
               {"n2 ci8 co8 l70 k4 s2 p1 g8 f32", "cuda.simt.depthwise"},
               {"n2 ci4 co4 l70 k4 s2 p1 d3 f32", "cuda.simt.gather"}};
  for (const auto& each : plans) {
    plan::PlanOptions options;
    options.force_kernel = each.kernel;
    const auto plan = plan::make_plan(core::parse(each.line).value(), device("h200"), options, "");
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::string words = plan::explain(plan.value());
    for (const char* stage : {"schedule: ", "source: ", "weights: ", "product: ", "epilogue: ", "writer: "}) {
      EXPECT_NE(words.find(stage), std::string::npos) << each.kernel << " has no " << stage;
    }
    EXPECT_NE(plan.value().kernel->where(3).find("thread"), 0u);
    EXPECT_NE(plan.value().kernel->where(3).find("n 0, cout 0, o 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace tconv::cuda
