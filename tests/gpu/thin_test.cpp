// Every configuration of cuda.sm80.thin.
#include <limits>

#include "cuda/entries.hpp"
#include "cuda/sm80/thin_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Thin : public Gpu {};

// Runs every configuration of a problem; how many stored exactly what the reference does. from: x, or dy.
int run_all(const core::Problem& p, const std::vector<std::byte>& from,
            const std::vector<std::byte>& weight) {
  const core::DeviceInfo device = cuda::device_info(0).value(), one = of_one_sm(device);
  EXPECT_EQ(cuda::thin_refusal(p, device), "");
  const bool strided = p.operation == core::Operation::strided;
  const std::vector<std::byte> bias = DeviceOperands::integers(p, strided ? p.cin : p.cout, 3);
  plan::Operands host;
  host.weight = weight.data(), host.bias = bias.data();
  (strided ? host.grad_output : host.x) = from.data();
  const std::vector<std::byte> expected = rounded_reference(p, host);
  const Buffer weight_there(weight), bias_there(bias);
  int exact = 0, places = 0;
  for (const int row_warps : {1, 2, 4}) {
    for (int row_tiles = 1; row_tiles <= cuda::kThinMostRowTiles; ++row_tiles) {
      for (int turns = 1; turns <= cuda::kThinMostTurns; turns *= 2) {
        // The source begins at another of 8 places of a vector each time.
        const std::size_t before = static_cast<std::size_t>(places++ % 8) * size_of(p.dtype);
        std::vector<std::byte> moved(before);
        moved.insert(moved.end(), from.begin(), from.end());
        const Buffer from_there(moved);
        const auto kernel = cuda::thin_kernel(p, turns == 1 ? one : device, {row_tiles, row_warps, turns});
        if (kernel == nullptr) continue;
        Buffer output(expected.size());
        output.fill(0xff);
        plan::Operands operands;
        (strided ? operands.grad_output : operands.x) =
            static_cast<const std::byte*>(static_cast<const void*>(from_there.get())) + before;
        operands.weight = weight_there.get(), operands.bias = bias_there.get(),
        operands.output = output.get();
        EXPECT_TRUE(kernel->run(operands, {}).ok());
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        const bool same = output.take() == expected;
        EXPECT_TRUE(same) << text(p) << ": row tiles " << row_tiles << ", row warps " << row_warps
                          << ", turns " << turns;
        exact += same;
      }
    }
  }
  return exact;
}

constexpr const char* kProblems[] = {"strided n2 ci16 co8 l1001 k7 s1 p15 d5 bf16",
                                     "strided n3 ci33 co5 l370 k5 s3 p1 op1 bias f16",
                                     "strided n2 ci12 co24 l2100 k4 s2 p1 g2 bias bf16",
                                     "strided n1 ci64 co1 l1500 k21 s2 p9 bf16",
                                     "strided n2 ci100 co48 l300 k8 s2 p4 bf16",
                                     "strided n2 ci20 co16 l600 k13 s12 p0 f16",
                                     "strided n300 ci7 co9 l30 k3 s1 p1 bf16",
                                     "strided n2 ci130 co3 l513 k3 s1 p1 bias bf16",
                                     "n2 ci8 co16 l1001 k7 s1 p15 d5 bias bf16",
                                     "n50 ci6 co12 l70 k2 s2 p0 bias f16",
                                     "n2 ci12 co24 l1111 k4 s2 p1 g2 bias bf16",
                                     "n1 ci32 co9 l555 k7 s3 p2 op1 bias f16",
                                     "n2 ci16 co4 l400 k16 s8 p4 bf16",
                                     "n2 ci24 co4 l300 k23 s10 p3 bias bf16",
                                     "n1 ci3 co128 l900 k21 s16 p2 bf16",
                                     "n2 ci96 co48 l200 k8 s2 p4 bias bf16",
                                     "n200 ci5 co3 l17 k3 s1 p0 bf16",
                                     "n1 ci17 co5 l800 k9 s5 p11 op2 f16",
                                     "strided n2 ci16 co8 l1001 k7 s1 p15 d5 bias f32",
                                     "strided n3 ci33 co5 l370 k5 s3 p1 op1 f32 tf32",
                                     "strided n2 ci12 co24 l2100 k4 s2 p1 g2 bias f32",
                                     "strided n1 ci64 co1 l1500 k21 s2 p9 f32 tf32",
                                     "strided n2 ci20 co4 l600 k13 s12 p0 bias f32",
                                     "strided n300 ci7 co9 l30 k3 s1 p1 f32 tf32",
                                     "strided n2 ci40 co2 l700 k9 s16 p0 f32",
                                     "n2 ci8 co16 l1001 k7 s1 p15 d5 bias f32 tf32",
                                     "n50 ci16 co12 l70 k4 s2 p0 bias f32",
                                     "n2 ci12 co24 l1111 k4 s2 p1 g2 bias f32 tf32",
                                     "n1 ci32 co9 l555 k7 s3 p2 op1 bias f32",
                                     "n2 ci16 co4 l400 k16 s8 p4 f32 tf32",
                                     "n1 ci16 co9 l900 k48 s16 p2 bias f32",
                                     "n200 ci5 co3 l17 k3 s1 p0 f32 tf32"};

std::vector<std::byte> source_of(const core::Problem& p) {
  const bool strided = p.operation == core::Operation::strided;
  return DeviceOperands::integers(p, strided ? p.y_elements() : p.x_elements(), 1);
}

TEST_F(Thin, ConfigurationsAreExactOnIntegers) {
  int exact = 0;
  for (const char* line : kProblems) {
    const core::Problem p = core::parse(line).value();
    exact += run_all(p, source_of(p), DeviceOperands::integers(p, p.weight_elements(), 2));
  }
  EXPECT_GT(exact, 300);
}

TEST_F(Thin, BlocksOfOneSmWalk) {
  const core::DeviceInfo one = of_one_sm(cuda::device_info(0).value());
  int walks = 0;
  for (const char* line : kProblems) {
    const cuda::ThinPlan plan = cuda::thin_plan_of(core::parse(line).value(), one, {1, 1, 1});
    walks += plan.blocks > 0 && plan.params.tiles > static_cast<int>(plan.params.walkers.value);
  }
  EXPECT_GT(walks, 8);  // those that the tests above and below run
}

// Beside numbers that are not finite, zeros that stand for nothing would be NaN.
TEST_F(Thin, MakesNoProductsOfWhatDoesNotExist) {
  int exact = 0;
  for (const char* line : kProblems) {
    const core::Problem p = core::parse(line).value();
    std::vector<std::byte> weight = DeviceOperands::integers(p, p.weight_elements(), 2),
                           source = source_of(p);
    const double infinity = std::numeric_limits<double>::infinity();
    for (int64_t i = 3; i < p.weight_elements(); i += 37)
      reference::store(p.dtype, weight.data(), i, infinity);
    const auto elements = static_cast<int64_t>(source.size() / size_of(p.dtype));
    for (int64_t i = 11; i < elements; i += 1013) reference::store(p.dtype, source.data(), i, -infinity);
    reference::store(p.dtype, source.data(), elements / 2, std::numeric_limits<double>::quiet_NaN());
    exact += run_all(p, source, weight);
  }
  EXPECT_GT(exact, 300);
}

}  // namespace
}  // namespace tconv::gpu_test
