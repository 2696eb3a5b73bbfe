// cuda.sm90.blocked: every tile, splits, 16-bit types and tf32.
//
//   turned  channel blocks made in shared memory: rows of x that begin anywhere, strides, and splits that cut
//           a channel block's phases
//   scaled  float32 held in float16 (blocked_scaled_test.cpp: numbers that spread)
//   phased  slabs of one phase each, some of which lack a tap: splits that begin with any of them, and
//           samples that share tiles
#include "gpu/blocked_case.hpp"
#include "gpu/hopper.hpp"

namespace tconv::gpu_test {
namespace {

class Sm90BlockedWays : public Hopper {};

// Runs all tiles with some splits; how many there were.
int run_all(const BlockedCase& c, const core::DeviceInfo& device, cuda::Sm90Config config) {
  int taken = 0;
  for (int tile = 0; tile < cuda::kSm90GatherTiles; ++tile) {
    for (const int splits : {1, 2, 3}) {
      config.tile = tile, config.splits = splits;
      const cuda::Sm90BlockedPlan plan = cuda::sm90_blocked_plan_of(c.problem, device, config);
      if (plan.main.blocks == 0 || splits > plan.main.params.grid.units) continue;
      const auto kernel = cuda::sm90_blocked_kernel(c.problem, device, config);
      const int late = (taken * 3 + splits) % 8;
      const std::vector<std::byte> got = c.run(*kernel, late);
      EXPECT_EQ(c.wrong(got), 0) << text(c.problem) << ": tile " << tile << ", splits " << splits << ", late "
                                 << late;
      EXPECT_TRUE(c.run(*kernel, late, kernel->reads_raw()) == got) << text(c.problem) << ": other bits";
      ++taken;
    }
  }
  return taken;
}

int run_turned(const BlockedCase& c, const core::DeviceInfo& device) {
  return run_all(c, device, {.turned = true});
}
int run_phased(const BlockedCase& c, const core::DeviceInfo& device) {
  return run_all(c, device, {.phased = true}) + run_all(c, device, {.folded = true, .phased = true});
}

int run_scaled(const BlockedCase& c, const core::DeviceInfo& device) {
  int taken = 0;
  for (const bool folded : {false, true}) {
    for (const bool phased : {false, true})
      taken += run_all(c, device, {.scaled = true, .folded = folded, .phased = phased});
  }
  return taken;
}

constexpr const char* kTurned[] = {
    "n2 ci64 co70 l603 k3 s1 p1 bias bf16",
    "n1 ci100 co40 l601 k7 s1 p9 d3 f16",
    "n3 ci72 co20 l86 k5 s1 p2 g2 bf16",
    "strided n2 ci48 co64 l301 k4 s2 p1 bias f16",
    "strided n1 ci70 co33 l257 k9 s3 p4 op1 bf16",
    "strided n2 ci16 co40 l130 k8 s4 p2 op1 bias bf16",
    "strided n1 ci33 co24 l129 k7 s5 p3 f16",
    "strided n1 ci20 co64 l300 k13 s6 p0 bias bf16",
    "strided n1 ci64 co16 l70 k5 s7 p0 bf16",
    "strided n2 ci40 co48 l90 k16 s8 p4 bias bf16",
    "strided n1 ci24 co32 l61 k20 s10 p5 op3 f16",
    "strided n1 ci24 co17 l40 k40 s31 p9 bf16",
    "strided n4 ci64 co64 l33 k7 s1 p27 d9 g2 bias bf16",
    "strided n2 ci40 co64 l70 k3 s2 p1 d2 bf16",
    "strided n2 ci40 co24 l65 k2 s3 p4 d6 f16",
    "n2 ci64 co70 l603 k3 s1 p1 bias f32 tf32",
    "n1 ci100 co40 l601 k7 s1 p9 d3 f32 tf32",
    "n3 ci72 co20 l84 k5 s1 p2 g2 f32 tf32",
    "strided n2 ci48 co64 l301 k4 s2 p1 bias f32 tf32",
    "strided n1 ci70 co33 l257 k9 s3 p4 op1 f32 tf32",
    "strided n1 ci33 co24 l129 k7 s5 p3 f32 tf32",
    "strided n2 ci40 co48 l90 k16 s8 p4 bias f32 tf32",
    "strided n1 ci24 co32 l61 k20 s10 p5 op3 f32 tf32",
    "strided n1 ci24 co17 l40 k24 s17 p9 f32 tf32",
    "strided n2 ci40 co64 l71 k3 s2 p1 d2 bias f32 tf32",
    "strided n1 ci64 co20 l70 k5 s7 p0 g2 f32 tf32",
};

constexpr const char* kPhased[] = {
    "strided n2 ci48 co64 l301 k3 s2 p1 bias f16",         "strided n1 ci70 co33 l257 k9 s4 p4 op1 bf16",
    "strided n3 ci40 co100 l86 k7 s3 p2 g2 bias bf16",     "strided n2 ci33 co24 l129 k13 s12 p3 f16",
    "strided n5 ci20 co70 l33 k5 s2 p7 d3 bias bf16",      "strided n1 ci24 co96 l61 k29 s16 p0 bf16",
    "strided n2 ci40 co64 l70 k11 s5 p3 d2 bf16",          "strided n2 ci40 co24 l65 k40 s31 p9 f16",
    "strided n2 ci48 co64 l301 k3 s2 p1 bias f32 tf32",    "strided n1 ci70 co33 l257 k9 s4 p4 op1 f32 tf32",
    "strided n3 ci40 co100 l86 k7 s3 p2 g2 bias f32 tf32", "strided n2 ci33 co24 l129 k13 s12 p3 f32 tf32",
    "strided n5 ci20 co70 l33 k5 s2 p7 d3 bias f32 tf32",  "strided n2 ci40 co64 l70 k11 s5 p3 d2 f32 tf32",
};

// In ieee and in tf32.
constexpr const char* kScaled[] = {
    "n2 ci64 co70 l603 k3 s1 p1 bias f32",
    "n1 ci100 co40 l601 k7 s1 p9 d3 f32",
    "n3 ci72 co20 l84 k5 s1 p2 g2 bias f32",
    "n2 ci48 co33 l130 k16 s8 p4 bias f32",
    "n5 ci40 co9 l37 k7 s3 p2 op1 f32",
    "n2 ci33 co5 l70 k5 s2 p3 d3 bias f32",
    "n1 ci48 co2 l60 k140 s100 p20 f32",
    "strided n2 ci48 co64 l301 k4 s2 p1 bias f32",
    "strided n1 ci70 co33 l257 k9 s3 p4 op1 f32",
    "strided n2 ci40 co48 l90 k16 s8 p4 bias f32",
    "strided n1 ci24 co32 l61 k20 s10 p5 op3 f32",
    "strided n4 ci64 co64 l33 k7 s1 p27 d9 g2 bias f32",
    "strided n3 ci40 co100 l86 k7 s3 p2 g2 bias f32",
    "strided n5 ci20 co70 l33 k5 s2 p7 d3 bias f32",
    "strided n2 ci33 co24 l129 k13 s12 p3 f32",
    "strided n2 ci40 co64 l71 k3 s2 p1 d2 bias f32",
};

TEST_F(Sm90BlockedWays, TurnedIsExactOnIntegers) {
  for (const char* text : kTurned)
    EXPECT_GE(run_turned(BlockedCase::of_integers(text, false), device_), 2) << text;
}

TEST_F(Sm90BlockedWays, TurnedKeepsInfinitiesAndNan) {
  for (const char* text : kTurned)
    EXPECT_GE(run_turned(BlockedCase::of_integers(text, true), device_), 2) << text;
}

TEST_F(Sm90BlockedWays, PhasedIsExactOnIntegers) {
  for (const char* text : kPhased)
    EXPECT_GE(run_phased(BlockedCase::of_integers(text, false), device_), 5) << text;
}

TEST_F(Sm90BlockedWays, PhasedKeepsInfinitiesAndNan) {
  for (const char* text : kPhased)
    EXPECT_GE(run_phased(BlockedCase::of_integers(text, true), device_), 5) << text;
}

TEST_F(Sm90BlockedWays, ScaledIsExactOnIntegers) {
  for (const std::string text : kScaled) {
    for (const std::string mode : {"", " tf32"})
      EXPECT_GE(run_scaled(BlockedCase::of_integers(text + mode, false), device_), 3) << text << mode;
  }
}

TEST_F(Sm90BlockedWays, ScaledKeepsInfinitiesAndNan) {
  for (const std::string text : kScaled) {
    for (const std::string mode : {"", " tf32"})
      EXPECT_GE(run_scaled(BlockedCase::of_integers(text + mode, true), device_), 3) << text << mode;
  }
}

}  // namespace
}  // namespace tconv::gpu_test
