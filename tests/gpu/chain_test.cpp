// Calls that feed each other without a pause. On compute capability 9.0 a kernel may begin before the one
// before is complete (cuda/device/launch_order.cuh): whoever reads a result too early gets other bits than
// after a wait.
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

// y -> dx by a strided product, dw of both, and y again by a transposed product whose weights are dw; all
// with raw weights, in one workspace that every call writes anew.
class Chain {
 public:
  Chain(const std::string& text, const char* strided, const char* transposed)
      : strided_(plan_of("gx " + text, strided)),
        weight_(plan_of("gw " + text)),
        transposed_(plan_of(text, transposed)),
        operands_(text),
        dx_(operands_.x.size()),
        dw_(operands_.weight.size()),
        workspace_(std::max({tconv_plan_workspace_bytes(strided_.get(), 0),
                             tconv_plan_workspace_bytes(weight_.get(), 0),
                             tconv_plan_workspace_bytes(transposed_.get(), 0)})) {
    for (uint64_t i = 0; i < kLinks; ++i) {
      given_.emplace_back(DeviceOperands::random(operands_.problem, operands_.problem.y_elements(), 10 + i));
      made_.emplace_back(operands_.output_bytes());
    }
  }

  // What each link made. wait: after each call.
  std::vector<std::vector<std::byte>> run(bool wait) {
    for (Buffer* each : {&dx_, &dw_, &workspace_}) each->fill(0xff);
    for (Buffer& each : made_) each.fill(0xff);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Stream stream;
    for (std::size_t i = 0; i < kLinks; ++i) {
      queue(strided_, stream, wait, given_[i].get(), nullptr, operands_.weight_device.get(), dx_.get());
      queue(weight_, stream, wait, given_[i].get(), dx_.get(), nullptr, dw_.get());
      queue(transposed_, stream, wait, nullptr, dx_.get(), dw_.get(), made_[i].get());
    }
    stream.wait();
    std::vector<std::vector<std::byte>> all;
    for (const Buffer& each : made_) all.push_back(each.take());
    return all;
  }

 private:
  static constexpr std::size_t kLinks = 8;

  void queue(const PlanPointer& plan, const Stream& stream, bool wait, const void* y, const void* x,
             const void* weight, void* output) {
    tconv_arguments a;
    tconv_arguments_init(&a);
    a.x = x;
    a.grad_output = y;
    a.weight = weight;
    a.output = output;
    a.workspace = workspace_.get();
    a.workspace_bytes = workspace_.bytes();
    a.stream = stream.get();
    ASSERT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
    if (wait) stream.wait();
  }

  PlanPointer strided_, weight_, transposed_;
  DeviceOperands operands_;
  Buffer dx_, dw_, workspace_;
  std::vector<Buffer> given_, made_;
};

// Passes of their own over x (planes, channel blocks) that run beside the packing of weights, and none;
// weights of a few blocks and of many.
class Chains : public Gpu, public ::testing::WithParamInterface<std::string> {};

TEST_P(Chains, TheSameBitsWithAndWithoutWaiting) {
  Chain chain(GetParam(), nullptr, nullptr);
  const auto expected = chain.run(true);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(chain.run(false), expected) << "run " << i;
}

TEST_P(Chains, WithEveryKernel) {
  for (const std::string& kernel : kernels_of("gx " + GetParam())) {
    SCOPED_TRACE(kernel);
    Chain chain(GetParam(), kernel.c_str(), nullptr);
    const auto expected = chain.run(true);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(chain.run(false), expected) << "strided, run " << i;
  }
  for (const std::string& kernel : kernels_of(GetParam())) {
    SCOPED_TRACE(kernel);
    Chain chain(GetParam(), nullptr, kernel.c_str());
    const auto expected = chain.run(true);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(chain.run(false), expected) << "transposed, run " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Chains,
    ::testing::Values("n1 ci64 co96 l3000 k8 s4 p2 f32 tf32", "n2 ci96 co64 l800 k10 s5 f32",
                      "n1 ci256 co192 l500 k16 s8 p4 bf16", "n1 ci512 co384 l64 k4 s2 p1 f32",
                      "n4 ci130 co70 l333 k7 s1 p3 f16", "n1 ci24 co40 l200 k3 s2 p1 f64"));

}  // namespace
}  // namespace tconv::gpu_test
