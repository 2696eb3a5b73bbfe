#include "cpu/threads/pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <new>

#include "cpu/threads/relax.hpp"
#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

void WorkerPool::run(int threads, int64_t count, core::Executor::Task task, void* context) {
  threads = std::min(threads, kMaxThreads);
  if (threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(context, i, 0);
    return;
  }
  Region region(threads, count, task, context);
  open(region);
  wake_some(region);
  uint32_t turn = turn_.load(std::memory_order_relaxed);
  for (int64_t i; (i = region.next.fetch_add(1, std::memory_order_relaxed)) < count;) {
    task(context, i, 0);
    ask_again(region, turn);
  }
  close(region);
  wait_for_helpers(region);
}

void WorkerPool::open(Region& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callers_.fetch_add(1);
  turn_.fetch_add(1);
  forget_ended();
  list_first(region);  // before looking for idle workers: one that becomes idle after that sees the list
  hire(region, std::min(region.want, room(region)), false);
  if (region.helper_count() >= region.want) unlist(region);
}

void WorkerPool::close(Region& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callers_.fetch_sub(1);
  turn_.fetch_add(1);
  unlist(region);
  // Nobody should wait for a thread that has yet to wake up, only to find no index left.
  if (region.unaccepted.load() > 0) take_back(region);
}

// Hires for the cores that other callers have left, but only after they have been gone for a whole task. Most
// come back at once, and waking a worker for the moment between two of their runs costs all of them (3 to 9%
// of the throughput of 2 and of 4 callers on 2 cores, runs of 2 ms, on a loaded machine).
void WorkerPool::ask_again(Region& region, uint32_t& turn) {
  const uint32_t now = turn_.load(std::memory_order_relaxed);
  if (now != turn) {
    turn = now;
    return;
  }
  if (region.helper_count() >= region.want || room(region) <= 0 || region.exhausted()) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  hire(region, std::min(region.want - region.helper_count(), room(region)), true);
  if (region.helper_count() >= region.want) unlist(region);
}

void WorkerPool::wait_for_helpers(Region& region) {
  const auto done = [&] { return region.helpers.load(std::memory_order_acquire) == 0; };
  if (done() || (cores_ > 1 && spin_for(kSpin, done))) return;
  uint32_t helpers =
      region.helpers.fetch_or(Region::kCallerWaits, std::memory_order_acquire) | Region::kCallerWaits;
  while (helpers != Region::kCallerWaits) {
    futex_wait(region.helpers, helpers);
    helpers = region.helpers.load(std::memory_order_acquire);
  }
}

namespace {

std::atomic<WorkerPool*> g_pool{nullptr};

// The child has the pool's memory but none of its threads, one of which may hold the mutex. The device
// description, which a new pool needs, is made before the fork: a thread that was making it would leave its
// lock held for good.
[[maybe_unused]] const int g_forgotten_in_children =
    pthread_atfork([] { host_device(); }, nullptr, [] { g_pool.store(nullptr); });

// Never destroyed: its detached workers sleep in it until the process ends.
WorkerPool& pool() {
  WorkerPool* current = g_pool.load(std::memory_order_acquire);
  if (current != nullptr) return *current;
  auto made = std::make_unique<WorkerPool>(host_device().threads);
  return g_pool.compare_exchange_strong(current, made.get()) ? *made.release() : *current;
}

void run_on_pool(void* threads, int64_t count, core::Executor::Task task, void* context) {
  pool().run(static_cast<int>(reinterpret_cast<std::intptr_t>(threads)), count, task, context);
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
