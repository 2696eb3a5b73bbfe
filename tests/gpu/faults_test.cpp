// A refused call says why, touches nothing, and the next good call works.
#include <cstring>
#include <utility>

#include "cuda/entries.hpp"
#include "cuda/host/launch.hpp"
#include "gpu/device.hpp"
#include "judge/target.hpp"

namespace tconv::gpu_test {
namespace {

// A plan of this kernel has a workspace.
constexpr const char* kSplit = "n1 ci130 co1 l24 k1024 s256 p0 bias f32";
constexpr const char* kKernel = "cuda.simt.dense";

class Faults : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    operands_ = std::make_unique<DeviceOperands>(kSplit);
    plan_ = plan_of(kSplit, kKernel);
    ASSERT_NE(plan_, nullptr);
    y_ = std::make_unique<Buffer>(operands_->output_bytes());
    workspace_ = std::make_unique<Buffer>(tconv_plan_workspace_bytes(plan_.get(), 0));
    y_->fill(0x5a);
    arguments_ = arguments_of(*operands_, *y_, *workspace_, nullptr);
  }

  void expect_refused(tconv_status status, const char* word) {
    EXPECT_EQ(tconv_run(plan_.get(), &arguments_), status);
    EXPECT_NE(std::strstr(tconv_last_error(), word), nullptr) << tconv_last_error();
    ASSERT_CUDA(cudaDeviceSynchronize());
    for (const std::byte b : y_->take()) ASSERT_EQ(b, std::byte{0x5a}) << "a refused call wrote its output";
    arguments_ = arguments_of(*operands_, *y_, *workspace_, nullptr);
    ASSERT_EQ(tconv_run(plan_.get(), &arguments_), TCONV_OK) << tconv_last_error();
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_LE(operands_->worst(y_->take()), 1.0);
  }

  std::unique_ptr<DeviceOperands> operands_;
  PlanPointer plan_;
  std::unique_ptr<Buffer> y_, workspace_;
  tconv_arguments arguments_{};
};

TEST_F(Faults, WorkspaceTooSmall) {
  ASSERT_GT(workspace_->bytes(), 0u);
  arguments_.workspace_bytes -= 1;
  expect_refused(TCONV_INVALID_ARGUMENT, "workspace_bytes");
}

TEST_F(Faults, WorkspaceNull) {
  arguments_.workspace = nullptr;
  expect_refused(TCONV_INVALID_ARGUMENT, "workspace is null");
}

TEST_F(Faults, InputNull) {
  arguments_.x = nullptr;
  expect_refused(TCONV_INVALID_ARGUMENT, "x is null");
}

TEST_F(Faults, WeightNull) {
  arguments_.weight = nullptr;
  expect_refused(TCONV_INVALID_ARGUMENT, "weight");
}

TEST_F(Faults, OutputNull) {
  arguments_.output = nullptr;
  expect_refused(TCONV_INVALID_ARGUMENT, "output is null");
}

TEST_F(Faults, EmptyOutputsNeedNothing) {
  for (const char* text : {"n0 ci64 co64 l800 k16 s8 p4 bias f32", "n2 ci8 co8 l1 k2 s1 p1 bias f16"}) {
    const PlanPointer plan = plan_of(text);
    EXPECT_EQ(tconv_plan_workspace_bytes(plan.get(), 0), 0u) << text;
    tconv_arguments nothing;
    tconv_arguments_init(&nothing);
    EXPECT_EQ(tconv_run(plan.get(), &nothing), TCONV_OK) << text << ": " << tconv_last_error();
  }
}

TEST_F(Faults, HostPointer) {
  int pageable = 0;
  ASSERT_CUDA(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0));
  if (pageable != 0) GTEST_SKIP() << "this device reads pageable host memory";
  arguments_.x = operands_->x.data();
  expect_refused(TCONV_INVALID_ARGUMENT, "host memory");
}

TEST_F(Faults, PointerOfAnotherDevice) {
  int count = 0;
  ASSERT_CUDA(cudaGetDeviceCount(&count));
  if (count < 2) GTEST_SKIP() << "one device only";
  ASSERT_CUDA(cudaSetDevice(1));
  Buffer elsewhere(operands_->x.size());
  ASSERT_CUDA(cudaSetDevice(0));
  arguments_.x = elsewhere.get();
  expect_refused(TCONV_INVALID_ARGUMENT, "device 1");
}

// An error of the caller's own that the runtime still remembers is not tconv's.
TEST_F(Faults, EarlierErrorThatIsNotSticky) {
  void* nothing = nullptr;
  ASSERT_EQ(cudaMalloc(&nothing, std::size_t{1} << 60), cudaErrorMemoryAllocation);
  ASSERT_EQ(tconv_run(plan_.get(), &arguments_), TCONV_OK) << tconv_last_error();
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_LE(operands_->worst(y_->take()), 1.0);
  (void)cudaGetLastError();
}

TEST_F(Faults, ForcedKernelThatRefuses) {
  tconv_problem problem;
  ASSERT_EQ(tconv_problem_parse("n1 ci8 co8 l50 k5 s3 p0 d2 f32", &problem), TCONV_OK);
  tconv_plan_options options;
  tconv_plan_options_init(&options);
  options.device = TCONV_CUDA;
  options.force_kernel = "cuda.simt.depthwise";
  tconv_plan* plan = nullptr;
  EXPECT_EQ(tconv_plan_create(&problem, &options, &plan), TCONV_UNSUPPORTED);
  EXPECT_NE(std::strstr(tconv_last_error(), "dilation 2"), nullptr) << tconv_last_error();
}

TEST_F(Faults, OutOfMemoryHasWords) {
  auto target = judge::cuda_target(0);
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto block = target.value()->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), core::Code::out_of_memory) << block.status().message();
  EXPECT_NE(block.status().message().find("memory"), std::string::npos) << block.status().message();
}

// Reads far beyond a small buffer, through strides that the library cannot check: the context is lost. Later
// calls must say so instead of crashing. In a process of its own.
void lose_the_context() {
  const PlanPointer bad = plan_of("n1 ci8 co8 l64 k4 s2 p1 xs1,1000000000000,1000000000 f32");
  const PlanPointer good = plan_of("n1 ci8 co8 l64 k4 s2 p1 f32");
  Buffer x(1 << 20), w(1 << 16), y(1 << 20), workspace(tconv_plan_workspace_bytes(bad.get(), 0) + (1 << 20));
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.x = x.get(), a.weight = w.get(), a.output = y.get();
  a.workspace = workspace.get(), a.workspace_bytes = workspace.bytes();
  (void)tconv_run(bad.get(), &a);
  if (cudaDeviceSynchronize() == cudaSuccess) std::exit(2);
  const tconv_status status = tconv_run(good.get(), &a);
  if (status != TCONV_DEVICE_ERROR) std::exit(3);
  if (std::strlen(tconv_last_error()) < 20) std::exit(4);
  std::exit(0);
}

TEST_F(Faults, EarlierStickyErrorIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_the_context(), ::testing::ExitedWithCode(0), "");
}

// A plan that does not fit has no blocks; success would leave the output as it was.
TEST_F(Faults, LaunchOfNoBlocks) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  const core::Problem problem = core::parse(kSplit).value();
  const cuda::Launcher launcher("a kernel", problem, device, plan::RunContext{});
  for (const int64_t blocks : {int64_t{0}, int64_t{-1}}) {
    const core::Status status = launcher.run(static_cast<void (*)(int)>(nullptr), {blocks, 32}, 1);
    EXPECT_EQ(status.code(), core::Code::internal_error);
    EXPECT_NE(status.message().find("a launch of " + std::to_string(blocks) + " blocks"), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace tconv::gpu_test
