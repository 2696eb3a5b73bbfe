// Every configuration of cuda.sm90.dense against every other.
#include "cuda/entries.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "gpu/device.hpp"

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

// What a configuration computes; empty where it does not fit.
std::vector<std::byte> run(const Operands& o, const core::DeviceInfo& device,
                           const cuda::Sm90Config& config) {
  const core::Problem& p = o.problem;
  const cuda::Sm90Plan plan = cuda::sm90_plan_of(p, device, config);
  if (plan.blocks == 0 || config.splits > plan.params.units || config.walkers > plan.params.column_tiles)
    return {};
  const auto kernel = cuda::sm90_kernel(p, device, config);
  Buffer packed(kernel->packed_bytes()), workspace(kernel->workspace_bytes()), y(o.output_bytes());
  plan::RunContext context;
  context.workspace = static_cast<std::byte*>(workspace.get());
  y.fill(0xff);
  workspace.fill(0xff);
  packed.fill(0xff);
  EXPECT_TRUE(kernel->pack(o.weight_device.get(), packed.get(), context).ok());
  const plan::Operands operands{o.x_device.get(), packed.get(), p.has_bias ? o.bias_device.get() : nullptr,
                                nullptr, y.get()};
  EXPECT_TRUE(kernel->run(operands, context).ok());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return y.take();
}

// The same operands and split give the same bits in every tile, ring and walk: few stages show a slot that is
// released too early. What is held in float16 has its own bits.
TEST_F(Sm90, ConfigurationsAgree) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* text :
       {"n2 ci70 co70 l701 k5 s1 p2 bias f32 tf32", "n3 ci40 co48 l61 k16 s8 p4 bias f32",
        "n2 ci130 co40 l1257 k7 s3 p1 d2 bias bf16", "n1 ci64 co64 l900 k3 s1 p0 d5 f16",
        "n2 ci96 co36 l640 k4 s2 p1 g2 bias f32 tf32", "n1 ci64 co24 l300 k3 s5 p1 op2 bias f16",
        "n2 ci40 co33 l333 k9 s6 p2 d5 bias f32"}) {
    const Operands o(text);
    const cuda::Sm80Mode mode = cuda::sm80_mode(o.problem);
    std::vector<std::byte> first[2][3];
    int ran = 0;
    const int tiles = static_cast<int>(cuda::sm90_tiles().size());
    for (int variant = 0; variant < tiles * 2 * 2 * 2 * 2 * 3; ++variant) {
      const int others = variant / tiles;
      cuda::Sm90Config c;
      c.tile = variant % tiles;
      c.splits = 1 + others % 2;
      c.resident = others / 2 % 2 == 1;
      c.folded = others / 4 % 2 == 1;
      c.held = others / 8 % 2 == 1;
      c.stages = others / 16 == 0 ? 0 : 1 + others / 16;
      c.walkers = others / 16;
      if (!cuda::sm90_has(mode, c.held, c.tile) || (c.held && mode != cuda::Sm80Mode::tf32)) continue;
      if (c.folded && o.problem.n == 1) continue;
      const std::vector<std::byte> got = run(o, device, c);
      if (got.empty()) continue;
      ++ran;
      std::vector<std::byte>& expected = first[c.held][c.splits];
      if (expected.empty()) {
        EXPECT_LE(o.worst(got), 300.0) << text;  // tf32 rounds; a wrong element is far beyond
        expected = got;
      }
      EXPECT_TRUE(got == expected) << text << ": " << cuda::text(c);
    }
    EXPECT_GT(ran, 10) << text;
  }
}

}  // namespace
}  // namespace tconv::gpu_test
