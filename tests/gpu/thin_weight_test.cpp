// Every configuration of cuda.sm80.thin_weight.
#include <cmath>
#include <limits>

#include "cuda/entries.hpp"
#include "cuda/sm80/thin_weight_plan.hpp"
#include "gpu/gradient.hpp"

namespace tconv::gpu_test {
namespace {

class ThinWeight : public Gpu {};

// Runs every configuration of a problem; how many stored exactly what the reference does.
int run_all(const Gradient& g) {
  const core::DeviceInfo device = cuda::device_info(0).value(), one = of_one_sm(device);
  EXPECT_EQ(cuda::thin_weight_refusal(g.problem, device), "");
  const std::vector<std::byte> expected = g.truth();
  int exact = 0, places = 0;
  for (const bool rows_move : {false, true}) {
    for (int tile = 0; tile < cuda::kThinWeightTiles; ++tile) {
      for (int warps = 0; warps < 10; ++warps) {
        const int row_bits = warps % 4, column_bits = warps / 4 + (row_bits == 0 ? warps / 4 : 0);
        if (row_bits + column_bits > 3) continue;
        const int words = cuda::kThinWeightLeastWords << (tile + warps) % 4;
        const cuda::ThinWeightConfig config{rows_move, tile, 1 << row_bits, 1 << column_bits, words};
        // x and dy begin at another of 8 places of a vector each time.
        const auto kernel = cuda::thin_weight_kernel(g.problem, warps % 2 == 1 ? one : device, config);
        if (kernel == nullptr) continue;
        const bool same = g.run(*kernel, places++ % 8) == expected;
        EXPECT_TRUE(same) << text(g.problem) << ": rows move " << rows_move << ", tile " << tile << ", warps "
                          << (1 << row_bits) << " x " << (1 << column_bits) << ", words " << words;
        exact += same;
      }
    }
  }
  return exact;
}

constexpr const char* kProblems[] = {
    "gw n2 ci16 co8 l1001 k7 s1 p15 d5 bf16",  "gw n3 ci33 co5 l370 k5 s3 p1 op1 f16",
    "gw n2 ci24 co12 l2100 k4 s2 p1 g2 bf16",  "gw n1 ci64 co1 l1500 k21 s2 p9 f32 tf32",
    "gw n2 ci100 co3 l300 k8 s2 p4 f32",       "gw n2 ci20 co16 l600 k13 s12 p0 f16",
    "gw n70 ci7 co9 l30 k3 s1 p1 bf16",        "gw n2 ci130 co3 l513 k3 s1 p1 f32 tf32",
    "gw n2 ci1 co32 l2001 k21 s2 p9 bf16",     "gw n50 ci6 co12 l70 k2 s2 p0 f32",
    "gw n1 ci3 co40 l900 k21 s16 p2 f32 tf32", "gw n5 ci24 co4 l300 k23 s20 p3 bf16",
    "gw n40 ci5 co3 l17 k3 s1 p0 f32",         "gw n1 ci17 co5 l800 k9 s5 p11 op2 d2 f16"};

TEST_F(ThinWeight, ConfigurationsAreExactOnIntegers) {
  int exact = 0;
  for (const char* line : kProblems) exact += run_all(Gradient(line, true));
  EXPECT_GT(exact, 1000);
}

// Beside numbers that are not finite, zeros that stand for nothing would be NaN.
TEST_F(ThinWeight, MakesNoProductsOfWhatDoesNotExist) {
  int exact = 0;
  for (const char* line : kProblems) {
    Gradient g(line, true);
    const double infinity = std::numeric_limits<double>::infinity();
    const core::DType dtype = g.problem.dtype;
    const auto x = static_cast<int64_t>(g.x.size() / size_of(dtype)),
               y = static_cast<int64_t>(g.y.size() / size_of(dtype));
    // The first and the last position of dy lie beside the padding.
    for (int64_t i = 0; i < y; i += g.problem.lout()) reference::store(dtype, g.y.data(), i, infinity);
    for (int64_t i = 11; i < x; i += 3011) reference::store(dtype, g.x.data(), i, -infinity);
    reference::store(dtype, g.x.data(), x / 2, std::numeric_limits<double>::quiet_NaN());
    exact += run_all(g);
  }
  EXPECT_GT(exact, 1000);
}

// Walkers of several chains. Tensor cores truncate as they add, so that one long sum of positive products
// would be off by 2^-10 of it.
TEST_F(ThinWeight, LongSumsEndInTime) {
  const core::DeviceInfo one = of_one_sm(cuda::device_info(0).value());
  for (const char* line : {"gw n6 ci4 co2 l40001 k4 s2 p1 f32 tf32", "gw n6 ci4 co2 l40000 k3 s1 p1 f32"}) {
    Gradient g(line, false);
    for (std::vector<std::byte>* data : {&g.x, &g.y}) {
      for (std::size_t i = 0; i < data->size() / sizeof(float); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double v = reference::load(g.problem.dtype, data->data(), at);
        reference::store(g.problem.dtype, data->data(), at, std::fabs(v));
      }
    }
    const cuda::ThinWeightConfig config{false, 1, 1, 1, 64};
    const auto plan = cuda::thin_weight_plan_of(g.problem, one, config);
    ASSERT_GT(plan.params.tiles / static_cast<int>(plan.params.walkers.value), 2 * plan.params.chain);
    const auto out = g.run(*cuda::thin_weight_kernel(g.problem, one, config));
    const plan::Operands host{g.x.data(), nullptr, nullptr, g.y.data(), nullptr};
    for (int64_t i = 0; i < g.problem.output_elements(); ++i) {
      const double sum = reference::element_at(g.problem, host, i).value;
      EXPECT_NEAR(reference::load(g.problem.dtype, out.data(), i), sum, sum * 0x1p-14) << line << ", " << i;
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
