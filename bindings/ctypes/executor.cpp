// libtconv_openmp.so: PyTorch's OpenMP threads for plans that Python makes through ctypes. A model's layers
// alternate between PyTorch and tconv, and two pools on the same cores would wait for each other.
//
// The binding asks PyTorch itself (bindings/torch/executor.cpp), by a function that PyTorch has from 2.10 on.
// For older versions it uses the interface of GNU's OpenMP, which every OpenMP runtime on Linux has: Python
// passes GOMP_parallel of the runtime that PyTorch has loaded, so this library does not link one.
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "tconv/tconv.h"

namespace {

// fn(data) once on each of the threads, the caller among them; a single one within a parallel region.
using Parallel = void (*)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);

std::atomic<Parallel> g_parallel{nullptr};
std::atomic<bool> g_forked{false};

// Set when the library is loaded: a fork may happen at any time after that.
const int g_registered = pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });

struct Tasks {
  tconv_task task;
  void* context;
  int64_t count;
  std::atomic<int64_t> next{0};
  std::atomic<int32_t> slots{0};

  static void work(void* data) {
    Tasks& tasks = *static_cast<Tasks*>(data);
    const int32_t slot = tasks.slots.fetch_add(1, std::memory_order_relaxed);
    for (int64_t i; (i = tasks.next.fetch_add(1, std::memory_order_relaxed)) < tasks.count;) {
      tasks.task(tasks.context, i, slot);
    }
  }
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void tconv_openmp_use(Parallel parallel) {
  g_parallel.store(parallel);
}

// A tconv_parallel_for; `threads` is their number, as a pointer. All of them are asked for, even where there
// are fewer tasks: GNU's runtime ends the threads that a smaller team has no use for, and PyTorch would start
// them anew.
__attribute__((visibility("default"))) void tconv_openmp_for(void* threads, int64_t count, tconv_task task,
                                                             void* context) {
  Tasks tasks{task, context, count};
  const auto number = static_cast<unsigned>(reinterpret_cast<std::intptr_t>(threads));
  const Parallel parallel = g_parallel.load(std::memory_order_relaxed);
  // OpenMP's threads do not survive a fork, and waiting for them would never end.
  if (parallel == nullptr || g_forked.load(std::memory_order_relaxed)) return Tasks::work(&tasks);
  parallel(Tasks::work, &tasks, number, 0);
}

}  // extern "C"
