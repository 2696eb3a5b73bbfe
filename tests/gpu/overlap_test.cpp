// Every configuration of cuda.sm80.overlap against every other.
#include "cuda/entries.hpp"
#include "cuda/sm80/overlap_plan.hpp"
#include "cuda/sm80/splits.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Overlap : public Gpu {};

// Tiles do not change the bits of a split; integers are exact in all of them.
TEST_F(Overlap, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text :
       {"n2 ci300 co40 l101 k16 s8 p4 bias f32 tf32", "n3 ci530 co33 l37 k5 s3 p1 op1 bias f16",
        "n2 ci270 co3 l50 k300 s77 p5 bias f32 tf32", "n5 ci600 co20 l64 k7 s1 p9 d3 g2 bias bf16",
        "n3 ci300 co2 l171 k13 s1 p4 d2 f32 tf32", "n2 ci270 co9 l255 k7 s2 p1 bias f32",
        "n4 ci301 co70 l33 k16 s8 p4 f32", "n3 ci290 co2 l201 k14 s1 p3 bias bf16"}) {
    DeviceOperands o(text);
    const core::Problem& p = o.problem;
    for (int splits = 1; splits <= cuda::kMostSplits; ++splits) {
      std::vector<std::byte> expected;
      for (int tile = 0; tile < cuda::kOverlapTileCount; ++tile) {
        const auto kernel = cuda::overlap_kernel(p, device, {tile, splits});
        if (kernel == nullptr) continue;
        Buffer y(o.output_bytes());
        y.fill(0xff);
        const plan::Operands operands{o.x_device.get(), o.weight_device.get(),
                                      p.has_bias ? o.bias_device.get() : nullptr, nullptr, y.get()};
        ASSERT_TRUE(kernel->run(operands, {}).ok());
        ASSERT_CUDA(cudaDeviceSynchronize());
        const std::vector<std::byte> got = y.take();
        if (expected.empty()) {
          // tf32 rounds; a wrong element is far beyond
          EXPECT_LE(o.worst(got), 300.0) << text;
          expected = got;
        }
        EXPECT_TRUE(got == expected) << text << ": tile " << tile << ", splits " << splits;
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
