// The weight and bias gradients: every configuration against every other, long sums, other addresses.
#include <map>

#include "cuda/entries.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/bias.hpp"
#include "cuda/simt/weight_plan.hpp"
#include "cuda/simt/weight_staged.hpp"
#include "cuda/sm80/weight_plan.hpp"
#include "cuda/sm90/weight_blocked_plan.hpp"
#include "cuda/sm90/weight_plan.hpp"
#include "cuda/sm90/weight_rows_plan.hpp"
#include "cuda/sm90/weight_turned_plan.hpp"
#include "gpu/gradient.hpp"
#include "plan/planner.hpp"

namespace tconv::gpu_test {
namespace {

class Weight : public Gpu {};

// Integers are exact in all configurations: tiles, pieces, taps of a block, splits.
TEST_F(Weight, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"gw n3 ci70 co40 l301 k5 s1 p2 f32 tf32", "gw n2 ci33 co20 l61 k16 s8 p4 f32",
                           "gw n5 ci20 co9 l13 k7 s3 p1 d2 bf16", "gw n2 ci9 co36 l140 k9 s1 p0 d5 f16",
                           "gw n2 ci20 co36 l140 k4 s2 p1 g2 f64", "gw n1 ci40 co1 l40 k300 s70 p0 f32 tf32",
                           "gw n2 ci16 co24 l200 k3 s2 p1 d2 g4 f16"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int tile = 0; tile < cuda::kWeightTiles; ++tile) {
      if (!cuda::weight_has(cuda::arithmetic_of(g.problem), tile)) continue;
      for (int variant = 0; variant < 12; ++variant) {
        const cuda::WeightConfig config{tile,
                                        16 << variant % 3,
                                        1 << variant % 2,
                                        variant % 4 == 3 ? 2 : 64,
                                        variant % 3 == 2 ? 3 : 256,
                                        1 + variant / 4 * 3};
        if (cuda::weight_plan_of(g.problem, device, config).blocks == 0) continue;
        ++taken;
        EXPECT_TRUE(g.run(*cuda::weight_kernel(g.problem, device, config)) == expected)
            << text << ": tile " << cuda::kWeightTileTable[tile].name << ", variant " << variant;
      }
    }
    EXPECT_GT(taken, 20) << text;
  }
}

// The same of multiply-adds: tiles, shares of the steps, with and without other addresses.
TEST_F(Weight, SimtConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"gw n3 ci6 co3 l304 k5 s1 p2 g3 f32", "gw n5 ci5 co9 l13 k7 s3 p1 d2 bf16",
                           "gw n2 ci7 co7 l136 k9 s1 p0 d5 g7 f16", "gw n70 ci4 co3 l2 k16 s8 p4 bf16",
                           "gw n1 ci4 co1 l400 k300 s70 p0 f64", "gw n2 ci16 co24 l200 k3 s2 p1 d2 g4 f16",
                           "gw n3 ci1 co5 l3000 k4 s2 p40 op1 f32", "gw n1 ci3 co2 l70 k11 s4 d6 p9 f32"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    for (int tile = 0; tile < cuda::simt::kWeightTiles; ++tile) {
      for (const int64_t shares : {1, 2, 4, 9, 50}) {
        const auto plan = cuda::simt::weight_plan_of(g.problem, device, {tile, shares});
        for (const int64_t move : {0, 1}) {
          EXPECT_TRUE(g.run(*cuda::simt::weight_kernel_of(g.problem, device, plan), move) == expected)
              << text << ": tile " << plan.tile().name << ", shares " << shares << ", moved " << move;
        }
      }
    }
  }
}

// The same of wgmma; x by tensor copies and by elements (where it does not begin on 16 bytes).
TEST_F(Weight, HopperConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text :
       {"gw n3 ci70 co40 l304 k5 s1 p2 f32 tf32", "gw n5 ci20 co9 l13 k7 s3 p1 d2 bf16",
        "gw n2 ci40 co36 l136 k9 s1 p0 d5 f16", "gw n7 ci130 co20 l64 k16 s8 p4 bf16",
        "gw n1 ci40 co1 l40 k300 s70 p0 f32 tf32", "gw n2 ci16 co24 l200 k3 s2 p1 d2 g4 f16",
        "gw n3 ci36 co64 l33 k4 s2 p1 f32 tf32"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int shape = 0; shape < cuda::kSm90WeightShapes; ++shape) {
      for (int variant = 0; variant < 12; ++variant) {
        const cuda::Sm90WeightConfig config{shape,
                                            (g.problem.dtype == core::DType::f32 ? 16 : 32) << variant % 3,
                                            4 >> variant % 3,
                                            variant % 4 == 3 ? 2 : 64,
                                            variant % 3 == 2 ? 3 : 256,
                                            1 + variant / 4 * 3};
        if (cuda::sm90_weight_plan_of(g.problem, device, config).blocks == 0) continue;
        ++taken;
        for (const int64_t move : {0, 1}) {
          EXPECT_TRUE(g.run(*cuda::sm90_weight_kernel(g.problem, device, config), move) == expected)
              << text << ": shape " << shape << ", variant " << variant << ", moved by " << move;
        }
      }
    }
    EXPECT_GT(taken, 10) << text;
  }
}

// The same of planes: shifts that are planes of x or of dy or neither, splits, chunks of positions.
TEST_F(Weight, BlockedConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text :
       {"gw n3 ci70 co40 l301 k5 s1 p2 f32 tf32", "gw n5 ci20 co9 l13 k7 s3 p1 d2 bf16",
        "gw n2 ci200 co36 l140 k9 s1 p0 d5 f16", "gw n7 ci130 co20 l63 k16 s8 p4 bf16",
        "gw n1 ci40 co1 l40 k300 s70 p0 f32 tf32", "gw n2 ci16 co24 l200 k3 s2 p1 d2 g4 f16",
        "gw n3 ci36 co64 l33 k4 s2 p1 f32", "gw n9 ci20 co300 l5 k11 s3 p5 f32",
        // Tiles of the last shift leave columns out, of one phase and of several.
        "gw n2 ci260 co70 l30 k5 s4 p1 bf16", "gw n2 ci280 co280 l33 k3 s2 p1 g2 f32",
        "gw n3 ci330 co40 l40 k20 s8 p6 f32 tf32", "gw n1 ci200 co300 l25 k11 s5 p3 f16"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int shape = 0; shape < cuda::kSm90WeightBlockedShapes; ++shape) {
      for (int variant = 0; variant < 24; ++variant) {
        const cuda::Sm90WeightBlockedConfig config{shape,
                                                   variant % 3 == 1   ? 2
                                                   : variant % 3 == 2 ? 100
                                                                      : 1,
                                                   variant % 4 == 3 ? 100 : 1 << variant % 4,
                                                   1 + variant / 4 % 3 * 3,
                                                   variant % 5 == 4 ? 128 : 0,
                                                   variant >= 12};
        if (cuda::sm90_weight_blocked_plan_of(g.problem, device, config).blocks == 0) continue;
        ++taken;
        EXPECT_TRUE(g.run(*cuda::sm90_weight_blocked_kernel(g.problem, device, config), variant % 2) ==
                    expected)
            << text << ": shape " << shape << ", variant " << variant;
      }
    }
    EXPECT_GT(taken, 15) << text;
  }
}

// The same of planes turned in shared memory: rows that begin 1, 2, 4 or 8 elements apart, phases that lanes
// keep and others, several boxes of a row, shifts farther apart than a stage, groups.
TEST_F(Weight, TurnedConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text : {"gw n3 ci72 co40 l301 k5 s1 p2 f16", "gw n5 ci16 co8 l130 k7 s3 p1 bf16",
                           "gw n2 ci200 co40 l140 k9 s1 p0 d5 f16", "gw n7 ci130 co24 l64 k16 s8 p4 bf16",
                           "gw n2 ci16 co32 l200 k3 s2 p1 d2 g2 f16", "gw n1 ci33 co70 l333 k41 s1 p20 bf16",
                           "gw n2 ci64 co300 l515 k20 s10 p5 bf16", "gw n4 ci100 co64 l64 k3 s1 p1 d40 f16",
                           "gw n3 ci72 co40 l301 k5 s1 p2 f32", "gw n2 ci64 co36 l340 k12 s6 p3 f32",
                           "gw n4 ci40 co20 l68 k4 s4 p0 f32", "gw n2 ci36 co20 l140 k9 s1 p0 d5 f32"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int shape = 0; shape < static_cast<int>(std::size(cuda::kSm90WeightBlockedShapeTable)); ++shape) {
      for (const int variant : {0, 1, 2, 3, 4, 5}) {
        const int splits = 1 + variant / 2 * 2;
        const cuda::Sm90WeightTurnedConfig config{shape, variant % 2 == 1, splits};
        if (cuda::sm90_weight_turned_plan_of(g.problem, device, config).blocks == 0) continue;
        ++taken;
        EXPECT_TRUE(g.run(*cuda::sm90_weight_turned_kernel(g.problem, device, config), taken % 3) == expected)
            << text << ": shape " << shape << ", variant " << variant;
      }
    }
    EXPECT_GT(taken, 5) << text;
  }
}

// The same of float32 with x in registers: rows that begin 1, 2 or 4 elements apart, several boxes of a row,
// shifts in rows, more channels than a tile, groups.
TEST_F(Weight, RowsConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text :
       {"gw n4 ci72 co40 l301 k5 s1 p2 f32 tf32", "gw n4 ci16 co8 l130 k7 s3 p1 f32 tf32",
        "gw n2 ci200 co40 l140 k9 s1 p0 d5 f32 tf32", "gw n7 ci130 co24 l64 k16 s8 p4 f32",
        "gw n2 ci16 co32 l200 k3 s2 p1 d2 g2 f32", "gw n1 ci33 co70 l333 k41 s1 p20 f32 tf32",
        "gw n1 ci64 co300 l515 k20 s10 p5 f32 tf32", "gw n1 ci24 co20 l97 k62 s31 p3 f32",
        "gw n4 ci72 co40 l301 k5 s1 p2 f32", "gw n2 ci64 co36 l340 k12 s6 p3 f32 tf32"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int shape = 0; shape < static_cast<int>(std::size(cuda::kSm90WeightRowsShapeTable)); ++shape) {
      for (const int positions : cuda::kSm90WeightRowsPositions) {
        for (const int variant : {0, 1, 2, 3}) {
          const cuda::Sm90WeightRowsConfig config{shape, positions, variant % 2 == 1, 1 + variant / 2 * 2};
          if (cuda::sm90_weight_rows_plan_of(g.problem, device, config).blocks == 0) continue;
          ++taken;
          EXPECT_TRUE(g.run(*cuda::sm90_weight_rows_kernel(g.problem, device, config), taken % 3) == expected)
              << text << ": shape " << shape << ", " << positions << " positions, variant " << variant;
        }
      }
    }
    EXPECT_GT(taken, 5) << text;
  }
}

// The same of multiply-adds by lanes: segments shorter and longer than a run, windows of some phases or all,
// tiles of one channel or of several.
TEST_F(Weight, StagedConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"gw n3 ci20 co10 l1301 k5 s1 p2 f32", "gw n2 ci9 co5 l997 k3 s2 p1 f32 tf32",
                           "gw n19 ci4 co3 l13 k7 s3 p1 d2 f32", "gw n2 ci12 co3 l640 k9 s1 p0 d5 f32",
                           "gw n1 ci5 co2 l200 k100 s70 p3 f32", "gw n2 ci6 co24 l500 k3 s4 p1 g3 f32",
                           "gw n300 ci3 co2 l1 k2 s1 p0 f32", "gw n2 ci1 co1 l3000 k1 s1 p0 f32",
                           "gw n2 ci17 co2 l333 k16 s16 p0 f32", "gw n3 ci20 co10 l1301 k5 s1 p2 bf16",
                           "gw n19 ci4 co3 l13 k7 s3 p1 d2 f16", "gw n2 ci6 co24 l500 k3 s4 p1 g3 bf16"}) {
    const Gradient g(text, true);
    const std::vector<std::byte> expected = g.truth();
    int taken = 0;
    for (int tile = 0; tile < cuda::simt::kStagedTiles; ++tile) {
      const cuda::simt::StagedTile& t = cuda::simt::kStagedTileTable[tile];
      const int warps = cuda::simt::staged_warps(t.rows * t.columns);
      for (int row_warps = 1; row_warps <= warps; row_warps *= 2) {
        for (int column_warps = 1; column_warps * row_warps <= warps; ++column_warps) {
          const auto plan = cuda::simt::staged_plan_of(g.problem, device, {tile, row_warps, column_warps});
          if (plan.blocks == 0) continue;
          ++taken;
          EXPECT_TRUE(g.run(*cuda::simt::staged_kernel(g.problem, device, plan), taken % 3) == expected)
              << text << ": tile " << tile << ", warps " << row_warps << " x " << column_warps;
        }
      }
    }
    EXPECT_GT(taken, 15) << text;
  }
}

// Copies differ by alignment, the order of sums does not.
TEST_F(Weight, AddressesChangeNoBits) {
  for (const char* text : {"gw n3 ci70 co40 l304 k5 s1 p2 f32 tf32", "gw n2 ci40 co20 l64 k16 s8 p4 bf16",
                           "gw n2 ci32 co32 l130 k4 s2 p1 f16", "gw n2 ci24 co24 l129 k4 s2 p1 g24 f32",
                           "gb n3 ci4 co40 l4001 k5 s1 p2 bf16"}) {
    const Gradient g(text, false);
    const auto kernel = chosen(g.problem, "");
    const std::vector<std::byte> first = g.run(*kernel);
    for (const int64_t move : {1, 2, 3, 4, 8})
      EXPECT_TRUE(g.run(*kernel, move) == first) << text << " by " << move;
  }
}

// Relative L2 distance from float64 of sums of 2 to 8 million products of one sign, where errors that go to
// one side add up, and of either sign.
double distance(const std::string& text, bool positive, const char* kernel) {
  Gradient g(text, false);
  const core::Problem& p = g.problem;
  if (positive) {
    for (std::vector<std::byte>* data : {&g.x, &g.y}) {
      const auto count = static_cast<int64_t>(data->size() / size_of(p.dtype));
      for (int64_t i = 0; i < count; ++i) {
        reference::store(p.dtype, data->data(), i, std::fabs(reference::load(p.dtype, data->data(), i)));
      }
    }
  }
  const std::vector<std::byte> got = g.run(*chosen(p, kernel));
  const plan::Operands host{g.x.data(), nullptr, nullptr, g.y.data(), nullptr};
  double error = 0, norm = 0;
  for (int64_t i = 0; i < p.output_elements(); ++i) {
    const double exact = reference::element_at(p, host, i).value;
    const double apart = reference::load(p.dtype, got.data(), i) - exact;
    error += apart * apart;
    norm += exact * exact;
  }
  return std::sqrt(error / norm);
}

TEST_F(Weight, LongSums) {
  const struct {
    const char* text;
    const char* kernel;
    double positive, mixed;
  } cases[] = {{"gw n8 ci2 co2 l1000001 k3 s1 p1 f32 tf32", "cuda.sm80.weight", 5e-5, 3.5e-4},
               {"gw n8 ci2 co2 l1000001 k3 s1 p1 f32 tf32", "cuda.sm90.weight", 2e-4, 3.5e-4},
               {"gw n8 ci2 co2 l1000001 k3 s1 p1 f32 tf32", "cuda.sm90.weight_blocked", 2e-4, 3.5e-4},
               {"gw n4 ci2 co2 l500001 k3 s2 p1 f32", "cuda.sm80.weight", 1e-6, 2e-6},
               {"gw n4 ci2 co2 l500001 k3 s2 p1 f32", "cuda.sm90.weight_blocked", 1e-6, 2e-6},
               {"gw n4 ci2 co2 l500001 k2 s1 p0 f64", "cuda.sm80.weight", 1e-13, 1e-13},
               {"gw n4 ci2 co2 l500001 k2 s1 p0 f32", "cuda.simt.weight", 1e-6, 2e-6},
               {"gw n4 ci2 co2 l500001 k2 s1 p0 f32", "cuda.simt.outer", 1e-6, 2e-6},
               {"gw n4 ci2 co2 l500001 k3 s2 p1 f32", "cuda.simt.weight_staged", 1e-6, 2e-6},
               {"gb n8 ci1 co4 l1000001 k1 s1 p0 f32", "cuda.simt.bias", 1e-6, 2e-6}};
  const int sm = cuda::device_info(0).value().sm;
  for (const auto& c : cases) {
    if (std::string(c.kernel).starts_with("cuda.sm90.") && sm != 90) continue;
    EXPECT_LT(distance(c.text, true, c.kernel), c.positive) << c.text;
    EXPECT_LT(distance(c.text, false, c.kernel), c.mixed) << c.text;
  }
}

// Magnitudes about 1e-30 and 1e-37 are as exact as others: a split operand keeps its bits.
TEST_F(Weight, SmallGradients) {
  for (const double scale : {1e-30, 1e-37}) {
    Gradient g("gw n2 ci32 co32 l300 k3 s1 p1 f32", false);
    const core::Problem& p = g.problem;
    for (int64_t i = 0; i < p.y_elements(); ++i) {
      reference::store(p.dtype, g.y.data(), i, scale * reference::load(p.dtype, g.y.data(), i));
    }
    for (const char* kernel : {"cuda.sm80.weight", "cuda.sm90.weight_blocked", "cuda.simt.weight_staged"}) {
      if (std::string(kernel).starts_with("cuda.sm90.") && cuda::device_info(0).value().sm != 90) continue;
      const std::vector<std::byte> got = g.run(*chosen(p, kernel));
      const plan::Operands host{g.x.data(), nullptr, nullptr, g.y.data(), nullptr};
      double worst = 0;
      for (int64_t i = 0; i < p.output_elements(); ++i) {
        const reference::Element e = reference::element_at(p, host, i);
        const double bound = 8 * std::sqrt(602.0) * 0x1p-24 * e.magnitude + 602 * 0x1p-149;
        worst = std::max(worst, std::fabs(reference::load(p.dtype, got.data(), i) - e.value) / bound);
      }
      EXPECT_LE(worst, 1.0) << scale << " " << kernel;
    }
  }
}

// Without a sample, or without an output position, every sum is empty.
TEST_F(Weight, EmptySumsAreZero) {
  for (const char* text : {"gw n0 ci20 co20 l30 k3 s1 p1 f32 tf32", "gw n2 ci20 co20 l2 k1 s1 p1 f32 tf32",
                           "gb n0 ci20 co20 l30 k3 s1 p1 bf16", "gw n0 ci20 co20 l30 k3 s1 p1 g20 f32"}) {
    const Gradient g(text, false);
    for (const plan::KernelEntry* entry : plan::supporting(g.problem, cuda::device_info(0).value(), {})) {
      for (const std::byte b : g.run(*chosen(g.problem, entry->name)))
        EXPECT_EQ(b, std::byte{0}) << text << " " << entry->name;
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
