// Callers and the workers that help them.
//
//   caller                                            worker
//   open: list the region, hire idle workers, wake       wait: spin a while, sleep
//   take indices until none is left,                  take indices of the region until none is left,
//     hiring again where other callers are gone         or until another caller's region is due
//   close: unlist, take back those still asleep       go on to a listed region, or back to wait
//   wait for the helpers that are in a task
//
// A region lives on its caller's stack; nothing is allocated but for new threads.
//
// Sharing. A region may have as many helpers as it can use while callers and helpers together are no more
// than the cores (than its own threads, if its plan asks for more). An arriving caller never waits: it works
// at once, with the helpers that are free. Helpers of a region that has more than an even share move, between
// two tasks, to one that has less. With as many callers as cores, each works alone.
//
// Locking. One mutex guards the list, hiring and moving. Taking an index, finishing, sleeping and accepting a
// region are atomic operations without it, so that a lone caller locks it twice a run, uncontended.
//
// Threads. Workers are made when a region finds fewer than it may have. They block the host's signals, take
// neither affinity nor real-time priority from the caller that made them, and compute in the default
// floating-point environment. A sleeping worker is woken on a CPU other than its caller's. Those beyond the
// cores (plans with more threads) end when idle for a while. The pool is never destroyed: workers sleep in it
// until the process ends.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "core/executor.hpp"
#include "cpu/threads/region.hpp"
#include "cpu/threads/usable_cores.hpp"
#include "cpu/threads/worker.hpp"

namespace tconv::cpu {

class WorkerPool {
 public:
  // Bridges the gap between two layers of a model, yet hardly shows as load of an idle process.
  static constexpr std::chrono::microseconds kSpin{50};
  static constexpr std::chrono::milliseconds kExcessLife{500};

  explicit WorkerPool(int cores) : cores_(cores) {}
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // task(context, index, slot) for every index in [0, count), on up to `threads` threads.
  void run(int threads, int64_t count, core::Executor::Task task, void* context);

  int workers() const { return alive_.load(); }  // threads that exist now

 private:
  // Callers (pool.cpp).
  void open(Region& region);
  void ask_again(Region& region, uint32_t& turn);
  void close(Region& region);
  void wait_for_helpers(Region& region);

  // Hiring; the mutex is held (hiring.cpp).
  int budget(const Region& region) const { return std::max(cores_, region.threads); }
  int room(const Region& region) const { return budget(region) - callers_.load() - helping_.load(); }
  void hire(Region& region, int number, bool wake_now);
  bool assign(Region& region, Worker& worker, bool wake_now);
  bool spawn(Region& region, Worker& worker);
  bool count_in(Region& region, int& slot);
  void count_out(Region& region, int slot);
  void take_back(Region& region);
  void list_first(Region& region);
  void list_last(Region& region);
  void unlist(Region& region);
  Region* listed_region(int fewer_helpers_than, bool with_room);
  bool join(Region& region, int& slot);
  void forget_ended();

  // Workers (helping.cpp).
  static void* thread_main(void* worker);
  void serve(Worker& me);
  bool wait_for_region(Worker& me);
  Region* help(Region& region, int& slot);
  bool due_elsewhere(const Region& region) const;
  bool move_on(Region& region, int& slot, Region*& next);
  Region* find_region(int& slot);
  void wake_some(Region& region);
  void wake(Worker& worker, int caller_cpu);

  const int cores_;
  const CpuMask mask_ = process_affinity();  // workers run where the process may

  std::mutex mutex_;
  Region* first_ = nullptr;  // regions that can use more helpers; the first is served next
  Region* last_ = nullptr;
  std::array<std::unique_ptr<Worker>, kMaxThreads> workers_;
  int made_ = 0;  // workers_ from here on have no thread
  std::atomic<int> alive_{0};
  static constexpr uint32_t kRefusedTurns = 1024;  // between two tries if the system has no more threads
  uint32_t refused_turn_ = 0u - kRefusedTurns;

  // Read between tasks; changed under the mutex, except that a finishing helper lowers helping_ without it.
  alignas(64) std::atomic<int> callers_{0};
  std::atomic<int> helping_{0};    // helpers of all regions, those not yet awake among them
  std::atomic<int> listed_{0};     // length of the list
  std::atomic<uint32_t> turn_{0};  // counts arrivals and departures of callers
};

}  // namespace tconv::cpu
