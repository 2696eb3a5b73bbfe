// A worker's life.
#include <pthread.h>

#include "core/float_environment.hpp"
#include "cpu/threads/relax.hpp"
#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

void* WorkerPool::thread_main(void* worker) {
  Worker& me = *static_cast<Worker*>(worker);
  pthread_setname_np(pthread_self(), "tconv");
  set_affinity(me.pool.mask_);
  const core::DefaultFloatEnvironment environment;  // a new thread has its maker's
  me.pool.serve(me);
  return nullptr;
}

void WorkerPool::serve(Worker& me) {
  while (wait_for_job(me)) {
    Job* job = me.job;
    int slot = me.slot;
    job->unaccepted.fetch_sub(1);
    while (true) {
      while (job != nullptr) job = help(*job, slot);
      const uint32_t turn = turn_.load();
      me.state.store(Worker::idle);
      // A caller that listed its job while this worker was still busy has not hired it.
      uint32_t state = Worker::idle;
      if (listed_.load() == 0 || !me.state.compare_exchange_strong(state, Worker::busy)) break;
      job = find_job(slot);
      if (job != nullptr || turn != turn_.load()) continue;
      me.state.store(Worker::idle);
      break;
    }
  }
}

// False: the worker's thread is to end.
bool WorkerPool::wait_for_job(Worker& me) {
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

// Returns the job to help next, if there is one, and its slot.
Job* WorkerPool::help(Job& job, int& slot) {
  wake_some(job);
  for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) {
    job.task(job.context, i, slot);
    Job* next = nullptr;
    if (due_elsewhere(job) && move_on(job, slot, next)) return next;
  }
  helping_.fetch_sub(1);
  job.release();
  return listed_.load() == 0 ? nullptr : find_job(slot);
}

// A guess without the mutex; move_on decides.
bool WorkerPool::due_elsewhere(const Job& job) const {
  const int callers = callers_.load(std::memory_order_relaxed);
  if (callers <= 1) return false;
  if (int64_t{job.helper_count()} * callers <= budget(job) - callers) return false;  // no more than its share
  if (callers + helping_.load(std::memory_order_relaxed) > budget(job)) return true;
  return listed_.load(std::memory_order_relaxed) > 0 &&
         job.looked.load(std::memory_order_relaxed) != turn_.load(std::memory_order_relaxed);
}

bool WorkerPool::move_on(Job& job, int& slot, Job*& next) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // the next task ends soon enough
  const bool too_many = room(job) < 0;
  Job* const poorer = too_many ? nullptr : listed_job(job.helper_count() - 1, false);
  const int left = slot;
  if (!too_many && (poorer == nullptr || !join(*poorer, slot))) {
    job.looked.store(turn_.load());
    return false;
  }
  next = poorer;
  job.give_slot(left);
  if (!job.listed && !job.exhausted()) list_last(job);
  helping_.fetch_sub(1);
  job.release();  // before the mutex is free, since the job's caller unlists it there
  return true;
}

Job* WorkerPool::find_job(int& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Job* const job = listed_job(kMaxThreads, true);
  return job != nullptr && join(*job, slot) ? job : nullptr;
}

// Wakes up to four of the hired; each of them wakes others.
void WorkerPool::wake_some(Job& job) {
  for (int number = 0; number < 4;) {
    const int place = job.woken.fetch_add(1, std::memory_order_relaxed);
    if (place >= job.hired_count.load(std::memory_order_acquire)) return;
    if (!job.hired[place].asleep) continue;
    futex_wake(&workers_[job.hired[place].worker]->state);
    ++number;
  }
}

}  // namespace tconv::cpu
