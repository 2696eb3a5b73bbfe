#include "plans.hpp"

#include <torch/csrc/stable/c/shim.h>

#include <algorithm>
#include <cstdint>

#include "tasks.hpp"

namespace tconv::torch_binding {
namespace {

using bindings::Tasks;

const bool g_asked = bindings::forked();  // while the library is loaded, before any fork

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
  if (options.device != TCONV_CPU || options.threads < 2 || bindings::forked()) return;
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
