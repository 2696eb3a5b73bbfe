// More than 2^31 elements: every offset must be 64-bit. x repeats a random block, so that the host knows any
// element without holding 8 GB; y is judged at its corners, around 2^31 and 2^32, and at random places.
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

constexpr int64_t kBlock = 1 << 20;

class Huge : public Gpu, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { Gpu::SetUp(); }
};

// Copies the block over all of x, doubling what is there.
void repeat(const Buffer& x, const std::vector<std::byte>& block) {
  ASSERT_CUDA(cudaMemcpy(x.get(), block.data(), block.size(), cudaMemcpyHostToDevice));
  for (std::size_t there = block.size(); there < x.bytes(); there *= 2) {
    ASSERT_CUDA(cudaMemcpy(static_cast<std::byte*>(x.get()) + there, x.get(),
                           std::min(there, x.bytes() - there), cudaMemcpyDeviceToDevice));
  }
}

// The reference's element with x[i] = block[i mod kBlock].
double expected(const core::Problem& p, const std::vector<std::byte>& block, const std::vector<std::byte>& w,
                int64_t index) {
  const int64_t o = index % p.lout(), co = index / p.lout() % p.cout, n = index / p.lout() / p.cout;
  const int64_t cout_group = p.cout_per_group(), group = co / cout_group;
  double sum = 0;
  for (int64_t c = 0; c < p.cin_per_group(); ++c) {
    const int64_t ci = group * p.cin_per_group() + c;
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t reach = o + p.padding - k * p.dilation;
      if (reach < 0 || reach % p.stride != 0 || reach / p.stride >= p.l) continue;
      const int64_t at = ((n * p.cin + ci) * p.l + reach / p.stride) % kBlock;
      sum += reference::load(p.dtype, block.data(), at) *
             reference::load(p.dtype, w.data(), (ci * cout_group + co % cout_group) * p.k + k);
    }
  }
  return sum;
}

std::vector<int64_t> places(int64_t count) {
  std::vector<int64_t> list;
  for (const int64_t around : {int64_t{0}, int64_t{1} << 31, int64_t{1} << 32, count / 2, count}) {
    for (int64_t i = around - 40; i < around + 40; ++i) {
      if (i >= 0 && i < count) list.push_back(i);
    }
  }
  std::mt19937_64 bits(5);
  for (int i = 0; i < 1500; ++i) list.push_back(static_cast<int64_t>(bits() % static_cast<uint64_t>(count)));
  return list;
}

TEST_P(Huge, EveryKernel) {
  const core::Problem p = core::parse(GetParam()).value();
  const std::size_t element = size_of(p.dtype);
  const std::size_t x_bytes = static_cast<std::size_t>(p.x_elements()) * element;
  const std::size_t y_bytes = static_cast<std::size_t>(p.y_elements()) * element;
  std::size_t free = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free, &total));
  if (free < x_bytes + y_bytes + (std::size_t{2} << 30))
    GTEST_SKIP() << "needs " << x_bytes + y_bytes << " bytes";
  ASSERT_GT(p.x_elements(), int64_t{1} << 31);
  const auto block = DeviceOperands::random(p, kBlock, 9),
             w = DeviceOperands::random(p, p.weight_elements(), 10);
  const Buffer x(x_bytes);
  Buffer y(y_bytes), weight(w);
  ASSERT_NE(x.get(), nullptr);
  ASSERT_NE(y.get(), nullptr);
  repeat(x, block);
  for (const std::string& kernel : kernels_of(GetParam())) {
    SCOPED_TRACE(kernel);
    const PlanPointer plan = plan_of(GetParam(), kernel.c_str());
    Buffer workspace(tconv_plan_workspace_bytes(plan.get(), 0));
    ASSERT_NE(workspace.get(), nullptr);
    y.fill(0xff);
    tconv_arguments a;
    tconv_arguments_init(&a);
    a.x = x.get(), a.weight = weight.get(), a.output = y.get();
    a.workspace = workspace.get(), a.workspace_bytes = workspace.bytes();
    ASSERT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
    ASSERT_CUDA(cudaDeviceSynchronize());
    int wrong = 0;
    for (const int64_t at : places(p.y_elements())) {
      std::byte got[8];
      ASSERT_CUDA(cudaMemcpy(got, static_cast<std::byte*>(y.get()) + static_cast<std::size_t>(at) * element,
                             element, cudaMemcpyDeviceToHost));
      const double want = expected(p, block, w, at), value = reference::load(p.dtype, got, 0);
      wrong += std::fabs(value - want) <= 0.002 * std::fabs(want) + 2e-6 ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Huge,
                         ::testing::Values("n3 ci2 co2 l400000000 k2 s1 p0 g2 f16",
                                           "n33 ci16 co1 l4200000 k4 s2 p1 f16"));

}  // namespace
}  // namespace tconv::gpu_test
