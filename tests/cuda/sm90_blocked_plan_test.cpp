// The plan of cuda.sm90.blocked: copies stay within the channel blocks and their slack, and what an output's
// taps read are units of its own sample, or zeros.
#include <gtest/gtest.h>

#include "core/polyphase.hpp"
#include "cuda/gathered_places.hpp"
#include "cuda/refusal.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/cost.hpp"
#include "plan/planner.hpp"

namespace tconv::cuda {
namespace {

// A unit of a channel block, from its first row's column 0 on, as blocked_stages.cuh has it.
int64_t first_unit(const Sm90BlockedPlan& plan, int64_t tile, int64_t columns) {
  const Sm90StageParams& k = plan.main.params;
  if (k.columns.folded) return tile * columns;
  const int64_t each = k.columns.sample_tiles.value, n = tile / each;
  return n * k.sizes.x_step[0] + (tile - n * each) * columns;
}

// The position that blocking.cuh gives a unit of a sample; nothing where it is zero for want of x.
struct Unit {
  bool inside;  // of a row that is written
  int64_t n, v;
};
Unit unit_of(const Sm90BlockedPlan& plan, int64_t unit) {
  const Sm90BlockingParams& b = plan.blocking;
  const int64_t e = unit + b.front, row = core::floor_div(e, b.pitch);
  int64_t c = e - row * b.pitch - b.front, n = row;
  if (b.sample_columns > 0) {
    n = core::floor_div(c, int64_t{b.sample_columns});
    c -= n * b.sample_columns;
  }
  return {row >= 0 && row < b.row_samples, n, b.first_u + c};
}

void expect_reads(const Sm90BlockedPlan& plan, const std::string& what) {
  const Sm90StageParams& k = plan.main.params;
  const core::Problem& f = plan.form.product;
  const Phases& phases = plan.main.phases;
  const int64_t columns = sm90_tile(plan.main.config).columns();
  const int64_t last_tile = k.columns.column_tiles - 1;
  const int64_t back = int64_t{k.sizes.step} * (k.gather.tap_groups - 1) * k.gather.tap_group + k.gather.halo;
  EXPECT_GE(first_unit(plan, 0, columns) - back + plan.blocking.front, -plan.slack) << what;
  EXPECT_LE(first_unit(plan, last_tile, columns) + k.gather.width + plan.blocking.front,
            plan.blocking.block_units + plan.slack)
      << what;
  for (const int64_t n : {int64_t{0}, f.n / 2, f.n - 1}) {
    for (const int64_t u : {phases.first, phases.first + phases.positions / 2,
                            phases.first + std::max<int64_t>(phases.positions - 1, 0)}) {
      const int64_t c = n * k.columns.sample_columns + u - k.columns.first_u, tile = c / columns;
      for (int64_t j = 0; j < phases.taps; ++j) {
        const int64_t group = j / k.gather.tap_group, inner = j % k.gather.tap_group;
        const int64_t slot = c - tile * columns + k.gather.halo - k.sizes.step * inner;
        ASSERT_GE(slot, 0) << what;
        ASSERT_LT(slot, k.gather.width) << what;
        const int64_t copied =
            first_unit(plan, tile, columns) - k.gather.halo - k.sizes.step * group * k.gather.tap_group;
        const Unit unit = unit_of(plan, copied + slot);
        const int64_t v = u - phases.step * j;
        ASSERT_TRUE(unit.inside) << what << " u " << u << " tap " << j;
        if (v >= 0 && v < f.l) {
          EXPECT_EQ(unit.n, n) << what;
          EXPECT_EQ(unit.v, v) << what;
        } else {
          EXPECT_FALSE(unit.n >= 0 && unit.v >= 0 && unit.v < f.l) << what << " u " << u << " tap " << j;
        }
      }
    }
  }
}

// Turned: whole pieces cover what a tile's taps read; copies and units are large enough for them; what lies
// in shared memory lies apart.
void expect_copies(const Sm90BlockedPlan& plan, const std::string& what) {
  const Sm90StageParams& k = plan.main.params;
  const Sm90RawSource& raw = plan.raw;
  const int64_t columns = sm90_tile(plan.main.config).columns();
  const Sm90Layout layout = sm90_layout(plan.main.mode, false);
  const int64_t slab = layout.slab() / 8, most_late = 16 / layout.element - 1;
  EXPECT_EQ(plan.main.config.folded, false) << what;
  EXPECT_EQ(raw.step % 32, 0) << what;
  EXPECT_EQ(raw.columns * raw.stride + raw.phases_over, 32) << what;
  EXPECT_LT(raw.phases_over, raw.stride) << what;
  EXPECT_EQ(raw.box % 8, 0) << what;
  EXPECT_TRUE(layout.element == 4 || raw.box % 16 == 8) << what;  // for ldmatrix, rows in other banks each
  EXPECT_EQ(raw.box_bytes, 8 * raw.box * layout.element) << what;
  EXPECT_GE(raw.box, raw.step) << what;
  EXPECT_LE(raw.box, 256) << what;
  // From up to 7 positions (float32: 3) before column 0 to the last phase of the last column.
  EXPECT_GE(raw.boxes * raw.step, most_late + raw.stride * (k.gather.width - 1) + raw.phases) << what;
  EXPECT_GE(raw.front * raw.stride, most_late) << what;
  EXPECT_GE((k.gather.pitch - raw.front) * raw.stride, raw.boxes * raw.step) << what;
  // A unit is one block of 16 bytes a column or two, and a step of wgmma two blocks.
  EXPECT_GE(raw.unit_pitch, 4 / slab * k.gather.pitch) << what;
  EXPECT_EQ(k.gather.step_pitch, slab / 2 * raw.unit_pitch) << what;
  EXPECT_GE(k.gather.stage_bytes, slab * 16 * raw.unit_pitch) << what;
  EXPECT_GE(k.gather.halo - raw.front,
            k.sizes.step * (std::min<int64_t>(k.sizes.taps, k.gather.tap_group) - 1))
      << what;
  EXPECT_GE(k.gather.width, columns + k.gather.halo - raw.front) << what;
  EXPECT_EQ(raw.chunk_units, raw.blocks * raw.phases) << what;
  EXPECT_TRUE(k.gather.tap_groups == 1 || raw.chunk_units == slab) << what;
  // A chunk's slabs are open at once, beside the one that is being multiplied.
  const int64_t chunks = core::ceil_div(sm90_turners(sm90_tile(plan.main.config).n), raw.items);
  const int64_t whole = raw.chunk_units % slab == 0 ? 1 : 0;
  EXPECT_GE(k.gather.stages, core::ceil_div(chunks * raw.chunk_units, slab) + 1 - whole) << what;
  EXPECT_GE(k.gather.stages, (raw.chunk_units + 2 * slab - 2) / slab - whole + 1) << what;
  EXPECT_EQ(raw.step, raw.pieces * 32) << what;
  EXPECT_EQ(raw.box_columns * raw.stride, raw.step % raw.stride == 0 ? raw.step : 0) << what;
  // A place holds a share; the copy of one ends inside the row it began in.
  EXPECT_GE(raw.place_bytes, raw.share * raw.box_bytes) << what;
  EXPECT_EQ(raw.items, raw.blocks > 1 ? raw.blocks : core::ceil_div(raw.boxes, raw.share)) << what;
  EXPECT_TRUE(raw.blocks == 1 || raw.share == raw.boxes) << what;
  EXPECT_TRUE(raw.inner < 0 || raw.inner + (raw.share - 1) * raw.step + raw.box <= plan.form.deep.length)
      << what;
  EXPECT_GE(raw.places, std::max(2, sm90_turners(sm90_tile(plan.main.config).n))) << what;
  EXPECT_EQ(raw.shared % 128, 0) << what;
  EXPECT_GE(raw.shared, k.gather.stages * k.gather.stage_bytes) << what;
  EXPECT_GE(k.weights.shared, raw.shared + raw.places * raw.place_bytes) << what;
  EXPECT_GE(k.gather.shared_marks, raw.nowhere + 512 * sm90_turners(sm90_tile(plan.main.config).n)) << what;
  EXPECT_GE(raw.barriers, k.barriers + 16 * (k.gather.stages + k.weights.slots)) << what;
}

// float32 in float16: every unit of a row has a counter, and every scale some shares of its elements.
void expect_seen(const Sm90BlockedPlan& plan, const std::string& what) {
  const Sm90BlockingParams& b = plan.blocking;
  EXPECT_EQ(plan.scales, int64_t{plan.main.params.sizes.groups} * b.row_samples) << what;
  EXPECT_GE(plan.seen.pieces * int64_t{kSm90TinyUnits}, b.pitch) << what;
  EXPECT_GE(plan.seen.shares, 1) << what;
  EXPECT_GE(sm90_seen_bytes(plan), 4 * plan.scales * (plan.seen.shares + 1 + plan.seen.pieces)) << what;
  const Sm90BlockedLookParams look = sm90_look_params(plan, nullptr);
  EXPECT_EQ(look.samples * b.row_samples, b.samples) << what;
  EXPECT_EQ(look.zeros, plan.scales * (plan.seen.pieces + 3) + 1) << what;
  const Sm90BlockedSeen seen = sm90_seen_at(plan, nullptr);
  EXPECT_EQ(seen.any - seen.tiny + 1, look.zeros) << what;
  EXPECT_EQ(plan.seen.every, plan.main.config.sampled ? 16 : 1) << what;
  EXPECT_TRUE(plan.main.config.sampled || b.channels * b.length * look.samples * plan.scales < 4'000'000)
      << what;
  const int parts = plan.main.mode == Arithmetic::ieee ? 2 : 1;
  EXPECT_GE(plan.bytes, 16 * parts * plan.part_units) << what;
  EXPECT_EQ(plan.tail_bytes, 16 * parts * plan.part_units) << what;
}

TEST(Sm90BlockedPlan, LooksAtRowsAsTheyLie) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto way = [&](const char* words, std::uintptr_t from) {
    Sm90Config config;
    config.tile = kSm90SmallestTile, config.scaled = true;
    const Sm90BlockedPlan plan = sm90_blocked_plan_of(core::parse(words).value(), d, config);
    EXPECT_GT(plan.main.blocks, 0) << words;
    return sm90_look_way(sm90_look_params(plan, reinterpret_cast<const void*>(from)));
  };
  EXPECT_EQ(way("n2 ci64 co64 l100 k3 s1 f32", 256), Sm90LookWay::vectors);
  EXPECT_EQ(way("n2 ci64 co64 l101 k3 s1 f32", 256), Sm90LookWay::vectors);  // 64 rows, one after the other
  EXPECT_EQ(way("n2 ci64 co64 l100 k3 s1 f32", 260), Sm90LookWay::together);
  EXPECT_EQ(way("n2 ci63 co64 l101 k3 s1 f32", 256), Sm90LookWay::together);
  EXPECT_EQ(way("n1 ci64 co64 l100 k3 s1 xs8192,128,1 f32", 256), Sm90LookWay::any);
  EXPECT_EQ(way("n1 ci64 co64 l100 k3 s1 xs16384,200,2 f32", 256), Sm90LookWay::any);
}

TEST(Sm90BlockedPlan, OutputsReadUnitsOfTheirOwn) {
  judge::Rng rng(5);
  int taken = 0, folded = 0, close = 0, grouped = 0, strided = 0, turned = 0, phased = 0, scaled = 0,
      lines = 0;
  plan::PlanOptions forced;
  forced.force_kernel = kSm90Blocked.name;
  const core::DeviceInfo d = cuda_test::device("h200");
  for (int i = 0; i < 4000; ++i) {
    core::Problem p = cuda_test::draw_transposed(rng);
    if (rng.chance(30)) p.n = rng.between(8, 64), p.l = rng.between(2, 40);  // samples share tiles
    p.y_contiguous = true, p.y_stride = {0, 0, 0}, p.x_contiguous = true, p.x_stride = {0, 0, 0};
    if (!core::validate(p).ok() || p.output_elements() == 0) continue;
    if (p.dtype == core::DType::f32)
      p.precision = rng.chance(60) ? core::Precision::tf32 : core::Precision::ieee;
    if (!kSm90Blocked.supports(p, d, forced).ok) continue;
    Sm90BlockedPlan plan = sm90_blocked_plan(p, d);
    if (i % 3 < 2) {  // small problems seldom turn, and few have phases that lack a tap
      Sm90Config config;
      config.tile = plan.main.config.tile, config.turned = i % 3 == 0, config.phased = i % 3 == 1;
      config.scaled = !config.turned && plan.main.config.scaled;
      const Sm90BlockedPlan other = sm90_blocked_plan_of(p, d, config);
      if (other.main.blocks > 0) plan = other;
    }
    const std::string what = text(p) + ": " + describe(plan);
    ++taken;
    folded += plan.main.params.columns.folded ? 1 : 0;
    close += plan.main.params.columns.close ? 1 : 0;
    grouped += plan.main.params.gather.tap_groups > 1 ? 1 : 0;
    strided += p.operation == core::Operation::strided ? 1 : 0;
    turned += plan.main.config.turned ? 1 : 0;
    phased += plan.main.config.phased ? 1 : 0;
    scaled += plan.main.config.scaled ? 1 : 0;
    if (plan.main.config.scaled) expect_seen(plan, what);
    cuda_test::expect_gathered_places(plan.main, sm90_storing_of(plan.main.mode, plan.main.config),
                                      static_cast<int>(size_of(p.dtype)), what);
    lines += plan.main.params.pass.lines ? 1 : 0;
    const Sm90GatherSource& source = plan.main.params.gather;
    EXPECT_EQ(source.whole < source.phases, plan.main.config.phased) << what;
    EXPECT_TRUE(source.phases == 1 || (source.tap_groups == 1 && plan.main.params.sizes.taps > 1)) << what;
    EXPECT_EQ(plan.main.params.grid.slabs % source.phases, 0) << what;
    EXPECT_LE(static_cast<int64_t>(plan.main.shared_bytes), d.shared_per_block) << what;
    if (plan.main.config.turned) {
      expect_copies(plan, what);
    } else {
      expect_reads(plan, what);
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(close, 10);  // samples one after the other, and 8 columns apart
  EXPECT_GT(folded - close, 5);
  EXPECT_GT(grouped, 5);
  EXPECT_GT(strided, 200);
  EXPECT_GT(turned, 20);
  EXPECT_GT(phased, 20);
  EXPECT_GT(scaled, 100);
  EXPECT_GT(lines, taken / 8);
}

TEST(Sm90BlockedPlan, TurnsRowsThatTensorCopiesBring) {
  core::DeviceInfo d = cuda_test::device("h200");
  const auto turned = [&](const char* words) {
    const Sm90BlockedPlan plan = sm90_blocked_plan(core::parse(words).value(), d);
    EXPECT_GT(plan.main.blocks, 0) << words;
    return plan.main.config.turned;
  };
  EXPECT_TRUE(turned("strided n16 ci64 co32 l16000 k3 s1 p1 bias bf16"));
  EXPECT_TRUE(turned("n16 ci64 co32 l16000 k3 s1 p3 d3 f16"));
  EXPECT_TRUE(turned("n1 ci64 co32 l256000 k3 s1 p1 xs16777216,262144,1 bf16"));  // gaps between rows
  EXPECT_TRUE(turned("n16 ci64 co64 l4000 k3 s1 p1 f32 tf32"));
  EXPECT_TRUE(turned("strided n16 ci64 co64 l8000 k4 s2 p1 f32 tf32"));
  EXPECT_FALSE(turned("strided n12 ci768 co384 l400 k16 s8 p4 f32 tf32"));  // wide: rows turned 6 times
  EXPECT_TRUE(turned("n16 ci64 co32 l16001 k3 s1 p1 bf16"));                // rows begin on 2 bytes
  EXPECT_TRUE(turned("strided n16 ci64 co64 l8000 k4 s2 p1 bf16"));
  EXPECT_TRUE(turned("strided n64 ci96 co128 l8797 k3 s3 p0 f16"));
  EXPECT_FALSE(turned("strided n2 ci64 co63 l8001 k4 s2 op1 p1 bf16"));      // samples begin anywhere
  EXPECT_FALSE(turned("n1 ci64 co64 l4000 k3 s1 p1 xs524288,8192,2 bf16"));  // gaps between positions
  EXPECT_TRUE(turned("strided n16 ci64 co64 l24001 k1 s1 p0 bf16"));         // one tap: what binds is turning
  EXPECT_FALSE(turned("strided n16 ci512 co1536 l861 k1 s1 p0 bf16"));
  EXPECT_TRUE(turned("n16 ci64 co64 l4000 k4 s2 p1 bf16"));  // several phases of y
  EXPECT_TRUE(turned("n256 ci120 co2 l15214 k2 s2 p0 bf16"));
  EXPECT_FALSE(turned("strided n1 ci2048 co2048 l625 k16 s8 p0 bf16"));  // few tiles, of partial sums
  d = cuda_test::device("h100");                                         // where a pass over x takes longer
  EXPECT_TRUE(turned("strided n16 ci32 co64 l131072 k3 s2 p1 d2 f32 tf32"));  // one phase of two
}

TEST(Sm90BlockedPlan, WeightsStayWhereTheyLeaveAsManyStages) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto params = [&](const char* words) {
    const Sm90BlockedPlan plan = sm90_blocked_plan(core::parse(words).value(), d);
    EXPECT_GT(plan.main.blocks, 0) << words;
    return plan.main.params;
  };
  const Sm90StageParams few = params("n1 ci20 co400 l17693 k118 s16 p0 bias bf16");
  EXPECT_TRUE(few.weights.resident);
  EXPECT_TRUE(few.grid.turns);  // stages of two tiles: their weights need no slots
  EXPECT_LT(few.weights.slots, 2 * few.grid.slabs * few.sizes.taps);
  EXPECT_FALSE(params("n16 ci512 co256 l8000 k3 s1 p1 bf16").weights.resident);
  EXPECT_FALSE(params("n1 ci8 co747 l63273 k7 s3 p0 bias f32").weights.resident);  // scaled
}

TEST(Sm90BlockedPlan, MultipliesByTurnsWhereRingsHoldTwoTiles) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto turns = [&](const char* words) {
    const Sm90BlockedPlan plan = sm90_blocked_plan(core::parse(words).value(), d);
    EXPECT_GT(plan.main.blocks, 0) << words;
    return plan.main.params.grid.turns;
  };
  EXPECT_TRUE(turns("n1 ci8 co747 l63273 k7 s3 p0 bias bf16"));
  EXPECT_TRUE(turns("n1 ci6 co96 l172886 k15 s8 p0 f32 ieee"));
  EXPECT_FALSE(turns("n16 ci512 co256 l8000 k3 s1 p1 bf16"));  // 16 slabs
  // Two blocks share an SM.
  Sm90Config config;
  config.tile = 3;
  const auto p = core::parse("n1 ci8 co747 l63273 k7 s3 p0 bias bf16").value();
  const Sm90BlockedPlan shared = sm90_blocked_plan_of(p, d, config);
  EXPECT_GT(shared.main.blocks, 0);
  EXPECT_FALSE(shared.main.params.grid.turns);
}

TEST(Sm90BlockedPlan, IsChosenWhereItNeedsNoPass) {
  const core::DeviceInfo d = cuda_test::device("h200");
  const auto chosen = [&](const char* words) {
    return std::string(plan::make_plan(core::parse(words).value(), d, {}, "").value().entry->name);
  };
  EXPECT_EQ(chosen("strided n16 ci64 co64 l4000 k3 s1 p1 bias bf16"), kSm90Blocked.name);
  EXPECT_EQ(chosen("n1 ci32 co32 l128000 k7 s1 p3 bias bf16"), kSm90Blocked.name);
  EXPECT_NE(chosen("strided n16 ci512 co512 l3000 k1 s1 p0 bf16"), kSm90Blocked.name);
  // Rows that begin on 16 bytes, and rows that do not.
  EXPECT_EQ(chosen("n64 ci128 co128 l65536 k3 s1 p0 f32 tf32"), kSm90Dense.name);
  EXPECT_EQ(chosen("strided n64 ci128 co128 l65536 k3 s1 p0 f32 tf32"), kSm90Blocked.name);
}

TEST(Sm90BlockedPlan, Refuses) {
  auto refusal = [](const char* text, const char* device) {
    return cuda_test::refusal(kSm90Blocked, text, device, true);
  };
  EXPECT_EQ(refusal("strided n16 ci512 co256 l512 k16 s8 p4 bf16", "h200"), "");
  EXPECT_EQ(refusal("n16 ci512 co256 l512 k16 s8 p4 f32 tf32", "h200"), "");
  EXPECT_EQ(refusal("n16 ci512 co256 l512 k16 s8 p4 f32", "h200"), "");
  EXPECT_NE(refusal("n16 ci512 co256 l512 k16 s8 p4 f64", "h200").find("f64"), std::string::npos);
  EXPECT_NE(refusal("n16 ci512 co256 l512 k16 s8 p4 bf16", "a100").find("9.0"), std::string::npos);
  EXPECT_NE(refusal("weight n16 ci512 co256 l512 k16 s8 p4 bf16", "h200").find("weight"), std::string::npos);
}

}  // namespace
}  // namespace tconv::cuda
