// What the GPU tests share. They go through the C API, as users do, and read device memory with the runtime.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "plan/kernel_entry.hpp"
#include "reference/reference.hpp"
#include "tconv/tconv.h"

namespace tconv::gpu_test {

// A driver that is loaded means a GPU that must work.
inline bool gpu_is_present() {
  return std::filesystem::exists("/proc/driver/nvidia/version") || std::filesystem::exists("/dev/nvidiactl");
}

// The plans of a device with one SM: blocks that walk take many tiles each.
inline core::DeviceInfo of_one_sm(core::DeviceInfo device) {
  device.sm_count = 1;
  return device;
}

// Skips if there is no GPU at all; fails if one is present but unusable.
class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_is_present()) GTEST_SKIP() << "no NVIDIA driver on this machine";
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    ASSERT_EQ(error, cudaSuccess) << "an NVIDIA driver is here, but: " << cudaGetErrorString(error);
    ASSERT_GT(count, 0) << "an NVIDIA driver is here, but no device";
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
};

#define ASSERT_CUDA(call)                               \
  do {                                                  \
    const cudaError_t e = (call);                       \
    ASSERT_EQ(e, cudaSuccess) << cudaGetErrorString(e); \
  } while (false)

// Device memory; null if the allocation failed.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, bytes + (bytes == 0)) != cudaSuccess) {
      data_ = nullptr;
      (void)cudaGetLastError();
    }
  }
  explicit Buffer(const std::vector<std::byte>& host) : Buffer(host.size()) { put(host); }
  ~Buffer() { (void)cudaFree(data_); }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Buffer& operator=(Buffer&&) = delete;

  void* get() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void fill(int byte) { EXPECT_EQ(cudaMemset(data_, byte, bytes_), cudaSuccess); }
  void put(const std::vector<std::byte>& host) {
    EXPECT_EQ(cudaMemcpy(data_, host.data(), host.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  std::vector<std::byte> take() const {
    std::vector<std::byte> host(bytes_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

struct PlanDelete {
  void operator()(tconv_plan* plan) const { tconv_plan_destroy(plan); }
};
using PlanPointer = std::unique_ptr<tconv_plan, PlanDelete>;

inline PlanPointer plan_of(const std::string& text, const char* kernel = nullptr,
                           bool batch_invariant = false) {
  tconv_problem problem;
  EXPECT_EQ(tconv_problem_parse(text.c_str(), &problem), TCONV_OK) << tconv_last_error();
  tconv_plan_options options;
  tconv_plan_options_init(&options);
  options.device = TCONV_CUDA;
  options.force_kernel = kernel;
  options.batch_invariant = batch_invariant ? 1 : 0;
  tconv_plan* plan = nullptr;
  EXPECT_EQ(tconv_plan_create(&problem, &options, &plan), TCONV_OK) << tconv_last_error();
  return PlanPointer(plan);
}

// CUDA kernels that take a problem, by name.
inline std::vector<std::string> kernels_of(const std::string& text) {
  std::vector<std::string> names;
  tconv_problem problem;
  EXPECT_EQ(tconv_problem_parse(text.c_str(), &problem), TCONV_OK);
  for (int32_t i = 0; tconv_kernel_name(i) != nullptr; ++i) {
    tconv_plan_options options;
    tconv_plan_options_init(&options);
    options.device = TCONV_CUDA;
    options.force_kernel = tconv_kernel_name(i);
    tconv_plan* plan = nullptr;
    if (tconv_plan_create(&problem, &options, &plan) == TCONV_OK) names.emplace_back(tconv_kernel_name(i));
    tconv_plan_destroy(plan);
  }
  return names;
}

// What float64 says of every element of a problem's output, rounded to its type.
inline std::vector<std::byte> rounded_reference(const core::Problem& problem, const plan::Operands& host) {
  std::vector<std::byte> output(static_cast<std::size_t>(problem.output_elements()) * size_of(problem.dtype));
  for (int64_t i = 0; i < problem.output_elements(); ++i) {
    reference::store(problem.dtype, output.data(), i, reference::element_at(problem, host, i).value);
  }
  return output;
}

// One transposed convolution: random operands on the host and on the device.
struct DeviceOperands {
  core::Problem problem;
  std::vector<std::byte> x, weight, bias;
  Buffer x_device, weight_device, bias_device;

  explicit DeviceOperands(const std::string& text, uint64_t seed = 1)
      : problem(core::parse(text).value()),
        x(random(problem, problem.x_span(), seed)),
        weight(random(problem, problem.weight_elements(), seed + 1)),
        bias(random(problem, problem.cout, seed + 2)),
        x_device(x),
        weight_device(weight),
        bias_device(bias) {}

  static std::vector<std::byte> random(const core::Problem& p, int64_t count, uint64_t seed) {
    std::mt19937_64 bits(seed);
    std::vector<std::byte> data(static_cast<std::size_t>(count) * size_of(p.dtype));
    for (int64_t i = 0; i < count; ++i) {
      reference::store(p.dtype, data.data(), i, static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0);
    }
    return data;
  }
  // Integers from -2 to 2.
  static std::vector<std::byte> integers(const core::Problem& p, int64_t count, uint64_t seed) {
    std::vector<std::byte> data = random(p, count, seed);
    make_integers(p, data);
    return data;
  }
  static void make_integers(const core::Problem& p, std::vector<std::byte>& data) {
    const auto count = static_cast<int64_t>(data.size() / size_of(p.dtype));
    for (int64_t i = 0; i < count; ++i) {
      reference::store(p.dtype, data.data(), i, std::round(2 * reference::load(p.dtype, data.data(), i)));
    }
  }

  std::size_t output_bytes() const {
    return static_cast<std::size_t>(problem.y_elements()) * size_of(problem.dtype);
  }

  // Operands from -2 to 2.
  void make_integers() {
    for (std::vector<std::byte>* data : {&x, &weight, &bias}) make_integers(problem, *data);
    x_device.put(x);
    weight_device.put(weight);
    bias_device.put(bias);
  }
  std::vector<std::byte> rounded_reference() const {
    return gpu_test::rounded_reference(problem, {x.data(), weight.data(), bias.data(), nullptr, nullptr});
  }

  // How far from float64 the worst element is, over its bound; y is the device's result. Every element where
  // there are few, else 4000 of them.
  double worst(const std::vector<std::byte>& y) const {
    const plan::Operands host{x.data(), weight.data(), bias.data(), nullptr, nullptr};
    const int64_t count = problem.y_elements(), step = std::max<int64_t>(1, count / 4000);
    const double unit = problem.dtype == core::DType::f64   ? 0x1p-52
                        : problem.dtype == core::DType::f32 ? 0x1p-23
                        : problem.dtype == core::DType::f16 ? 0x1p-10
                                                            : 0x1p-7;
    double worst = 0;
    for (int64_t i = 0; i < count; i += step) {
      const reference::Element e = reference::element_at(problem, host, i);
      const double sums = problem.dtype == core::DType::f64 ? 0x1p-53 : 0x1p-24;
      const double bound =
          (static_cast<double>(e.terms) + 2) * sums * e.magnitude + unit * std::fabs(e.value) + 1e-7;
      const double error = std::fabs(reference::load(problem.dtype, y.data(), i) - e.value);
      if (std::isnan(error) && !std::isnan(e.value)) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, error / bound);
    }
    return worst;
  }
};

// Arguments with everything that one run needs but the output, raw weights.
inline tconv_arguments arguments_of(const DeviceOperands& o, Buffer& y, Buffer& workspace,
                                    cudaStream_t stream) {
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.x = o.x_device.get();
  a.weight = o.weight_device.get();
  a.bias = o.problem.has_bias ? o.bias_device.get() : nullptr;
  a.output = y.get();
  a.workspace = workspace.get();
  a.workspace_bytes = workspace.bytes();
  a.stream = stream;
  return a;
}

// A kernel's run of its own, with weights packed for it, if it packs them; memory that it must write begins
// as NaN.
inline std::vector<std::byte> run_once(const plan::Kernel& kernel, const DeviceOperands& o) {
  Buffer packed(kernel.packed_bytes()), workspace(kernel.workspace_bytes()), y(o.output_bytes());
  plan::RunContext context;
  context.workspace = static_cast<std::byte*>(workspace.get());
  y.fill(0xff);
  workspace.fill(0xff);
  packed.fill(0xff);
  const bool raw = kernel.packed_bytes() == 0;
  if (!raw) {
    EXPECT_TRUE(kernel.pack(o.weight_device.get(), packed.get(), context).ok());
  }
  const plan::Operands operands{o.x_device.get(), raw ? o.weight_device.get() : packed.get(),
                                o.problem.has_bias ? o.bias_device.get() : nullptr, nullptr, y.get()};
  EXPECT_TRUE(kernel.run(operands, context).ok());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return y.take();
}

// A run of its own, waited for.
inline std::vector<std::byte> run_once(const tconv_plan* plan, const DeviceOperands& o) {
  Buffer y(o.output_bytes()), workspace(tconv_plan_workspace_bytes(plan, 0));
  y.fill(0xff);
  const tconv_arguments a = arguments_of(o, y, workspace, nullptr);
  EXPECT_EQ(tconv_run(plan, &a), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return y.take();
}

// One problem for each family and storage type, small.
inline const std::vector<std::string>& problems() {
  static const std::vector<std::string> list = {
      "n2 ci64 co48 l301 k16 s8 p4 bias f32",      "n2 ci40 co24 l257 k4 s2 p1 bias f16",
      "n3 ci24 co24 l1001 k12 s2 p5 g24 bias f32", "n2 ci24 co24 l999 k4 s2 p1 g24 bf16",
      "n1 ci70 co1 l3000 k8 s4 p2 bias f32",       "n1 ci130 co1 l24 k1024 s256 p0 f32",
      "n2 ci512 co1 l999 k16 s8 p0 f32",           "n2 ci8 co8 l501 k5 s1 p2 d3 g8 bias f32",
      "n2 ci13 co18 l141 k6 s3 p1 op1 bias f64",   "n2 ci32 co64 l500 k3 s2 p1 d2 f32"};
  return list;
}

}  // namespace tconv::gpu_test
