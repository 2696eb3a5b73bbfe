// x and dy of a weight or bias gradient, in tests on a GPU.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cuda/entries.hpp"
#include "gpu/device.hpp"
#include "plan/planner.hpp"

namespace tconv::gpu_test {

// On the device both begin some elements behind an address that 256 divides.
struct Gradient {
  core::Problem problem;
  std::vector<std::byte> x, y;

  Gradient(const std::string& text, bool integers)
      : problem(core::parse(text).value()),
        x(DeviceOperands::random(problem, problem.x_span(), 3)),
        y(DeviceOperands::random(problem, problem.y_elements(), 4)) {
    for (std::vector<std::byte>* data : {&x, &y}) {
      const auto count = static_cast<int64_t>(data->size() / size_of(problem.dtype));
      for (int64_t i = 0; integers && i < count; ++i) {
        reference::store(problem.dtype, data->data(), i,
                         std::round(2 * reference::load(problem.dtype, data->data(), i)));
      }
    }
  }

  std::vector<std::byte> run(const plan::Kernel& kernel, int64_t move = 0) const {
    const std::size_t by = static_cast<std::size_t>(move) * size_of(problem.dtype);
    Buffer x_device(x.size() + 64), y_device(y.size() + 64), workspace(kernel.workspace_bytes());
    x_device.fill(0xff);
    y_device.fill(0xff);
    workspace.fill(0xff);
    auto at = [&](const Buffer& buffer) { return static_cast<std::byte*>(buffer.get()) + by; };
    EXPECT_EQ(cudaMemcpy(at(x_device), x.data(), x.size(), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(at(y_device), y.data(), y.size(), cudaMemcpyHostToDevice), cudaSuccess);
    const auto bytes = static_cast<std::size_t>(problem.output_elements()) * size_of(problem.dtype);
    Buffer out(bytes + 64);
    out.fill(0xff);
    plan::RunContext context;
    context.workspace = static_cast<std::byte*>(workspace.get());
    const plan::Operands operands{at(x_device), nullptr, nullptr, at(y_device), at(out)};
    EXPECT_TRUE(kernel.run(operands, context).ok());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<std::byte> all = out.take();
    return {all.begin() + static_cast<std::ptrdiff_t>(by),
            all.begin() + static_cast<std::ptrdiff_t>(by + bytes)};
  }

  std::vector<std::byte> truth() const {
    const plan::Operands host{x.data(), nullptr, nullptr, y.data(), nullptr};
    std::vector<std::byte> out(static_cast<std::size_t>(problem.output_elements()) * size_of(problem.dtype));
    for (int64_t i = 0; i < problem.output_elements(); ++i) {
      reference::store(problem.dtype, out.data(), i, reference::element_at(problem, host, i).value);
    }
    return out;
  }
};

inline std::unique_ptr<const plan::Kernel> chosen(const core::Problem& p, const char* name) {
  plan::PlanOptions options;
  options.force_kernel = name;
  return std::move(plan::make_plan(p, cuda::device_info(0).value(), options).value().kernel);
}

}  // namespace tconv::gpu_test
