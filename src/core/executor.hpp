#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "core/float_environment.hpp"

namespace tconv::core {

// How a CPU kernel spreads independent tasks. run() calls f(index, slot) once for each index in [0, count)
// and returns when all are done; calls that overlap in time have different slots in [0, threads). The bits of
// a kernel must depend neither on the slot nor on the order. Tasks run in the default floating-point
// environment, whoever owns the thread.
struct Executor {
  using Task = void (*)(void* context, int64_t index, int32_t slot);
  using ParallelFor = void (*)(void* executor_context, int64_t count, Task task, void* context);

  int threads = 1;
  ParallelFor parallel_for = nullptr;  // null: serially on the calling thread
  void* executor_context = nullptr;

  // An exception in f cancels the tasks that have not begun, and run() rethrows it. It neither passes through
  // parallel_for, which may be C, nor ends a worker.
  template <class F>  // F: void(int64_t index, int32_t slot)
  void run(int64_t count, F&& f) const {
    if (parallel_for == nullptr || threads <= 1 || count <= 1) {
      const DefaultFloatEnvironment environment;
      for (int64_t i = 0; i < count; ++i) f(i, 0);
      return;
    }
    Batch<F> batch{f};
    parallel_for(executor_context, count, Batch<F>::task, &batch);
    if (batch.error != nullptr) std::rethrow_exception(batch.error);
  }

 private:
  template <class F>
  struct Batch {
    F& f;
    std::atomic<bool> failed{false};
    std::exception_ptr error = nullptr;  // of the first task that failed

    static void task(void* context, int64_t index, int32_t slot) {
      auto& batch = *static_cast<Batch*>(context);
      const DefaultFloatEnvironment environment;
      try {
        if (!batch.failed.load(std::memory_order_relaxed)) batch.f(index, slot);
      } catch (...) {
        if (!batch.failed.exchange(true)) batch.error = std::current_exception();
      }
    }
  };
};

}  // namespace tconv::core
