// Sleeping on a word of memory. std::atomic::wait has no time limit, and words share its queues.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace tconv::cpu {

using FutexWord = std::atomic<uint32_t>;
static_assert(sizeof(FutexWord) == 4 && FutexWord::is_always_lock_free);

// Sleeps while the word holds `expected`; may return early. A limit of zero means none. Returns false if the
// limit has passed.
inline bool futex_wait(FutexWord& word, uint32_t expected, std::chrono::milliseconds limit = {}) {
  timespec time{limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  const timespec* const until = limit.count() == 0 ? nullptr : &time;
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, until, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

// Wakes one sleeper. The word is not read: it may no longer exist.
inline void futex_wake(FutexWord* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace tconv::cpu
