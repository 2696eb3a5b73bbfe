#pragma once

#include <chrono>

namespace tconv::cpu {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // yield is a no-op on most cores
#endif
}

// Spins until ready() or until the time is over; true if ready.
template <class Ready>
bool spin_for(std::chrono::microseconds time, Ready&& ready) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace tconv::cpu
