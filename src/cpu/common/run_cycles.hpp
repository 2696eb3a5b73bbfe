// What a division of work into tasks costs, so that plans can compare divisions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/polyphase.hpp"

namespace tconv::cpu {

// Cycles until `tasks` equal tasks of `task` cycles each are done. A worker wakes late (by about 10 us), for
// which small tasks make up: the other threads take them. Tasks never take quite the same time, so a
// twentieth of one is added.
inline double run_cycles(double task, int64_t tasks, int threads) {
  constexpr double kWakeCycles = 40000, kHandOver = 10000;
  if (tasks <= 1 || threads <= 1) return task * static_cast<double>(tasks);
  const auto rounds = static_cast<double>(core::ceil_div(tasks, threads));
  return task * (rounds + 0.05) + std::min(task / 2, kWakeCycles) + kHandOver;
}

}  // namespace tconv::cpu
