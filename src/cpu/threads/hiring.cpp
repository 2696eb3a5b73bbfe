// Who helps whom. All of it runs under the pool's mutex.
#include <new>

#include "cpu/threads/worker_pool.hpp"

namespace tconv::cpu {

void WorkerPool::hire(Region& region, int number, bool wake_now) {
  for (int i = 0; i < made_ && number > 0; ++i) {
    if (assign(region, *workers_[i], wake_now)) --number;
  }
  // A worker between its last task and idleness is not replaced: there are never more threads than may help.
  if (number <= 0 || turn_.load() - refused_turn_ < kRefusedTurns) return;
  for (int i = 0; number > 0 && i < kMaxThreads - 1 && alive_.load() < budget(region) - 1; ++i) {
    if (workers_[i] == nullptr) workers_[i].reset(new (std::nothrow) Worker(*this, i));
    if (workers_[i] == nullptr) return;
    if (workers_[i]->state.load() != Worker::ended) continue;
    if (!spawn(region, *workers_[i])) {
      refused_turn_ = turn_.load();  // the region runs on the threads that are there
      return;
    }
    made_ = std::max(made_, i + 1);
    --number;
  }
}

bool WorkerPool::assign(Region& region, Worker& worker, bool wake_now) {
  uint32_t state = worker.state.load();
  int slot = 0;
  if ((state != Worker::idle && state != Worker::sleeping) || !count_in(region, slot)) return false;
  worker.region = &region;
  worker.slot = slot;
  while (state == Worker::idle || state == Worker::sleeping) {
    if (!worker.state.compare_exchange_weak(state, Worker::assigned)) continue;
    const bool asleep = state == Worker::sleeping;
    if (asleep && wake_now) wake(worker, region.caller_cpu);
    const int place = region.hired_count.load(std::memory_order_relaxed);
    region.hired[place] = {worker.index, asleep && !wake_now};
    region.hired_count.store(place + 1, std::memory_order_release);
    return true;
  }
  count_out(region, slot);
  return false;
}

bool WorkerPool::spawn(Region& region, Worker& worker) {
  int slot = 0;
  if (!count_in(region, slot)) return false;
  worker.region = &region;
  worker.slot = slot;
  worker.state.store(Worker::assigned);
  alive_.fetch_add(1);
  if (!start_thread(thread_main, &worker)) {
    alive_.fetch_sub(1);
    worker.state.store(Worker::ended);
    count_out(region, slot);
    return false;
  }
  const int place = region.hired_count.load(std::memory_order_relaxed);
  region.hired[place] = {worker.index, false};
  region.hired_count.store(place + 1, std::memory_order_release);
  return true;
}

// Must run before the worker can see the region, because the worker may finish and release it at once.
bool WorkerPool::count_in(Region& region, int& slot) {
  if (region.hired_count.load(std::memory_order_relaxed) == kMaxThreads) return false;
  slot = region.take_slot();
  if (slot < 0) return false;
  region.helpers.fetch_add(1);
  region.unaccepted.fetch_add(1);
  helping_.fetch_add(1);
  return true;
}

// The caller of such a region cannot be waiting yet: it closes the region first, under the mutex.
void WorkerPool::count_out(Region& region, int slot) {
  region.give_slot(slot);
  region.unaccepted.fetch_sub(1);
  helping_.fetch_sub(1);
  region.helpers.fetch_sub(1);
}

void WorkerPool::take_back(Region& region) {
  const int hired = region.hired_count.load(std::memory_order_relaxed);
  for (int i = 0; i < hired; ++i) {
    Worker& worker = *workers_[region.hired[i].worker];
    uint32_t state = worker.state.load();
    if (state != Worker::assigned || worker.region != &region) continue;
    const int slot = worker.slot;
    // "sleeping" is right for a spinning worker too: whoever hires it next wakes it needlessly, and no wake
    // is lost.
    if (worker.state.compare_exchange_strong(state, Worker::sleeping)) count_out(region, slot);
  }
}

void WorkerPool::list_first(Region& region) {
  region.before = nullptr;
  region.after = first_;
  (first_ == nullptr ? last_ : first_->before) = &region;
  first_ = &region;
  region.listed = true;
  listed_.fetch_add(1);
}

void WorkerPool::list_last(Region& region) {
  region.before = last_;
  region.after = nullptr;
  (last_ == nullptr ? first_ : last_->after) = &region;
  last_ = &region;
  region.listed = true;
  listed_.fetch_add(1);
}

void WorkerPool::unlist(Region& region) {
  if (!region.listed) return;
  (region.before == nullptr ? first_ : region.before->after) = region.after;
  (region.after == nullptr ? last_ : region.after->before) = region.before;
  region.listed = false;
  listed_.fetch_sub(1);
}

Region* WorkerPool::listed_region(int fewer_helpers_than, bool with_room) {
  Region* region = first_;
  // With hundreds of callers, a longer search would cost more than it finds.
  for (int looks = 0; region != nullptr && looks < 16; ++looks) {
    Region* const after = region->after;
    if (region->exhausted() || region->helper_count() >= region->want) {
      unlist(*region);
    } else if (region->helper_count() < fewer_helpers_than && (!with_room || room(*region) > 0)) {
      return region;
    }
    region = after;
  }
  return nullptr;
}

bool WorkerPool::join(Region& region, int& slot) {
  unlist(region);
  const int free = region.take_slot();
  if (free < 0) return false;
  slot = free;
  region.helpers.fetch_add(1);
  helping_.fetch_add(1);
  if (region.helper_count() < region.want) list_last(region);
  return true;
}

void WorkerPool::forget_ended() {
  while (made_ > 0 && workers_[made_ - 1]->state.load(std::memory_order_relaxed) == Worker::ended) --made_;
}

}  // namespace tconv::cpu
