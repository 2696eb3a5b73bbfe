#include "plans.hpp"

#include <pthread.h>
#include <torch/csrc/stable/c/shim.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tconv::torch_binding {
namespace {

std::atomic<bool> g_forked{false};

// Set when the library is loaded: a fork may happen at any time after that.
const int g_registered = pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });

struct Tasks {
  tconv_task task;
  void* context;
  int64_t count;
  std::atomic<int64_t> next{0};

  // Tasks are taken one at a time: PyTorch's equal shares would leave threads idle if tasks differ.
  void work(int32_t slot) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i, slot);
  }
};

// PyTorch's range is of slots, not of tasks: each of its threads gets a part of it, and its beginning is a
// slot that nobody else has. With fewer threads than slots (set_num_threads meanwhile, a parallel region
// around the call) some slots go unused.
void work(int64_t slot, int64_t, void* tasks) {
  static_cast<Tasks*>(tasks)->work(static_cast<int32_t>(slot));
}

void on_torch_threads(void* threads, int64_t count, tconv_task task, void* context) {
  Tasks tasks{task, context, count};
  const int64_t slots = std::min<int64_t>(count, reinterpret_cast<std::intptr_t>(threads));
  torch_parallel_for(0, slots, 1, work, &tasks);
  tasks.work(0);  // where PyTorch refused
}

void use_torch_threads(tconv_plan_options& options, void*) {
  if (options.device != TCONV_CPU || options.threads < 2 || g_forked.load(std::memory_order_relaxed)) return;
  options.parallel_for = on_torch_threads;
  options.executor_context = reinterpret_cast<void*>(static_cast<std::intptr_t>(options.threads));
}

// Never destroyed: a thread may still run at exit.
bindings::PlanCache& plans() {
  static auto* const cache = new bindings::PlanCache(bindings::PlanCache::kCapacity, use_torch_threads);
  return *cache;
}

}  // namespace

std::shared_ptr<const CachedPlan> plan_for(const PlanKey& key) {
  return plans().get(key);
}

CacheUse cache_use() {
  return plans().use();
}

}  // namespace tconv::torch_binding
