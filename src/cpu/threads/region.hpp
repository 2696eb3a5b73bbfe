#pragma once

#include <atomic>
#include <cstdint>

#include "core/executor.hpp"
#include "cpu/threads/futex.hpp"
#include "cpu/threads/usable_cores.hpp"

namespace tconv::cpu {

inline constexpr int kMaxThreads = 4096;  // what tconv_plan_options takes at most

// One run of a caller, on its stack. A helper's last touch is release(): after it the region may be gone.
struct Region {
  static constexpr uint32_t kCallerWaits = 1u << 31;

  Region(int threads_, int64_t count_, core::Executor::Task task_, void* context_)
      : task(task_), context(context_), count(count_), threads(threads_) {
    want = static_cast<int>(count < threads ? count : threads) - 1;
    for (int word = 0; word <= want / 64; ++word) taken[word] = 0;
    taken[0] = 1;  // slot 0 is the caller's
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int helper_count() const {
    return static_cast<int>(helpers.load(std::memory_order_relaxed) & ~kCallerWaits);
  }
  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }

  void release() {
    FutexWord* word = &helpers;
    if (helpers.fetch_sub(1, std::memory_order_acq_rel) == (kCallerWaits | 1)) futex_wake(word);
  }

  // Needs the pool's mutex. -1: all slots are taken.
  int take_slot() {
    for (int word = 0; word <= want / 64; ++word) {
      if (~taken[word] == 0) continue;
      const int slot = word * 64 + __builtin_ctzll(~taken[word]);
      if (slot > want) break;
      taken[word] |= uint64_t{1} << slot % 64;
      return slot;
    }
    return -1;
  }
  void give_slot(int slot) { taken[slot / 64] &= ~(uint64_t{1} << slot % 64); }

  const core::Executor::Task task;
  void* const context;
  const int64_t count;
  const int threads;
  int want = 0;                          // helpers that it can use
  const int caller_cpu = current_cpu();  // where it was opened

  alignas(64) std::atomic<int64_t> next{0};  // the next index
  alignas(64) FutexWord helpers{0};          // hired and not yet released, and kCallerWaits
  std::atomic<int> unaccepted{0};            // hired and not yet awake
  std::atomic<uint32_t> looked{0};           // the pool's turn in which a helper found no region more in need

  // The workers that were hired, in order. Those that sleep are woken in a chain: each wake is a system call.
  struct Hired {
    Hired() = default;
    Hired(int w, bool a) : worker(static_cast<uint16_t>(w)), asleep(a) {}
    uint16_t worker;
    bool asleep;
  };
  std::atomic<int> hired_count{0};
  std::atomic<int> woken{0};  // how far the chain has come

  // The pool's list.
  Region* before = nullptr;
  Region* after = nullptr;
  bool listed = false;

  // Only what is used is written: the arrays are for the largest region.
  uint64_t taken[kMaxThreads / 64];
  Hired hired[kMaxThreads];
};

}  // namespace tconv::cpu
