// Pools of a test's own, and what their tasks do.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/threads/pool.hpp"
#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Body = std::function<void(int64_t, int32_t)>;

// Never destroyed, as pools are; reachable, so that no tool calls it a leak.
inline WorkerPool& new_pool(int cores) {
  static std::vector<WorkerPool*> pools;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  return *pools.emplace_back(new WorkerPool(cores));
}

inline void run(WorkerPool& pool, int threads, int64_t count, Body body) {
  pool.run(
      threads, count, [](void* f, int64_t i, int32_t slot) { (*static_cast<Body*>(f))(i, slot); }, &body);
}

inline void nap(milliseconds time = milliseconds(1)) {
  std::this_thread::sleep_for(time);
}

inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 500; ++i) {
    if (holds()) return true;
    nap(milliseconds(10));
  }
  return holds();
}

// Counts, and sees slots that two tasks hold at once.
struct Watch {
  Watch(int threads, int64_t count)
      : inside(static_cast<std::size_t>(threads)), times(static_cast<std::size_t>(count)) {}
  void enter(int64_t i, int32_t slot) {
    wrong += slot < 0 || slot >= static_cast<int32_t>(inside.size());
    wrong += inside[static_cast<std::size_t>(slot)].fetch_add(1) != 0;
    times[static_cast<std::size_t>(i)].fetch_add(1);
  }
  void leave(int32_t slot) { inside[static_cast<std::size_t>(slot)].fetch_sub(1); }
  bool all_once() const {
    for (const auto& t : times) {
      if (t != 1) return false;
    }
    return wrong == 0;
  }
  std::vector<std::atomic<int>> inside, times;
  std::atomic<int> wrong{0};
};

}  // namespace tconv::cpu
