// A prologue of cuda.sm90.dense has the bits of a product of x as it is stored behind the prologue.
#include "cuda/entries.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "cuda/toy_stages.hpp"
#include "epilogue/rounding.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Prologue : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (cuda::device_info(0).value().sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  }
};

// x behind the leaky ReLU of toy_stages.hpp, on the host.
void make_leaky(DeviceOperands& o) {
  const core::Problem& p = o.problem;
  std::vector<std::byte> x = o.x_device.take();
  for (int64_t i = 0; i < p.n * p.cin * p.l; ++i) {
    const auto v = static_cast<float>(reference::load(p.dtype, x.data(), i));
    const float slope = i / p.l % p.cin % 2 == 0 ? cuda::kToyEven : cuda::kToyOdd;
    epilogue::store_double(p.dtype, x.data(), i, v < 0 ? slope * v : v);
  }
  o.x_device.put(x);
}

// In every tile that kernels has, with and without a scale.
void expect_fused(const std::string& line, const cuda::Sm90Kernels& kernels) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  DeviceOperands plain(line), leaky(line);
  make_leaky(leaky);
  int ran = 0;
  for (int i = 0; i < 4 * static_cast<int>(cuda::sm90_tiles().size()); ++i) {
    cuda::Sm90Config c;
    c.tile = i / 4;
    c.scaled = i % 2 == 1;
    c.resident = i / 2 % 2 == 1;
    if (!cuda::sm90_has(cuda::arithmetic_of(plain.problem), c.scaled, c.tile)) continue;
    const cuda::Sm90Plan plan = cuda::sm90_plan_of(plain.problem, device, c);
    const cuda::Sm90Functions& functions = c.scaled ? kernels.scaled : kernels.plain;
    const cuda::Sm90Tile& tile = cuda::sm90_tile(c);
    if (plan.blocks == 0 || tile.row_blocks > 1) continue;
    if (tile.tma ? functions.tma[0][plan.params.tma.tap_group] == nullptr
                 : functions.gather[0][static_cast<std::size_t>(c.tile)] == nullptr) {
      continue;
    }
    const auto fused = run_once(*cuda::sm90_kernel(plain.problem, device, c, &kernels), plain);
    const auto stored = run_once(*cuda::sm90_kernel(leaky.problem, device, c), leaky);
    EXPECT_TRUE(fused == stored) << line << ": " << cuda::text(c);
    ++ran;
  }
  EXPECT_GT(ran, 0) << line;
}

TEST_F(Prologue, HasTheBitsOfXStoredBehindIt) {
  for (const std::string shape :
       {"n2 ci40 co40 l520 k3 s1 p1 bias ", "n1 ci32 co24 l704 k6 s2 p2 ", "n2 ci33 co20 l301 k5 s1 p2 d3 ",
        "n2 ci64 co48 l1001 k3 s1 p0 g2 ", "n1 ci36 co70 l402 k9 s2 p3 d6 "}) {
    expect_fused(shape + "f16", cuda::leaky_f16());
    expect_fused(shape + "f32 tf32", cuda::leaky_tf32());
    expect_fused(shape + "f32", cuda::leaky_ieee());
  }
}

}  // namespace
}  // namespace tconv::gpu_test
