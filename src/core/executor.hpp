#pragma once

#include <cstdint>
#include <type_traits>

namespace tconv::core {

// How a CPU kernel spreads independent tasks. run() calls task(context, index, slot) once for each index in
// [0, count) and returns when all are done; calls that overlap in time have different slots in [0, threads).
// A kernel's bits may not depend on the slot nor on the order.
struct Executor {
  using Task = void (*)(void* context, int64_t index, int32_t slot);
  using ParallelFor = void (*)(void* executor_context, int64_t count, Task task, void* context);

  int threads = 1;
  ParallelFor parallel_for = nullptr;  // null: serially on the calling thread
  void* executor_context = nullptr;

  template <class F>  // F: void(int64_t index, int32_t slot), must not throw
  void run(int64_t count, F&& f) const {
    auto task = [](void* context, int64_t index, int32_t slot) {
      (*static_cast<std::remove_reference_t<F>*>(context))(index, slot);
    };
    if (parallel_for == nullptr || threads <= 1 || count <= 1) {
      for (int64_t i = 0; i < count; ++i) f(i, 0);
    } else {
      parallel_for(executor_context, count, task, const_cast<void*>(static_cast<const void*>(&f)));
    }
  }
};

}  // namespace tconv::core
