// Every configuration of cuda.sm90.dense against every other.
#include <functional>

#include "core/polyphase.hpp"
#include "cuda/entries.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "gpu/device.hpp"
#include "gpu/sm90_configs.hpp"
#include "judge/draw.hpp"

namespace tconv::gpu_test {
namespace {

class Sm90 : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (cuda::device_info(0).value().sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  }
};

// What a configuration computes; empty if it does not fit.
std::vector<std::byte> run(const DeviceOperands& o, const core::DeviceInfo& device,
                           const cuda::Sm90Config& config) {
  const core::Problem& p = o.problem;
  const cuda::Sm90Plan plan = cuda::sm90_plan_of(p, device, config);
  if (plan.blocks == 0 || config.splits > plan.params.grid.units ||
      config.walkers > plan.params.columns.column_tiles)
    return {};
  return run_once(*cuda::sm90_kernel(p, device, config), o);
}

// The same operands and split give the same bits in every tile, ring and walk: few stages show a slot that is
// released too early. What is scaled to float16 has its own bits, and what comes by tensor copies.
TEST_F(Sm90, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"n2 ci70 co70 l701 k5 s1 p2 bias f32 tf32",
                           "n2 ci70 co70 l704 k5 s2 p2 bias f32",
                           "n3 ci40 co48 l61 k16 s8 p4 bias f32",
                           "n2 ci130 co40 l1257 k7 s3 p1 d2 bias bf16",
                           "n1 ci64 co64 l900 k3 s1 p0 d5 f16",
                           "n2 ci96 co36 l640 k4 s2 p1 g2 bias f32 tf32",
                           "n1 ci64 co24 l300 k3 s5 p1 op2 bias f16",
                           "n2 ci40 co33 l333 k9 s6 p2 d5 bias f32",
                           "n3 ci48 co70 l1000 k3 s1 p1 bias f32 tf32",
                           "n2 ci64 co64 l520 k3 s2 p1 d2 op1 bias f32 tf32",
                           "n1 ci32 co20 l400 k16 s8 p4 bias bf16",
                           "n2 ci33 co24 l264 k9 s3 p2 bias f16",
                           "n1 ci64 co40 l512 k8 s1 p3 f16",
                           "n2 ci20 co17 l808 k1 s1 p0 bf16",
                           "n1 ci64 co64 l404 k4 s1 p0 bias f32 tf32",
                           "n1 ci16 co16 l256 k5 s7 p0 bias f16",
                           "n2 ci48 co40 l333 k5 s1 p2 d3 bias f32 tf32",
                           "n1 ci64 co64 l901 k7 s1 p0 d2 bf16",
                           "n2 ci40 co36 l602 k8 s3 p5 bias f16",
                           "n2 ci64 co40 l403 k9 s1 p40 g2 bias f32 tf32",
                           "n1 ci36 co70 l402 k9 s2 p3 d6 f32 tf32",
                           "n2 ci32 co24 l1000 k6 s1 p0 d5 bf16",
                           "n3 ci17 co40 l301 k3 s1 p1 d7 bias f32 tf32",
                           "n3 ci99 co42 l301 k3 s2 p1 g3 bias f16",
                           "n1 ci9 co64 l515 k1 s1 p0 f16",
                           "n2 ci70 co1 l77 k200 s80 p13 bias f32 tf32",
                           "n2 ci40 co3 l41 k300 s130 p0 op9 g1 bias f16",
                           "n1 ci64 co4 l50 k160 s160 p4 g2 bias f32",
                           "n3 ci33 co2 l21 k150 s90 p11 d7 bias f32"}) {
    const DeviceOperands o(text);
    const cuda::Arithmetic mode = cuda::arithmetic_of(o.problem);
    std::vector<std::byte> first[2][2][3];
    int ran = 0;
    constexpr int kOthers = 2 * 2 * 2 * 2 * 3;  // of a tile, drawn or not
    const int tiles = static_cast<int>(cuda::sm90_tiles().size());
    for (int variant = 0; variant < tiles * kOthers * 2; ++variant) {
      const int others = variant / tiles % kOthers;
      cuda::Sm90Config c;
      c.tile = variant % tiles;
      c.splits = 1 + others % 2;
      c.resident = others / 2 % 2 == 1;
      c.folded = others / 4 % 2 == 1;
      c.scaled = others / 8 % 2 == 1;
      c.stages = others / 16 == 0 ? 0 : 1 + others / 16;
      c.walkers = others / 16;
      c.drawn = variant / tiles / kOthers == 1;
      if (c.drawn && !c.resident) continue;
      if (!cuda::sm90_has(mode, c.scaled, c.tile)) continue;
      if (c.folded && o.problem.n == 1) continue;
      const std::vector<std::byte> got = run(o, device, c);
      if (got.empty()) continue;
      ++ran;
      const bool direct = cuda::sm90_tile(c).tma;
      std::vector<std::byte>& expected = first[direct][c.scaled][c.splits];
      if (expected.empty()) {
        EXPECT_LE(o.worst(got), 300.0) << text;  // tf32 rounds; a wrong element is far beyond
        expected = got;
      }
      EXPECT_TRUE(got == expected) << text << ": " << cuda::text(c);
    }
    EXPECT_GT(ran, 10) << text;
  }
}

// The first element of y that is not what it should be; empty: all are.
std::string different(const core::Problem& p, const std::vector<std::byte>& y,
                      const std::vector<std::byte>& expected) {
  for (int64_t i = 0; i < p.y_elements(); ++i) {
    const double got = reference::load(p.dtype, y.data(), i),
                 should = reference::load(p.dtype, expected.data(), i);
    if (got != should) {
      return "element " + std::to_string(i) + " is " + std::to_string(got) + ", not " +
             std::to_string(should);
    }
  }
  return {};
}

// Random problems of small integers, which every mode computes exactly: each output is the exact sum, rounded
// once. Drawn problems are bent to what comes by tensor copies: taps that share registers, and others.
TEST_F(Sm90, DirectIsExactOverRandomProblems) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  judge::Rng rng(5);
  judge::DrawOptions draw;
  draw.gradients = false;
  int ran = 0, alone = 0, wrong = 0;
  for (int i = 0; i < 20000 && ran < 5500; ++i) {
    core::Problem p = judge::draw_valid(rng, draw);
    if (p.dtype == core::DType::f64 || p.output_elements() == 0) continue;
    if (i % 3 == 0) {
      p.l = core::ceil_div(p.l, int64_t{8}) * 8;
      p.dilation = 1;
      p.x_contiguous = true;
      p.x_stride = {0, 0, 0};
    } else if (!p.x_contiguous && p.x_stride[2] != 1) {
      continue;
    }
    if (p.dtype == core::DType::f32) p.precision = i % 2 == 0 ? core::Precision::tf32 : core::Precision::ieee;
    if (!core::validate(p).ok() || core::work_of(p).flops > 1e6) continue;  // the judge is slow
    DeviceOperands o(core::text(p), static_cast<uint64_t>(i));
    o.make_integers();
    std::vector<std::byte> expected;
    for (const cuda::Sm90Config& c : tma_configs(p)) {
      const std::vector<std::byte> got = run(o, device, c);
      if (got.empty()) continue;
      if (expected.empty()) expected = o.rounded_reference();
      ++ran;
      if (cuda::sm90_plan_of(p, device, c).params.tma.tap_group == 0) ++alone;
      if (different(p, got, expected).empty() && run(o, device, c) == got) continue;
      if (++wrong > 5) continue;
      ADD_FAILURE() << core::text(p) << ": " << cuda::text(c) << ": " << different(p, got, expected);
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << ran;
  EXPECT_GT(ran, 2000);
  EXPECT_GT(alone, 1000);
}

// How the outputs of plans with tensor copies of small integers come to y, whole warpgroup tiles of which
// must be there for that: straight from registers where rows begin on a vector, or half a stride before one;
// else float32 in windows that are staged as they lie in y.
void expect_stores(const char* shape, const std::vector<const char*>& modes,
                   const std::function<bool(const cuda::Sm90StageParams&)>& so) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  int counted = 0;
  for (const char* mode : modes) {
    DeviceOperands o(std::string(shape) + " " + mode);
    o.make_integers();
    const std::vector<std::byte> expected = o.rounded_reference();
    for (const cuda::Sm90Config& c : tma_configs(o.problem)) {
      const std::vector<std::byte> got = run(o, device, c);
      if (got.empty()) continue;
      if (so(cuda::sm90_plan_of(o.problem, device, c).params)) ++counted;
      EXPECT_EQ(different(o.problem, got, expected), "") << shape << " " << mode << ": " << cuda::text(c);
      EXPECT_TRUE(run(o, device, c) == got) << shape << " " << mode << ": " << cuda::text(c);
    }
  }
  EXPECT_GT(counted, 0) << shape;
}

TEST_F(Sm90, DirectStoresStraight) {
  for (const char* shape :
       {"n2 ci32 co72 l520 k3 s1 p0", "n3 ci24 co150 l520 k1 s1 p0 bias", "n2 ci48 co70 l1000 k3 s1 p4",
        "n2 ci40 co72 l520 k4 s2 p1 bias", "n2 ci64 co130 l512 k2 s2 p0",
        "n2 ci64 co80 l512 k3 s2 p1 op1 g2 bias", "n2 ci32 co40 l264 k8 s4 p2 bias",
        "n1 ci40 co34 l520 k4 s4 p0", "n2 ci32 co20 l264 k16 s8 p4 bias", "n1 ci48 co24 l520 k8 s8 p0",
        "n2 ci32 co18 l264 k12 s4 p4", "n3 ci24 co9 l264 k24 s8 p8 bias"}) {
    expect_stores(shape, {"f32 tf32", "bf16", "f16"},
                  [](const cuda::Sm90StageParams& k) { return k.writer.straight > 0; });
  }
}

TEST_F(Sm90, DirectStoresShiftedWindows) {
  for (const char* shape :
       {"n2 ci32 co128 l520 k3 s1 p0 bias", "n3 ci24 co192 l1001 k2 s1 p1", "n2 ci40 co70 l520 k5 s1 p1",
        "n2 ci32 co64 l519 k7 s1 p3 bias", "n2 ci48 co130 l1001 k3 s1 p1 d2",
        "n1 ci64 co256 l522 k5 s1 p1 g2 bias", "n2 ci33 co64 l777 k9 s1 p4"}) {
    expect_stores(shape, {"f32 tf32"}, [](const cuda::Sm90StageParams& k) { return k.writer.shifted; });
  }
}

// Of 16-bit types, infinities meet zeros that stand for no product: where another configuration has NaN or
// infinity, and nowhere else.
TEST_F(Sm90, DirectRepairsWhatIsNoProduct) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"n2 ci32 co40 l264 k5 s2 p1 bias f16", "n1 ci48 co64 l520 k5 s2 p0 bf16",
                           "n2 ci40 co24 l400 k7 s3 p2 bias bf16", "n1 ci32 co32 l264 k9 s8 p4 f16",
                           "n2 ci32 co40 l263 k5 s2 p1 bias f16", "n2 ci48 co64 l521 k5 s1 p0 d2 bf16",
                           "n1 ci40 co24 l402 k16 s3 p20 bias bf16", "n3 ci35 co24 l403 k5 s1 p0 bf16"}) {
    DeviceOperands o(text);
    const core::Problem& p = o.problem;
    for (int64_t at : {int64_t{0}, p.l - 1, int64_t{100}, p.l + 131, 2 * p.l + 127, 3 * p.l + 128}) {
      reference::store(p.dtype, o.x.data(), at, std::numeric_limits<double>::infinity());
    }
    // Beside the begin of every other row.
    for (int64_t row = 8; row < p.cin; ++row) {
      reference::store(p.dtype, o.x.data(), (row + 1) * p.l - 1 - row % 3,
                       std::numeric_limits<double>::infinity());
    }
    o.x_device.put(o.x);
    const std::vector<std::byte> expected = run(o, device, cuda::Sm90Config{});
    ASSERT_FALSE(expected.empty()) << text;
    int ran = 0;
    for (const cuda::Sm90Config& c : tma_configs(p)) {
      const std::vector<std::byte> got = run(o, device, c);
      if (got.empty()) continue;
      ++ran;
      int wrong = 0;
      for (int64_t i = 0; i < p.y_elements(); ++i) {
        const double a = reference::load(p.dtype, got.data(), i),
                     b = reference::load(p.dtype, expected.data(), i);
        if (std::isnan(a) ? std::isnan(b) : a == b || std::fabs(a - b) <= 0.02 * (1 + std::fabs(b))) continue;
        ++wrong;
      }
      EXPECT_EQ(wrong, 0) << text << ": " << cuda::text(c);
    }
    EXPECT_GT(ran, 0) << text;
  }
}

// Warps of a warpgroup take raw stages in turn where operands are made in shared memory: of an odd number of
// stages each is read by others in every round, and a parity then stands for two phases. Long rows, many
// slabs, few stages.
TEST_F(Sm90, OddStagesOfOperands) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text :
       {"n1 ci160 co64 l1024 k3 s1 p1 d3 bf16", "n1 ci96 co40 l1027 k5 s1 p2 bias f32 tf32",
        "n1 ci128 co64 l901 k7 s1 p0 f16", "n1 ci96 co32 l701 k5 s1 p2 f32"}) {
    DeviceOperands o(text);
    o.make_integers();
    const std::vector<std::byte> expected = o.rounded_reference();
    int ran = 0;
    for (cuda::Sm90Config c : tma_configs(o.problem)) {
      for (const int stages : {2, 3, 4, 5, 7}) {
        c.stages = stages;
        const cuda::Sm90Plan plan = cuda::sm90_plan_of(o.problem, device, c);
        if (plan.blocks == 0 || plan.params.tma.stages != stages) continue;
        EXPECT_EQ(plan.params.tma.tap_group, 0) << text;
        ++ran;
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(different(o.problem, run(o, device, c), expected), "") << text << ": " << cuda::text(c);
        }
      }
    }
    EXPECT_GT(ran, 0) << text;
  }
}

}  // namespace
}  // namespace tconv::gpu_test
