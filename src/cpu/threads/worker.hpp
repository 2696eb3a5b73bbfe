#pragma once

#include "cpu/threads/futex.hpp"

namespace tconv::cpu {

class WorkerPool;
struct Region;

// A place for a thread; it outlives the thread and may get another one.
struct alignas(64) Worker {
  enum State : uint32_t {
    ended,     // no thread; a caller may start one
    idle,      // spins
    sleeping,  // in futex_wait on this word, or on the way to it
    assigned,  // region and slot are written; the worker has not seen it
    busy       // the worker's own again, until it is idle
  };

  Worker(WorkerPool& p, int i) : pool(p), index(i) {}

  FutexWord state{ended};
  Region* region = nullptr;  // written under the pool's mutex by whoever assigns
  int slot = 0;
  std::atomic<int> thread{0};  // its number; 0: not known yet
  WorkerPool& pool;
  const int index;
};

// Starts a detached thread with the host's signals blocked, without real-time priority. Returns false if the
// system has no more threads.
bool start_thread(void* (*main)(void*), void* argument);

}  // namespace tconv::cpu
