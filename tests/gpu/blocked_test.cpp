// cuda.sm90.blocked: every tile, splits, 16-bit types and tf32.
//
//   turned  channel blocks made in shared memory: rows of x that begin anywhere, strides, and splits that cut
//           a channel block's phases
//   phased  slabs of one phase each, some of which lack a tap: splits that begin with any of them, and
//           samples that share tiles
#include <cmath>

#include "cuda/entries.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Sm90BlockedWays : public Gpu {};

// Operands of a problem with small integers, and NaN before and behind the input; `special`: some of its
// elements are infinities and NaN.
struct Case {
  core::Problem problem;
  bool strided;
  std::vector<std::byte> input, weight, bias, expected;

  Case(const char* text, bool special) : problem(core::parse(text).value()) {
    strided = problem.operation == core::Operation::strided;
    input = DeviceOperands::integers(problem, strided ? problem.y_elements() : problem.x_elements(), 1);
    weight = DeviceOperands::integers(problem, problem.weight_elements(), 2);
    bias = DeviceOperands::integers(problem, strided ? problem.cin : problem.cout, 3);
    if (special) {
      const auto count = static_cast<int64_t>(input.size() / size_of(problem.dtype));
      const double values[] = {INFINITY, -INFINITY, NAN};
      for (int64_t i = 0; i < 5; ++i) {
        reference::store(problem.dtype, input.data(), (i * 7919 + 13) % count, values[i % 3]);
      }
      reference::store(problem.dtype, weight.data(), problem.weight_elements() / 3, INFINITY);
    }
    plan::Operands host;
    (strided ? host.grad_output : host.x) = input.data();
    host.weight = weight.data(), host.bias = problem.has_bias ? bias.data() : nullptr;
    const int64_t outputs = strided ? problem.x_elements() : problem.y_elements();
    expected.resize(static_cast<std::size_t>(outputs) * size_of(problem.dtype));
    for (int64_t i = 0; i < outputs; ++i) {
      reference::store(problem.dtype, expected.data(), i, reference::element_at(problem, host, i).value);
    }
  }

  // The output of a kernel whose input begins `late` elements behind 256 bytes, or nothing if it does not
  // run.
  std::vector<std::byte> run(const plan::Kernel& kernel, int late) const {
    const std::size_t element = size_of(problem.dtype),
                      margin = 256 + static_cast<std::size_t>(late) * element;
    Buffer from(input.size() + margin + 256), there(weight), beside(bias), packed(kernel.packed_bytes()),
        workspace(kernel.workspace_bytes()), to(expected.size());
    from.fill(0xff), to.fill(0xff), packed.fill(0xff), workspace.fill(0xff);
    std::byte* const first = static_cast<std::byte*>(from.get()) + margin;
    EXPECT_EQ(cudaMemcpy(first, input.data(), input.size(), cudaMemcpyHostToDevice), cudaSuccess);
    plan::RunContext context;
    context.workspace = static_cast<std::byte*>(workspace.get());
    plan::Operands operands;
    (strided ? operands.grad_output : operands.x) = first;
    operands.weight = packed.get(), operands.bias = problem.has_bias ? beside.get() : nullptr;
    operands.output = to.get();
    const core::Status done = kernel.pack(there.get(), packed.get(), context).ok()
                                  ? kernel.run(operands, context)
                                  : core::Status{core::Code::internal_error, "packing failed"};
    EXPECT_TRUE(done.ok()) << done.message();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return to.take();
  }

  // How many elements are neither equal nor NaN in both.
  int64_t wrong(const std::vector<std::byte>& got) const {
    int64_t count = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(expected.size() / size_of(problem.dtype)); ++i) {
      const double a = reference::load(problem.dtype, got.data(), i),
                   b = reference::load(problem.dtype, expected.data(), i);
      count += !(a == b || (std::isnan(a) && std::isnan(b)));
    }
    return count;
  }
};

// Runs all tiles with some splits; how many there were.
int run_all(const Case& c, const core::DeviceInfo& device, cuda::Sm90Config config) {
  int taken = 0;
  for (int tile = 0; tile < cuda::kSm90GatherTiles; ++tile) {
    for (const int splits : {1, 2, 3}) {
      config.tile = tile, config.splits = splits;
      const cuda::Sm90BlockedPlan plan = cuda::sm90_blocked_plan_of(c.problem, device, config);
      if (plan.main.blocks == 0 || splits > plan.main.params.grid.units) continue;
      const auto kernel = cuda::sm90_blocked_kernel(c.problem, device, config);
      const int late = (taken * 3 + splits) % 8;
      const std::vector<std::byte> got = c.run(*kernel, late);
      EXPECT_EQ(c.wrong(got), 0) << text(c.problem) << ": tile " << tile << ", splits " << splits << ", late "
                                 << late;
      EXPECT_TRUE(c.run(*kernel, late) == got) << text(c.problem) << ": other bits";
      ++taken;
    }
  }
  return taken;
}

int run_turned(const Case& c, const core::DeviceInfo& device) {
  return run_all(c, device, {.turned = true});
}
int run_phased(const Case& c, const core::DeviceInfo& device) {
  return run_all(c, device, {.phased = true}) + run_all(c, device, {.folded = true, .phased = true});
}

constexpr const char* kTurned[] = {
    "n2 ci64 co70 l603 k3 s1 p1 bias bf16",
    "n1 ci100 co40 l601 k7 s1 p9 d3 f16",
    "n3 ci72 co20 l86 k5 s1 p2 g2 bf16",
    "strided n2 ci48 co64 l301 k4 s2 p1 bias f16",
    "strided n1 ci70 co33 l257 k9 s3 p4 op1 bf16",
    "strided n2 ci16 co40 l130 k8 s4 p2 op1 bias bf16",
    "strided n1 ci33 co24 l129 k7 s5 p3 f16",
    "strided n1 ci20 co64 l300 k13 s6 p0 bias bf16",
    "strided n1 ci64 co16 l70 k5 s7 p0 bf16",
    "strided n2 ci40 co48 l90 k16 s8 p4 bias bf16",
    "strided n1 ci24 co32 l61 k20 s10 p5 op3 f16",
    "strided n1 ci24 co17 l40 k40 s31 p9 bf16",
    "strided n4 ci64 co64 l33 k7 s1 p27 d9 g2 bias bf16",
    "strided n2 ci40 co64 l70 k3 s2 p1 d2 bf16",
    "strided n2 ci40 co24 l65 k2 s3 p4 d6 f16",
    "n2 ci64 co70 l603 k3 s1 p1 bias f32 tf32",
    "n1 ci100 co40 l601 k7 s1 p9 d3 f32 tf32",
    "n3 ci72 co20 l84 k5 s1 p2 g2 f32 tf32",
    "strided n2 ci48 co64 l301 k4 s2 p1 bias f32 tf32",
    "strided n1 ci70 co33 l257 k9 s3 p4 op1 f32 tf32",
    "strided n1 ci33 co24 l129 k7 s5 p3 f32 tf32",
    "strided n2 ci40 co48 l90 k16 s8 p4 bias f32 tf32",
    "strided n1 ci24 co32 l61 k20 s10 p5 op3 f32 tf32",
    "strided n1 ci24 co17 l40 k24 s17 p9 f32 tf32",
    "strided n2 ci40 co64 l71 k3 s2 p1 d2 bias f32 tf32",
    "strided n1 ci64 co20 l70 k5 s7 p0 g2 f32 tf32",
};

constexpr const char* kPhased[] = {
    "strided n2 ci48 co64 l301 k3 s2 p1 bias f16",
    "strided n1 ci70 co33 l257 k9 s4 p4 op1 bf16",
    "strided n3 ci40 co100 l86 k7 s3 p2 g2 bias bf16",
    "strided n2 ci33 co24 l129 k13 s12 p3 f16",
    "strided n5 ci20 co70 l33 k5 s2 p7 d3 bias bf16",
    "strided n1 ci24 co96 l61 k29 s16 p0 bf16",
    "strided n2 ci40 co64 l70 k11 s5 p3 d2 bf16",
    "strided n2 ci40 co24 l65 k40 s31 p9 f16",
    "strided n2 ci48 co64 l301 k3 s2 p1 bias f32 tf32",
    "strided n1 ci70 co33 l257 k9 s4 p4 op1 f32 tf32",
    "strided n3 ci40 co100 l86 k7 s3 p2 g2 bias f32 tf32",
    "strided n2 ci33 co24 l129 k13 s12 p3 f32 tf32",
    "strided n5 ci20 co70 l33 k5 s2 p7 d3 bias f32 tf32",
    "strided n2 ci40 co64 l70 k11 s5 p3 d2 f32 tf32",
};

TEST_F(Sm90BlockedWays, TurnedIsExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text : kTurned) EXPECT_GE(run_turned(Case(text, false), device), 2) << text;
}

TEST_F(Sm90BlockedWays, TurnedKeepsInfinitiesAndNan) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text : kTurned) EXPECT_GE(run_turned(Case(text, true), device), 2) << text;
}

TEST_F(Sm90BlockedWays, PhasedIsExactOnIntegers) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text : kPhased) EXPECT_GE(run_phased(Case(text, false), device), 5) << text;
}

TEST_F(Sm90BlockedWays, PhasedKeepsInfinitiesAndNan) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "wgmma is Hopper's";
  for (const char* text : kPhased) EXPECT_GE(run_phased(Case(text, true), device), 5) << text;
}

}  // namespace
}  // namespace tconv::gpu_test
