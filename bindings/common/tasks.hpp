// The tasks of a parallel_for on a framework's threads, and whether those threads still exist.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "tconv/tconv.h"

namespace tconv::bindings {

struct Tasks {
  tconv_task task;
  void* context;
  int64_t count;
  std::atomic<int64_t> next{0};

  // Tasks are taken one at a time: equal shares would leave threads idle if tasks differ.
  void work(int32_t slot) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i, slot);
  }
};

// Whether this process is a child of fork(): OpenMP's threads do not survive a fork, and waiting for them
// would never end.
inline bool forked() {
  static std::atomic<bool> in_child{false};
  // Counts from the first call, which a library makes while it is loaded: a fork may happen at any time
  // later.
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { in_child.store(true); });
  return in_child.load(std::memory_order_relaxed);
}

}  // namespace tconv::bindings
