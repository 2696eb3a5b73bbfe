// A product with its operands and what it should be, for kernels of cuda.sm90.blocked.
#pragma once

#include <cmath>
#include <functional>

#include "cuda/sm90/blocked_plan.hpp"
#include "gpu/device.hpp"

namespace tconv::gpu_test {

// There is NaN before and behind the input.
struct BlockedCase {
  core::Problem problem;
  bool strided;
  std::vector<std::byte> input, weight, bias, expected;

  // Random operands or small integers, with nothing expected yet.
  BlockedCase(const std::string& text, bool integers) : problem(core::parse(text).value()) {
    strided = problem.operation == core::Operation::strided;
    const auto make = [&](int64_t elements, uint64_t seed) {
      return integers ? DeviceOperands::integers(problem, elements, seed)
                      : DeviceOperands::random(problem, elements, seed);
    };
    input = make(strided ? problem.y_elements() : problem.x_elements(), 1);
    weight = make(problem.weight_elements(), 2);
    bias = make(strided ? problem.cin : problem.cout, 3);
  }
  // Small integers; `special`: some elements are infinities and NaN.
  static BlockedCase of_integers(const std::string& text, bool special) {
    BlockedCase c(text, true);
    if (special) c.make_special();
    c.expect();
    return c;
  }

  int64_t outputs() const { return strided ? problem.x_elements() : problem.y_elements(); }
  plan::Operands host() const {
    plan::Operands host;
    (strided ? host.grad_output : host.x) = input.data();
    host.weight = weight.data(), host.bias = problem.has_bias ? bias.data() : nullptr;
    return host;
  }
  // An infinity, another and NaN by turns among the input, and an infinite weight.
  void make_special() {
    const auto count = static_cast<int64_t>(input.size() / size_of(problem.dtype));
    const double values[] = {INFINITY, -INFINITY, NAN};
    for (int64_t i = 0; i < 5; ++i) {
      reference::store(problem.dtype, input.data(), (i * 7919 + 13) % count, values[i % 3]);
    }
    reference::store(problem.dtype, weight.data(), problem.weight_elements() / 3, INFINITY);
  }
  void expect() { expected = rounded_reference(problem, host()); }

  // The output of a kernel whose input begins `late` elements behind 256 bytes, from packed weights or raw
  // ones; nothing if it does not run.
  std::vector<std::byte> run(const plan::Kernel& kernel, int late, bool raw = false) const {
    const std::size_t element = size_of(problem.dtype),
                      margin = 256 + static_cast<std::size_t>(late) * element;
    Buffer from(input.size() + margin + 256), there(weight), beside(bias), packed(kernel.packed_bytes()),
        workspace(std::max(kernel.workspace_bytes(), kernel.raw_workspace_bytes())),
        to(static_cast<std::size_t>(outputs()) * element);
    from.fill(0xff), to.fill(0xff), packed.fill(0xff), workspace.fill(0xff);
    std::byte* const first = static_cast<std::byte*>(from.get()) + margin;
    EXPECT_EQ(cudaMemcpy(first, input.data(), input.size(), cudaMemcpyHostToDevice), cudaSuccess);
    plan::RunContext context;
    context.workspace = static_cast<std::byte*>(workspace.get());
    plan::Operands operands;
    (strided ? operands.grad_output : operands.x) = first;
    operands.weight = raw ? there.get() : packed.get();
    operands.bias = problem.has_bias ? beside.get() : nullptr;
    operands.output = to.get();
    const core::Status done = raw ? kernel.run_raw(operands, context)
                              : kernel.pack(there.get(), packed.get(), context).ok()
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

}  // namespace tconv::gpu_test
