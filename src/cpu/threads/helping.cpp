// A worker's life.
#include <pthread.h>

#include "core/float_environment.hpp"
#include "cpu/threads/relax.hpp"
#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

void* WorkerPool::thread_main(void* worker) {
  Worker& me = *static_cast<Worker*>(worker);
  me.thread.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_relaxed);
  pthread_setname_np(pthread_self(), "tconv");
  set_affinity(me.pool.mask_);
  const core::DefaultFloatEnvironment environment;  // a new thread inherits its creator's
  me.pool.serve(me);
  return nullptr;
}

void WorkerPool::serve(Worker& me) {
  while (wait_for_region(me)) {
    Region* region = me.region;
    int slot = me.slot;
    region->unaccepted.fetch_sub(1);
    while (true) {
      while (region != nullptr) region = help(*region, slot);
      const uint32_t turn = turn_.load();
      me.state.store(Worker::idle);
      // If a caller listed its region while this worker was still busy, it has not hired this worker.
      uint32_t state = Worker::idle;
      if (listed_.load() == 0 || !me.state.compare_exchange_strong(state, Worker::busy)) break;
      region = find_region(slot);
      if (region != nullptr || turn != turn_.load()) continue;
      me.state.store(Worker::idle);
      break;
    }
  }
}

// Returns false if the worker's thread is to end.
bool WorkerPool::wait_for_region(Worker& me) {
  const bool excess = me.index >= cores_ - 1;
  if (!excess) {
    spin_for(kSpin, [&] {
      return me.state.load(std::memory_order_relaxed) == Worker::assigned ||
             callers_.load(std::memory_order_relaxed) >= cores_;
    });
  }
  while (true) {
    uint32_t state = me.state.load();
    if (state == Worker::assigned) {
      if (me.state.compare_exchange_strong(state, Worker::busy)) return true;
    } else if (state == Worker::idle) {
      me.state.compare_exchange_strong(state, Worker::sleeping);
    } else if (!futex_wait(me.state, Worker::sleeping, excess ? kExcessLife : std::chrono::milliseconds(0))) {
      state = Worker::sleeping;
      if (!me.state.compare_exchange_strong(state, Worker::ended)) continue;
      alive_.fetch_sub(1);
      return false;
    }
  }
}

// Returns the region to help next, if there is one, and its slot.
Region* WorkerPool::help(Region& region, int& slot) {
  wake_some(region);
  for (int64_t i; (i = region.next.fetch_add(1, std::memory_order_relaxed)) < region.count;) {
    region.task(region.context, i, slot);
    Region* next = nullptr;
    if (due_elsewhere(region) && move_on(region, slot, next)) return next;
  }
  helping_.fetch_sub(1);
  region.release();
  return listed_.load() == 0 ? nullptr : find_region(slot);
}

// A guess without the mutex; move_on decides.
bool WorkerPool::due_elsewhere(const Region& region) const {
  const int callers = callers_.load(std::memory_order_relaxed);
  if (callers <= 1) return false;
  if (int64_t{region.helper_count()} * callers <= budget(region) - callers)
    return false;  // no more than its share
  if (callers + helping_.load(std::memory_order_relaxed) > budget(region)) return true;
  return listed_.load(std::memory_order_relaxed) > 0 &&
         region.looked.load(std::memory_order_relaxed) != turn_.load(std::memory_order_relaxed);
}

bool WorkerPool::move_on(Region& region, int& slot, Region*& next) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // the next task ends soon enough
  const bool too_many = room(region) < 0;
  Region* const poorer = too_many ? nullptr : listed_region(region.helper_count() - 1, false);
  const int left = slot;
  if (!too_many && (poorer == nullptr || !join(*poorer, slot))) {
    region.looked.store(turn_.load());
    return false;
  }
  next = poorer;
  region.give_slot(left);
  if (!region.listed && !region.exhausted()) list_last(region);
  helping_.fetch_sub(1);
  region.release();  // before unlocking, since the caller unlists the region under the mutex
  return true;
}

Region* WorkerPool::find_region(int& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Region* const region = listed_region(kMaxThreads, true);
  return region != nullptr && join(*region, slot) ? region : nullptr;
}

// A scheduler may wake a worker on the CPU of its caller and leave both there for many runs while another CPU
// is idle: on two cores of a virtual machine (Linux 6.18) it did so after every pause of 100 ms.
void WorkerPool::wake(Worker& worker, int caller_cpu) {
  // Only threads that never end: the number of one that has ended may belong to another.
  const bool lasting = worker.index < cores_ - 1;
  const KeptOff kept(lasting ? worker.thread.load(std::memory_order_relaxed) : 0, caller_cpu);
  futex_wake(&worker.state);
}

// Wakes up to four of the hired workers; each of them wakes others.
void WorkerPool::wake_some(Region& region) {
  for (int number = 0; number < 4;) {
    const int place = region.woken.fetch_add(1, std::memory_order_relaxed);
    if (place >= region.hired_count.load(std::memory_order_acquire)) return;
    if (!region.hired[place].asleep) continue;
    wake(*workers_[region.hired[place].worker], region.caller_cpu);
    ++number;
  }
}

}  // namespace tconv::cpu
