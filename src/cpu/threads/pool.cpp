#include "cpu/threads/pool.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace tconv::cpu {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Pool {
 public:
  void run(int threads, int64_t count, core::Executor::Task task, void* context) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      for (int64_t i = 0; i < count; ++i) task(context, i, 0);
      return;
    }
    grow(threads - 1);
    job_ = {task, context, count, threads};
    next_.store(0, std::memory_order_relaxed);
    open_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    work(0);
    open_.store(false);
    // Workers inside the job are counted in active_; those that come later see it closed.
    while (active_.load() != 0) relax();
  }

 private:
  struct Job {
    core::Executor::Task task = nullptr;
    void* context = nullptr;
    int64_t count = 0;
    int threads = 0;
  };

  void grow(int workers) {
    try {
      for (; workers_ < workers; ++workers_) {
        std::thread([this, slot = workers_ + 1, seen = generation_.load()] { loop(slot, seen); }).detach();
      }
    } catch (const std::system_error&) {
      // No more threads to be had: the job runs on those that are there.
    }
  }

  void work(int slot) {
    const Job& job = job_;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < job.count;) {
      job.task(job.context, i, slot);
    }
  }

  void loop(int slot, uint32_t seen) {
    while (true) {
      // About 20 us of spinning bridges the gap between the layers of a model; then sleep.
      for (int spin = 0; spin < 500 && generation_.load(std::memory_order_relaxed) == seen; ++spin) relax();
      generation_.wait(seen);
      seen = generation_.load();
      active_.fetch_add(1);
      if (open_.load() && slot < job_.threads) work(slot);
      active_.fetch_sub(1);
    }
  }

  std::mutex mutex_;  // held by the caller whose job runs
  int workers_ = 0;
  Job job_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> open_{false};
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> active_{0};
};

std::atomic<Pool*> g_pool{nullptr};

// Never destroyed: its detached workers may sleep in it until the process ends.
Pool* pool() {
  Pool* current = g_pool.load(std::memory_order_acquire);
  if (current != nullptr) return current;
  Pool* made = new (std::nothrow) Pool;
  if (made == nullptr) return nullptr;
  if (!g_pool.compare_exchange_strong(current, made)) {
    delete made;
    return current;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, [] { g_pool.store(nullptr); });
  (void)registered;
  return made;
}

void run_on_pool(void* threads, int64_t count, core::Executor::Task task, void* context) {
  Pool* shared = pool();
  if (shared == nullptr) {
    for (int64_t i = 0; i < count; ++i) task(context, i, 0);
    return;
  }
  shared->run(static_cast<int>(reinterpret_cast<std::intptr_t>(threads)), count, task, context);
}

}  // namespace

core::Executor pool_executor(int threads) {
  core::Executor executor;
  executor.threads = threads < 1 ? 1 : threads;
  executor.parallel_for = run_on_pool;
  executor.executor_context = reinterpret_cast<void*>(static_cast<std::intptr_t>(executor.threads));
  return executor;
}

}  // namespace tconv::cpu
