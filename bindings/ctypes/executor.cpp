// libtconv_openmp.so: PyTorch's OpenMP threads for plans that Python makes through ctypes. A model's layers
// alternate between PyTorch and tconv, and two pools on the same cores would wait for each other.
//
// The binding asks PyTorch itself (bindings/torch/plans.cpp), by a function that PyTorch has from 2.10 on.
// For older versions it uses the interface of GNU's OpenMP, which every OpenMP runtime on Linux has: Python
// passes GOMP_parallel of the runtime that PyTorch has loaded, so this library does not link one.
#include <atomic>
#include <cstdint>

#include "tasks.hpp"

namespace {

// Calls fn(data) once on each thread, the caller included; within a parallel region on the caller alone.
using Parallel = void (*)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);

std::atomic<Parallel> g_parallel{nullptr};
const bool g_asked = tconv::bindings::forked();  // while the library is loaded, before any fork

struct Slots {
  tconv::bindings::Tasks tasks;
  std::atomic<int32_t> next{0};

  static void work(void* data) {
    Slots& slots = *static_cast<Slots*>(data);
    slots.tasks.work(slots.next.fetch_add(1, std::memory_order_relaxed));
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
  Slots slots{{task, context, count}};
  const auto number = static_cast<unsigned>(reinterpret_cast<std::intptr_t>(threads));
  const Parallel parallel = g_parallel.load(std::memory_order_relaxed);
  if (parallel == nullptr || tconv::bindings::forked()) return Slots::work(&slots);
  parallel(Slots::work, &slots, number, 0);
}

}  // extern "C"
