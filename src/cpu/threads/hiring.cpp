// Who helps whom. All of it runs under the pool's mutex.
#include <new>

#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

void WorkerPool::hire(Job& job, int number, bool wake_now) {
  for (int i = 0; i < made_ && number > 0; ++i) {
    if (assign(job, *workers_[i], wake_now)) --number;
  }
  // A worker between its last task and idleness is not replaced: there are never more threads than may help.
  if (number <= 0 || turn_.load() - refused_turn_ < kRefusedTurns) return;
  for (int i = 0; number > 0 && i < kMaxThreads - 1 && alive_.load() < budget(job) - 1; ++i) {
    if (workers_[i] == nullptr) workers_[i].reset(new (std::nothrow) Worker(*this, i));
    if (workers_[i] == nullptr) return;
    if (workers_[i]->state.load() != Worker::ended) continue;
    if (!spawn(job, *workers_[i])) {
      refused_turn_ = turn_.load();  // the job runs on the threads that are there
      return;
    }
    made_ = std::max(made_, i + 1);
    --number;
  }
}

bool WorkerPool::assign(Job& job, Worker& worker, bool wake_now) {
  uint32_t state = worker.state.load();
  int slot = 0;
  if ((state != Worker::idle && state != Worker::sleeping) || !count_in(job, slot)) return false;
  worker.job = &job;
  worker.slot = slot;
  while (state == Worker::idle || state == Worker::sleeping) {
    if (!worker.state.compare_exchange_weak(state, Worker::assigned)) continue;
    const bool asleep = state == Worker::sleeping;
    if (asleep && wake_now) futex_wake(&worker.state);
    const int place = job.hired_count.load(std::memory_order_relaxed);
    job.hired[place] = {worker.index, asleep && !wake_now};
    job.hired_count.store(place + 1, std::memory_order_release);
    return true;
  }
  count_out(job, slot);
  return false;
}

bool WorkerPool::spawn(Job& job, Worker& worker) {
  int slot = 0;
  if (!count_in(job, slot)) return false;
  worker.job = &job;
  worker.slot = slot;
  worker.state.store(Worker::assigned);
  alive_.fetch_add(1);
  if (!start_thread(thread_main, &worker)) {
    alive_.fetch_sub(1);
    worker.state.store(Worker::ended);
    count_out(job, slot);
    return false;
  }
  const int place = job.hired_count.load(std::memory_order_relaxed);
  job.hired[place] = {worker.index, false};
  job.hired_count.store(place + 1, std::memory_order_release);
  return true;
}

// Before the worker can see the job: it may finish and release at once.
bool WorkerPool::count_in(Job& job, int& slot) {
  if (job.hired_count.load(std::memory_order_relaxed) == kMaxThreads) return false;
  slot = job.take_slot();
  if (slot < 0) return false;
  job.helpers.fetch_add(1);
  job.unaccepted.fetch_add(1);
  helping_.fetch_add(1);
  return true;
}

// The caller of such a job cannot be waiting yet: it closes the job first, under the mutex.
void WorkerPool::count_out(Job& job, int slot) {
  job.give_slot(slot);
  job.unaccepted.fetch_sub(1);
  helping_.fetch_sub(1);
  job.helpers.fetch_sub(1);
}

void WorkerPool::take_back(Job& job) {
  const int hired = job.hired_count.load(std::memory_order_relaxed);
  for (int i = 0; i < hired; ++i) {
    Worker& worker = *workers_[job.hired[i].worker];
    uint32_t state = worker.state.load();
    if (state != Worker::assigned || worker.job != &job) continue;
    const int slot = worker.slot;
    // "sleeping" is right for one that spins too: whoever hires it next wakes it in vain, and no wake is
    // lost.
    if (worker.state.compare_exchange_strong(state, Worker::sleeping)) count_out(job, slot);
  }
}

void WorkerPool::list_first(Job& job) {
  job.before = nullptr;
  job.after = first_;
  (first_ == nullptr ? last_ : first_->before) = &job;
  first_ = &job;
  job.listed = true;
  listed_.fetch_add(1);
}

void WorkerPool::list_last(Job& job) {
  job.before = last_;
  job.after = nullptr;
  (last_ == nullptr ? first_ : last_->after) = &job;
  last_ = &job;
  job.listed = true;
  listed_.fetch_add(1);
}

void WorkerPool::unlist(Job& job) {
  if (!job.listed) return;
  (job.before == nullptr ? first_ : job.before->after) = job.after;
  (job.after == nullptr ? last_ : job.after->before) = job.before;
  job.listed = false;
  listed_.fetch_sub(1);
}

Job* WorkerPool::listed_job(int fewer_helpers_than, bool with_room) {
  Job* job = first_;
  // With hundreds of callers a longer look would cost more than it finds.
  for (int looks = 0; job != nullptr && looks < 16; ++looks) {
    Job* const after = job->after;
    if (job->exhausted() || job->helper_count() >= job->want) {
      unlist(*job);
    } else if (job->helper_count() < fewer_helpers_than && (!with_room || room(*job) > 0)) {
      return job;
    }
    job = after;
  }
  return nullptr;
}

bool WorkerPool::join(Job& job, int& slot) {
  unlist(job);
  const int free = job.take_slot();
  if (free < 0) return false;
  slot = free;
  job.helpers.fetch_add(1);
  helping_.fetch_add(1);
  if (job.helper_count() < job.want) list_last(job);
  return true;
}

void WorkerPool::forget_ended() {
  while (made_ > 0 && workers_[made_ - 1]->state.load(std::memory_order_relaxed) == Worker::ended) --made_;
}

}  // namespace tconv::cpu
