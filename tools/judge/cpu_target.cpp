#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "cpu/threads/pool.hpp"
#include "judge/rng.hpp"
#include "judge/target.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tconv::judge {
namespace {

using core::Status;

class HostBlock final : public Block {
 public:
  explicit HostBlock(std::byte* data) : data_(data) {}
  std::byte* host() override { return data_.get(); }
  std::byte* device() override { return data_.get(); }
  Status push() override { return {}; }
  Status pull() override { return {}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// Runs tasks one at a time, from the last to the first and on changing slots, to expose a kernel that leaves
// something in a slot or relies on the order.
void backwards(void* threads, int64_t count, core::Executor::Task task, void* context) {
  const auto slots = static_cast<uint64_t>(reinterpret_cast<std::uintptr_t>(threads));
  for (int64_t i = count - 1; i >= 0; --i) {
    task(context, i, static_cast<int32_t>(mix(static_cast<uint64_t>(i)) % slots));
  }
}

// The memory that the system reports as available, including its file cache.
std::size_t free_memory() {
  std::ifstream info("/proc/meminfo");
  std::size_t kib = 0;
  for (std::string word; info >> word;) {
    if (word == "MemAvailable:" && info >> kib) return kib << 10;
  }
  return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class CpuTarget final : public Target {
 public:
  CpuTarget(int threads, std::size_t limit)
      : threads_(threads > 0 ? threads : cpu::host_device().threads),
        limit_(limit > 0 ? limit : free_memory() / 2) {}

  const core::DeviceInfo& info() const override { return cpu::host_device(); }
  std::size_t memory_limit() const override { return limit_; }

  core::Result<std::unique_ptr<Block>> allocate(std::size_t bytes) override {
    void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (data == nullptr) {
      return Status(core::Code::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes");
    }
    return std::unique_ptr<Block>(std::make_unique<HostBlock>(static_cast<std::byte*>(data)));
  }

  // Run 1 has another number of threads, so that it may be split in another way.
  plan::PlanOptions options(int run) const override {
    plan::PlanOptions options;
    options.threads = run == 0 ? threads_ : threads_ == 1 ? 3 : threads_ + 5;
    return options;
  }
  plan::RunContext context(int run) override {
    const int threads = options(run).threads;
    if (run == 0) return {nullptr, cpu::pool_executor(threads), nullptr};
    core::Executor executor;
    executor.threads = threads;
    executor.parallel_for = backwards;
    executor.executor_context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(threads));
    return {nullptr, executor, nullptr};
  }
  Status finish() override { return {}; }

#if defined(__SANITIZE_ADDRESS__)
  void forbid(std::byte* p, std::size_t bytes) override {
    ASAN_POISON_MEMORY_REGION(p, bytes);
  }
  void allow(std::byte* p, std::size_t bytes) override {
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  }
#endif

  Arithmetic arithmetic(const core::Problem& problem) const override {
    if (problem.dtype == core::DType::f64) return {0x1p-53, true, false, 0x1p-1074};
    return {};
  }

 private:
  int threads_;
  std::size_t limit_;
};

}  // namespace

core::Result<double> Target::timed(int calls, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    Status status = call(i, context(0));
    if (status.ok()) status = finish();
    if (!status.ok()) return status;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

core::Result<Attained> Target::attained(core::DType) {
  return Status(core::Code::unsupported, "this target does not measure its rates");
}

std::unique_ptr<Target> cpu_target(int threads, std::size_t memory_limit) {
  return std::make_unique<CpuTarget>(threads, memory_limit);
}

}  // namespace tconv::judge
