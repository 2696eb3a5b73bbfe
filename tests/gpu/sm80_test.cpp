// Every configuration of cuda.sm80.dense against every other.
#include "cuda/entries.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Sm80 : public Gpu {};

// Every tile, pass and walk gives the same bits for the same split; integers are exact in all of them.
TEST_F(Sm80, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text : {"n2 ci70 co70 l301 k5 s1 p2 bias f32 tf32", "n3 ci40 co48 l61 k16 s8 p4 bias f32",
                           "n2 ci130 co40 l257 k7 s3 p1 d2 bias bf16", "n1 ci64 co64 l900 k3 s1 p0 d5 f16",
                           "n2 ci20 co36 l140 k4 s2 p1 g2 bias f64"}) {
    DeviceOperands o(text);
    const core::Problem& p = o.problem;
    std::vector<std::byte> first[9];
    for (int tile = 0; tile < 3; ++tile) {
      if (!cuda::sm80_has(cuda::arithmetic_of(p), tile)) continue;
      for (int variant = 0; variant < 48; ++variant) {
        cuda::Sm80Config c;
        c.tile = tile;
        c.splits = 1 + variant % 2;
        c.resident = variant / 2 % 2 == 1;
        c.folded = variant / 4 % 2 == 1;
        c.walkers = variant / 8 % 3;
        c.pass_columns = cuda::kSm80Tiles[tile].columns() / (variant < 24 ? 1 : 2);
        c.tap_group = cuda::sm80_tap_group(p, tile);
        const bool whole = c.pass_columns >= cuda::kSm80Tiles[tile].warp_columns();
        const cuda::Sm80Plan plan = cuda::sm80_plan_of(p, device, c);
        if (!whole || plan.blocks == 0 || c.splits > plan.params.slabs ||
            c.walkers > plan.params.column_tiles)
          continue;
        const auto kernel = cuda::sm80_kernel(p, device, c);
        Buffer packed(kernel->packed_bytes()), workspace(kernel->workspace_bytes()), y(o.output_bytes());
        plan::RunContext context;
        context.workspace = static_cast<std::byte*>(workspace.get());
        y.fill(0xff);
        ASSERT_TRUE(kernel->pack(o.weight_device.get(), packed.get(), context).ok());
        const plan::Operands operands{o.x_device.get(), packed.get(),
                                      p.has_bias ? o.bias_device.get() : nullptr, nullptr, y.get()};
        ASSERT_TRUE(kernel->run(operands, context).ok());
        ASSERT_CUDA(cudaDeviceSynchronize());
        const std::vector<std::byte> got = y.take();
        std::vector<std::byte>& expected = first[c.splits];
        if (expected.empty()) {
          EXPECT_LE(o.worst(got), 300.0) << text;  // tf32 rounds; a wrong element is far beyond
          expected = got;
        }
        EXPECT_TRUE(got == expected) << text << ": " << cuda::text(c);
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
