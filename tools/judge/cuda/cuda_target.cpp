// A CUDA device as the judge's target: every buffer is device memory with a pinned copy on the host.
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <vector>

#include "cuda/entries.hpp"
#include "cuda/host/runtime.hpp"
#include "judge/cuda/timing.hpp"
#include "judge/target.hpp"

namespace tconv::judge {
namespace {

using core::Status;
using cuda::status_of;

// Allocating costs more than most judged runs: buffers are kept by size class and used again.
class Pool {
 public:
  struct Memory {
    std::byte* device = nullptr;
    std::byte* host = nullptr;
    std::size_t bytes = 0;
  };

  ~Pool() {
    for (auto& [bytes, list] : free_) {
      for (Memory& m : list) release(m);
    }
  }

  core::Result<Memory> take(std::size_t bytes) {
    const std::size_t rounded = size_class(bytes);
    std::vector<Memory>& list = free_[rounded];
    if (!list.empty()) {
      Memory m = list.back();
      list.pop_back();
      return m;
    }
    Memory m{nullptr, nullptr, rounded};
    cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&m.device), rounded);
    if (error == cudaSuccess) error = cudaMallocHost(reinterpret_cast<void**>(&m.host), rounded);
    if (error == cudaSuccess) return m;
    release(m);
    return status_of(error, "the judge's buffer of " + std::to_string(rounded) + " bytes");
  }

  void give(Memory m) {
    if (m.bytes > kLargest) return release(m);
    free_[m.bytes].push_back(m);
  }

 private:
  static constexpr std::size_t kSmallest = 64 << 10, kLargest = 64 << 20;

  static std::size_t size_class(std::size_t bytes) {
    std::size_t rounded = kSmallest;
    while (rounded < bytes && rounded < kLargest) rounded *= 2;
    return rounded < bytes ? (bytes + 255) / 256 * 256 : rounded;
  }
  static void release(Memory& m) {
    if (m.device != nullptr) (void)cudaFree(m.device);
    if (m.host != nullptr) (void)cudaFreeHost(m.host);
  }

  std::map<std::size_t, std::vector<Memory>> free_;
};

class DeviceBlock final : public Block {
 public:
  DeviceBlock(std::shared_ptr<Pool> pool, Pool::Memory memory, std::size_t bytes)
      : pool_(std::move(pool)), memory_(memory), bytes_(bytes) {}
  ~DeviceBlock() override { pool_->give(memory_); }
  std::byte* host() override { return memory_.host; }
  std::byte* device() override { return memory_.device; }
  Status push() override {
    return status_of(cudaMemcpy(memory_.device, memory_.host, bytes_, cudaMemcpyHostToDevice), "copy to GPU");
  }
  Status pull() override {
    return status_of(cudaMemcpy(memory_.host, memory_.device, bytes_, cudaMemcpyDeviceToHost),
                     "copy from GPU");
  }

 private:
  std::shared_ptr<Pool> pool_;
  Pool::Memory memory_;
  std::size_t bytes_;
};

class CudaTarget final : public Target {
 public:
  CudaTarget(core::DeviceInfo info, std::size_t limit) : info_(std::move(info)), limit_(limit) {}
  ~CudaTarget() override {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  Status prepare() {
    Status status = status_of(cudaSetDevice(info_.index), info_.name);
    if (!status.ok()) return status;
    status = status_of(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    if (!status.ok() || limit_ > 0) return status;
    std::size_t free = 0, total = 0;
    status = status_of(cudaMemGetInfo(&free, &total), "the device's free memory");
    limit_ = free / 2;
    return status;
  }

  const core::DeviceInfo& info() const override { return info_; }
  std::size_t memory_limit() const override { return limit_; }

  core::Result<std::unique_ptr<Block>> allocate(std::size_t bytes) override {
    auto memory = pool_->take(bytes);
    if (!memory.ok()) return memory.status();
    return std::unique_ptr<Block>(std::make_unique<DeviceBlock>(pool_, memory.value(), bytes));
  }

  // The same plan twice: the second time on another stream.
  plan::PlanOptions options(int) const override { return {}; }
  plan::RunContext context(int run) override { return {nullptr, {}, run == 0 ? nullptr : stream_}; }
  Status finish() override { return status_of(cudaDeviceSynchronize(), "after the run"); }

  Arithmetic arithmetic(const core::Problem& problem) const override {
    if (problem.dtype == core::DType::f64) return {0x1p-53, true, false, 0x1p-1074};
    Arithmetic arithmetic;
    arithmetic.tf32 = problem.precision == core::Precision::tf32;
    return arithmetic;
  }

  core::Result<double> timed(int calls, const Call& call) override {
    return time_graph(
        stream_,
        [&]() -> Status {
          for (int i = 0; i < calls; ++i) {
            Status status = call(i, {nullptr, {}, stream_});
            if (!status.ok()) return status;
          }
          return {};
        },
        calls);
  }
  core::Result<Attained> attained(core::DType dtype) override {
    const bool f64 = dtype == core::DType::f64;
    Attained& known = attained_[f64 ? 1 : 0];
    if (known.gbps > 0) return known;
    auto measured = measure_rates(stream_, f64, info_.sm_count);
    if (measured.ok()) known = measured.value();
    return measured;
  }

 private:
  core::DeviceInfo info_;
  std::size_t limit_;
  cudaStream_t stream_ = nullptr;
  Attained attained_[2] = {};
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace

core::Result<std::unique_ptr<Target>> cuda_target(int index, std::size_t memory_limit) {
  const auto info = cuda::device_info(index);
  if (!info.ok()) return info.status();
  auto target = std::make_unique<CudaTarget>(info.value(), memory_limit);
  Status status = target->prepare();
  if (!status.ok()) return status;
  return std::unique_ptr<Target>(std::move(target));
}

}  // namespace tconv::judge
