// Graphs, streams, threads: the same bits, however a run is queued.
#include <thread>

#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Streams : public Gpu, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Gpu::SetUp(); }
};

TEST_P(Streams, RightAndTheSameBitsByEveryKernel) {
  const DeviceOperands operands(GetParam());
  for (const std::string& kernel : kernels_of(GetParam())) {
    SCOPED_TRACE(kernel);
    const PlanPointer plan = plan_of(GetParam(), kernel.c_str());
    ASSERT_NE(plan, nullptr);
    const auto first = run_once(plan.get(), operands);
    EXPECT_LE(operands.worst(first), 1.0);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(run_once(plan.get(), operands), first) << "run " << i;
  }
}

// A captured run reads x, weights and bias anew at every replay: changed in place, they count.
TEST_P(Streams, GraphReplaysWithNewOperands) {
  const DeviceOperands before(GetParam(), 1), after(GetParam(), 100);
  const PlanPointer plan = plan_of(GetParam());
  DeviceOperands live(GetParam(), 1);
  Buffer y(live.output_bytes()), workspace(tconv_plan_workspace_bytes(plan.get(), 0));
  const Stream stream;
  const tconv_arguments a = arguments_of(live, y, workspace, stream.get());

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  ASSERT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
  ASSERT_CUDA(cudaStreamEndCapture(stream.get(), &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&ready, graph, 0));
  for (const DeviceOperands* operands : {&before, &after, &before}) {
    live.x_device.put(operands->x);
    live.weight_device.put(operands->weight);
    live.bias_device.put(operands->bias);
    y.fill(0xff);
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_CUDA(cudaGraphLaunch(ready, stream.get()));
    stream.wait();
    EXPECT_EQ(y.take(), run_once(plan.get(), *operands));
  }
  ASSERT_CUDA(cudaGraphExecDestroy(ready));
  ASSERT_CUDA(cudaGraphDestroy(graph));
}

// What is queued or captured does not need the plan any more.
TEST_P(Streams, APlanMayGoBeforeItsWork) {
  const DeviceOperands operands(GetParam());
  PlanPointer plan = plan_of(GetParam());
  const auto expected = run_once(plan.get(), operands);
  Buffer y(operands.output_bytes()), workspace(tconv_plan_workspace_bytes(plan.get(), 0));
  y.fill(0xff);
  ASSERT_CUDA(cudaDeviceSynchronize());
  const Stream stream;
  const tconv_arguments a = arguments_of(operands, y, workspace, stream.get());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  ASSERT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
  ASSERT_CUDA(cudaStreamEndCapture(stream.get(), &graph));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
  plan.reset();
  const std::vector<std::vector<std::byte>> over_it(200, std::vector<std::byte>(2000, std::byte{0xff}));
  stream.wait();
  EXPECT_EQ(y.take(), expected);
  ASSERT_CUDA(cudaGraphInstantiate(&ready, graph, 0));
  y.fill(0xff);
  ASSERT_CUDA(cudaDeviceSynchronize());
  ASSERT_CUDA(cudaGraphLaunch(ready, stream.get()));
  stream.wait();
  EXPECT_EQ(y.take(), expected);
  ASSERT_CUDA(cudaGraphExecDestroy(ready));
  ASSERT_CUDA(cudaGraphDestroy(graph));
}

TEST_P(Streams, TwoStreamsAtOnce) {
  const DeviceOperands one(GetParam(), 1), two(GetParam(), 50);
  const PlanPointer plan = plan_of(GetParam());
  const auto alone_one = run_once(plan.get(), one), alone_two = run_once(plan.get(), two);
  const std::size_t workspace_bytes = tconv_plan_workspace_bytes(plan.get(), 0);
  Buffer y1(one.output_bytes()), y2(one.output_bytes()), w1(workspace_bytes), w2(workspace_bytes);
  y1.fill(0xff), y2.fill(0xff);
  ASSERT_CUDA(cudaDeviceSynchronize());
  const Stream s1, s2;
  const tconv_arguments a1 = arguments_of(one, y1, w1, s1.get()), a2 = arguments_of(two, y2, w2, s2.get());
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(tconv_run(plan.get(), &a1), TCONV_OK) << tconv_last_error();
    ASSERT_EQ(tconv_run(plan.get(), &a2), TCONV_OK) << tconv_last_error();
  }
  s1.wait(), s2.wait();
  EXPECT_EQ(y1.take(), alone_one);
  EXPECT_EQ(y2.take(), alone_two);
}

TEST_P(Streams, EightThreadsWithOnePlan) {
  constexpr int kThreads = 8;
  const PlanPointer plan = plan_of(GetParam());
  std::vector<DeviceOperands> operands;
  std::vector<std::vector<std::byte>> alone, got(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    operands.emplace_back(GetParam(), 10 * static_cast<uint64_t>(i));
    alone.push_back(run_once(plan.get(), operands.back()));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto& mine = operands[static_cast<std::size_t>(i)];
      Buffer y(mine.output_bytes()), workspace(tconv_plan_workspace_bytes(plan.get(), 0));
      const Stream stream;
      const tconv_arguments a = arguments_of(mine, y, workspace, stream.get());
      for (int run = 0; run < 20; ++run) EXPECT_EQ(tconv_run(plan.get(), &a), TCONV_OK) << tconv_last_error();
      stream.wait();
      got[static_cast<std::size_t>(i)] = y.take();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, alone);
}

std::string name_of_case(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, Streams, ::testing::ValuesIn(problems()), name_of_case);

using BatchInvariant = Streams;

// With the option, a sample has the same bits alone as it has as the third of five.
TEST_P(BatchInvariant, SampleDoesNotSeeItsBatch) {
  core::Problem p = core::parse(GetParam()).value();
  p.n = 5;
  const std::string many = text(p);
  p.n = 1;
  const std::string single = text(p);
  const DeviceOperands batch(many, 3);
  DeviceOperands sample(single, 3);
  const std::size_t x_bytes = sample.x.size(), y_bytes = sample.output_bytes();
  sample.x.assign(batch.x.begin() + static_cast<std::ptrdiff_t>(2 * x_bytes),
                  batch.x.begin() + static_cast<std::ptrdiff_t>(3 * x_bytes));
  sample.x_device.put(sample.x);
  sample.weight_device.put(batch.weight);
  sample.bias_device.put(batch.bias);
  const PlanPointer plan_many = plan_of(many, nullptr, true), plan_single = plan_of(single, nullptr, true);
  ASSERT_STREQ(tconv_plan_kernel(plan_many.get()), tconv_plan_kernel(plan_single.get()));
  const auto all = run_once(plan_many.get(), batch), alone = run_once(plan_single.get(), sample);
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(2 * y_bytes);
  EXPECT_EQ(std::vector<std::byte>(from, from + static_cast<std::ptrdiff_t>(y_bytes)), alone);
}
INSTANTIATE_TEST_SUITE_P(Each, BatchInvariant, ::testing::ValuesIn(problems()), name_of_case);

}  // namespace
}  // namespace tconv::gpu_test
