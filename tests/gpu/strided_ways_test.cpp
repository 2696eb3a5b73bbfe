// Every way of cuda.simt.strided.
#include "cuda/entries.hpp"
#include "cuda/simt/strided.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class StridedWays : public Gpu {};

std::vector<std::byte> whole(const core::Problem& problem, int64_t count, uint64_t seed) {
  std::vector<std::byte> data = DeviceOperands::random(problem, count, seed);
  for (int64_t i = 0; i < count; ++i) {
    reference::store(problem.dtype, data.data(), i,
                     std::round(2 * reference::load(problem.dtype, data.data(), i)));
  }
  return data;
}

std::vector<cuda::simt::StridedConfig> ways(const core::Problem& p) {
  using namespace cuda::simt;
  std::vector<StridedConfig> all = {plan_strided_windows(p)};
  EXPECT_EQ(strided_direct_refusal(p), "");
  all.push_back(plan_strided_direct(p, kStridedFewPositions));
  all.push_back(plan_strided_direct(p, strided_most_positions(all[0].rows)));
  return all;
}

TEST_F(StridedWays, AreExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  int run = 0;
  for (const char* text :
       {"strided n2 ci40 co40 l101 k16 s8 p4 g40 f32", "strided n3 ci33 co53 l37 k5 s3 p1 op1 f16",
        "strided n2 ci20 co9 l50 k300 s7 p5 f32", "strided n5 ci66 co132 l64 k7 s1 p9 d3 g66 bf16",
        "strided n1 ci6 co12 l2500 k4 s2 p1 g3 f64", "strided n4 ci8 co72 l60 k1 s1 p0 g2 f32",
        "strided n20 ci24 co24 l3 k41 s1 p20 g24 bf16", "strided n1 ci3 co3 l4000 k3 s1 p1 g3 f64"}) {
    const core::Problem p = core::parse(text).value();
    const std::vector<std::byte> dy = whole(p, p.y_elements(), 1), weight = whole(p, p.weight_elements(), 2);
    plan::Operands host;
    host.weight = weight.data(), host.grad_output = dy.data();
    std::vector<std::byte> expected(static_cast<std::size_t>(p.x_elements()) * size_of(p.dtype));
    for (int64_t i = 0; i < p.x_elements(); ++i) {
      reference::store(p.dtype, expected.data(), i, reference::element_at(p, host, i).value);
    }
    const Buffer dy_there(dy), weight_there(weight);
    for (const cuda::simt::StridedConfig& config : ways(p)) {
      Buffer dx(expected.size());
      dx.fill(0xff);
      plan::Operands operands;
      operands.grad_output = dy_there.get(), operands.weight = weight_there.get();
      operands.output = dx.get();
      ASSERT_TRUE(cuda::simt::strided_kernel(p, device, config)->run(operands, {}).ok());
      ASSERT_CUDA(cudaDeviceSynchronize());
      EXPECT_TRUE(dx.take() == expected) << text << ": " << config.text();
      ++run;
    }
  }
  EXPECT_EQ(run, 24);
}

}  // namespace
}  // namespace tconv::gpu_test
