// Callers and the workers that help them.
//
//   caller                                            worker
//   open: list the job, hire idle workers, wake       wait: spin a while, sleep
//   take indices until none is left,                  take indices of the job until none is left,
//     hiring again where other callers are gone         or until another caller's due
//   close: unlist, take back whom sleep still holds   go on to a listed job, or back to wait
//   wait for the helpers that are in a task
//
// A job lives on its caller's stack; nothing is allocated but for new threads.
//
// Sharing. A job may have as many helpers as it has use for while callers and helpers together are no more
// than the cores (than its own threads, where its plan asks for more). An arriving caller never waits: it
// works at once, with the helpers that are free. Helpers of a job that has more than an even share move,
// between two tasks, to one that has less. With as many callers as cores each works alone.
//
// Locking. One mutex guards the list, hiring and moving. Taking an index, finishing, sleeping and accepting a
// job are atomic operations without it, so that a lone caller locks it twice a run, uncontended.
//
// Threads. Workers are made when a job finds fewer than it may have. They block the host's signals, take
// neither affinity nor real-time priority from the caller that made them, and compute in the default
// floating-point environment. Those beyond the cores (plans with more threads) end when idle for a while. The
// pool is never destroyed: workers sleep in it until the process ends.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "core/executor.hpp"
#include "cpu/threads/job.hpp"
#include "cpu/threads/usable_cores.hpp"
#include "cpu/threads/worker.hpp"

namespace tconv::cpu {

class WorkerPool {
 public:
  // Bridges the gap between two layers of a model, and is far from what an idle process should show.
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
  void open(Job& job);
  void ask_again(Job& job, uint32_t& turn);
  void close(Job& job);
  void wait_for_helpers(Job& job);

  // Hiring; the mutex is held (hiring.cpp).
  int budget(const Job& job) const { return std::max(cores_, job.threads); }
  int room(const Job& job) const { return budget(job) - callers_.load() - helping_.load(); }
  void hire(Job& job, int number, bool wake_now);
  bool assign(Job& job, Worker& worker, bool wake_now);
  bool spawn(Job& job, Worker& worker);
  bool count_in(Job& job, int& slot);
  void count_out(Job& job, int slot);
  void take_back(Job& job);
  void list_first(Job& job);
  void list_last(Job& job);
  void unlist(Job& job);
  Job* listed_job(int fewer_helpers_than, bool with_room);
  bool join(Job& job, int& slot);
  void forget_ended();

  // Workers (helping.cpp).
  static void* thread_main(void* worker);
  void serve(Worker& me);
  bool wait_for_job(Worker& me);
  Job* help(Job& job, int& slot);
  bool due_elsewhere(const Job& job) const;
  bool move_on(Job& job, int& slot, Job*& next);
  Job* find_job(int& slot);
  void wake_some(Job& job);

  const int cores_;
  const CpuMask mask_ = process_affinity();  // workers run where the process may

  std::mutex mutex_;
  Job* first_ = nullptr;  // jobs that have use for more helpers, the one to be served next first
  Job* last_ = nullptr;
  std::array<std::unique_ptr<Worker>, kMaxThreads> workers_;
  int made_ = 0;  // workers_ beyond have no thread
  std::atomic<int> alive_{0};
  static constexpr uint32_t kRefusedTurns = 1024;  // between two tries where the system has no more threads
  uint32_t refused_turn_ = 0u - kRefusedTurns;

  // Read between tasks; changed under the mutex but for helping_, which a finishing helper lowers.
  alignas(64) std::atomic<int> callers_{0};
  std::atomic<int> helping_{0};    // helpers of all jobs, those not yet awake among them
  std::atomic<int> listed_{0};     // length of the list
  std::atomic<uint32_t> turn_{0};  // counts arrivals and departures of callers
};

}  // namespace tconv::cpu
