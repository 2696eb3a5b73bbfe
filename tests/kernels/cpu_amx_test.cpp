// cpu.amx: on every SIMD target, where its tile products are emulated, and on machines with AMX in tiles too.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cpu/amx/contract.hpp"
#include "kernels/cpu_family.hpp"

namespace tconv::tests {
namespace {

using namespace cpu::amx;

constexpr const char* kKernel = "cpu.amx";

void judge_bf16(std::initializer_list<const char*> lines) {
  using judge::Fill;
  for (const std::string& simd : SimdTarget::all()) {
    const SimdTarget only(simd);
    for (const char* line : lines) {
      judge_problem(problem_of(line + std::string(" bf16")), kKernel, 1,
                    {Fill::integers, Fill::uniform, Fill::spread, Fill::special});
    }
  }
}

// Values around 1, of either sign, some of them zero.
uint16_t some_bits(judge::Rng& rng) {
  if (rng.chance(5)) return 0;
  const auto exponent = static_cast<uint64_t>(rng.between(100, 150));
  return static_cast<uint16_t>((static_cast<uint64_t>(rng.between(0, 0xff)) << 8 & 0x8000) | exponent << 7 |
                               static_cast<uint64_t>(rng.between(0, 0x7f)));
}

TEST(CpuAmx, FoundWhereTheSystemListsIt) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  bool listed = false;
  while (std::getline(file, line)) listed = listed || line.find(" amx_bf16 ") != std::string::npos;
  if (!listed) GTEST_SKIP() << "/proc/cpuinfo lists no amx_bf16: tile products are emulated here";
  EXPECT_TRUE(available());
  EXPECT_TRUE(tiles_in_use());
}

TEST(CpuAmx, TilesAndVectorsGiveTheSameBits) {
  if (!available()) GTEST_SKIP() << "this machine has no AMX";
  constexpr int64_t kSteps = 3, kTaps = 2, kLine = 80, kSumsLine = 48;
  const std::vector<int64_t> offsets{0, 21};
  for (uint64_t seed = 0; seed < 64; ++seed) {
    judge::Rng rng(seed);
    std::vector<uint16_t> weights(2 * kSteps * kTaps * kWeights);
    std::vector<uint32_t> panel(kSteps * kPairs * kLine);
    for (uint16_t& w : weights) w = some_bits(rng);
    for (uint32_t& pair : panel) pair = some_bits(rng) | static_cast<uint32_t>(some_bits(rng)) << 16;
    Product p;
    p.weights = weights.data(), p.panel = panel.data(), p.offsets = offsets.data();
    p.line = kLine, p.step = kPairs * kLine, p.sums_line = kSumsLine, p.steps = kSteps, p.taps = kTaps;
    p.row_tiles = rng.between(1, 2), p.column_tiles = rng.between(1, 2), p.add = rng.chance(50);
    std::vector<float> tiles(2 * kTile * kSumsLine, 0.375f), vectors = tiles;
    p.sums = tiles.data();
    begin_tiles();
    multiply_in_tiles(p);
    end_tiles();
    p.sums = vectors.data();
    multiply_in_vectors(p);
    EXPECT_EQ(std::memcmp(tiles.data(), vectors.data(), tiles.size() * sizeof(float)), 0) << "seed " << seed;
  }
}

// 2^-63 squared is 2^-126, the least normal float32, and a bf16 has 7 bits behind its first.
TEST(CpuAmx, KnowsWhereSumsCouldBeSubnormal) {
  const auto bits = [](int exponent) { return (exponent + 127) << 7; };
  EXPECT_TRUE(safe_in_tiles(bits(-56), bits(-56)));
  EXPECT_FALSE(safe_in_tiles(bits(-56), bits(-57)));
  EXPECT_TRUE(safe_in_tiles(bits(-112), bits(0)));
  EXPECT_FALSE(safe_in_tiles(bits(100), 1));  // a subnormal operand
  EXPECT_TRUE(safe_in_tiles(kNoMagnitude, bits(-56)));
}

TEST(CpuAmx, Transposed) {
  judge_bf16({"ci64 co24 l90 k16 s8 p4", "n2 ci40 co24 l33 k5 s3 p2 bias", "n3 ci33 co9 l7 k6 s4",
              "n2 ci32 co20 l60 k3 s2 p1 d2 bias", "ci96 co48 l50 k7 p3 d3",
              "n40 ci20 co10 l3 k16 s8 p4 bias", "ci5 co3 l40 k2 s5 bias", "n2 ci70 co33 l21 k4 s2 op1 g1",
              "n2 ci60 co36 g3 l30 k4 s2 p1 bias", "n2 ci16 co40 l9 k3 d200", "ci1 co1 l1 k1",
              "n0 ci8 co8 l4 k2"});
}

TEST(CpuAmx, StridedAndConv1d) {
  judge_bf16({"gx ci64 co32 l50 k16 s8 p4", "gx ci40 co24 l130 k7 s1 p3", "gx ci33 co9 l70 k5 s1 p12 d6",
              "gx n2 ci24 co16 l60 k41 s4 p20 g4", "conv1d n2 ci80 co64 l50 k7 p3 bias",
              "conv1d n2 ci16 co9 l30 k3 s2 p1 d2 bias xs480,1,16", "conv1d n2 ci600 co20 l9 k3 p1 bias",
              "conv1d ci3 co4 l2 k1 p9 s2 bias", "conv1d n2 ci64 co33 l50 k1 bias", "gx n0 ci2 co2 l4 k2"});
}

// Depth blocks, whose sums wait in memory, and groups of columns that a unit passes one after another.
TEST(CpuAmx, BlocksOfDepthAndColumns) {
  judge_bf16(
      {"ci2100 co4 l300 k2 bias", "conv1d ci512 co10 l2400 k16 s8 p4 bias", "ci64 co20 l700 k4 s2 p1"});
  for (const char* line : {"ci2100 co4 l300 k2 bias bf16", "conv1d ci512 co10 l2400 k16 s8 p4 bias bf16"}) {
    const Job job = make_job(problem_of(line), 1);
    EXPECT_FALSE(job.one_block()) << line;
  }
  const Config config = make_job(problem_of("ci64 co20 l700 k4 s2 p1 bf16"), 1).config;
  EXPECT_GT(config.panel_columns, config.group_columns);
}

TEST(CpuAmx, Random) {
  judge_random(kKernel, 400, 41, [](judge::Rng& rng, core::Problem& p) {
    p.operation = rng.chance(50) ? core::Operation::transposed : core::Operation::strided;
    draw_sizes(rng, p, {.n = 4, .cin = 100, .cout = 70, .l = 300, .k = 40, .stride = 20});
  });
}

TEST(CpuAmx, WorkspaceIsBounded) {
  int supporting = 0;
  for (uint64_t stream = 0; stream < 20'000; ++stream) {
    judge::Rng rng(43, stream);
    core::Problem p;
    p.operation = rng.chance(50) ? core::Operation::transposed : core::Operation::strided;
    p.dtype = core::DType::bf16;
    p.n = rng.log_between(1, 5000);
    p.groups = rng.log_between(1, 200);
    p.cin = p.groups * rng.log_between(1, 5000);
    p.cout = p.groups * rng.log_between(1, 5000);
    p.l = rng.log_between(1, 1'000'000);
    p.k = rng.log_between(1, 2000);
    p.stride = rng.log_between(1, 400);
    p.dilation = rng.chance(50) ? 1 : rng.log_between(1, 5000);
    if (validate(p).ok() && supported(p, kKernel)) ++supporting;
  }
  EXPECT_GT(supporting, 1000);
}

// Without AMX no plan takes it unless forced; with it, large products do.
TEST(CpuAmx, ChosenWhereThereAreTiles) {
  core::DeviceInfo device = cpu::host_device();
  const auto kernel_for = [&](const char* line, bool tiles) {
    device.tiles = tiles;
    return plan::make_plan(problem_of(line), device, {}).value().entry->name;
  };
  for (const char* line : {"ci512 co256 l800 k16 s8 p4 bf16", "conv1d ci512 co512 l800 k3 p1 bf16"}) {
    EXPECT_STREQ(kernel_for(line, true), kKernel) << line;
    EXPECT_STRNE(kernel_for(line, false), kKernel) << line;
  }
  EXPECT_STRNE(kernel_for("ci512 co256 l800 k16 s8 p4 f32", true), kKernel);
  EXPECT_STRNE(kernel_for("ci64 co64 g64 l800 k4 s2 bf16", true), kKernel);
}

}  // namespace
}  // namespace tconv::tests
