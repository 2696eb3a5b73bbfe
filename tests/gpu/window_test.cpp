// Every configuration of cuda.sm80.window against every other.
#include "cuda/entries.hpp"
#include "cuda/sm80/splits.hpp"
#include "cuda/sm80/window_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Window : public Gpu {};

struct WindowOperands {
  core::Problem problem;
  std::vector<std::byte> dy, weight;

  explicit WindowOperands(const char* text)
      : problem(core::parse(text).value()),
        dy(DeviceOperands::integers(problem, problem.y_elements(), 1)),
        weight(DeviceOperands::integers(problem, problem.weight_elements(), 2)) {}

  std::vector<std::byte> expected() const {
    plan::Operands host;
    host.weight = weight.data(), host.grad_output = dy.data();
    return rounded_reference(problem, host);
  }
};

TEST_F(Window, ConfigurationsAreExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  int run = 0;
  for (const char* text :
       {"strided n2 ci40 co30 l101 k16 s8 p4 f32 tf32", "strided n3 ci33 co53 l37 k5 s3 p1 op1 f16",
        "strided n2 ci20 co9 l50 k300 s7 p5 f32", "strided n5 ci66 co130 l64 k7 s1 p9 d3 g2 bf16",
        "strided n1 ci130 co300 l3 k4 s2 p1 f32 tf32", "strided n4 ci17 co72 l60 k1 s1 p0 f32"}) {
    const WindowOperands o(text);
    const core::Problem& p = o.problem;
    const std::vector<std::byte> expected = o.expected();
    const Buffer dy(o.dy), weight(o.weight);
    for (int tile = 0; tile < cuda::kWindowTileCount; ++tile) {
      for (int splits = 1; splits <= cuda::kMostSplits; ++splits) {
        const auto kernel = cuda::window_kernel(p, device, {tile, splits});
        if (kernel == nullptr) continue;
        Buffer dx(expected.size());
        dx.fill(0xff);
        plan::Operands operands;
        operands.grad_output = dy.get(), operands.weight = weight.get(), operands.output = dx.get();
        ASSERT_TRUE(kernel->run(operands, {}).ok());
        ASSERT_CUDA(cudaDeviceSynchronize());
        EXPECT_TRUE(dx.take() == expected) << text << ": tile " << tile << ", splits " << splits;
        ++run;
      }
    }
  }
  EXPECT_GT(run, 60);
}

}  // namespace
}  // namespace tconv::gpu_test
