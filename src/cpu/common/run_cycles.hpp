// What a division of work into tasks costs, so that plans can compare divisions.
#pragma once

#include <algorithm>
#include <array>
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

// The same for tasks of unequal cycles, task(index), the first of which is among the longest. Threads take
// them in order. If there are many threads or tasks, every task counts as much as the first: a plan has to be
// made in microseconds, and the differences even out.
template <class Task>
double run_cycles_of(int64_t tasks, int threads, const Task& task) {
  constexpr int kMostThreads = 8;
  constexpr int64_t kMostRounds = 4, kFewTasks = 16;
  const double first = task(0);
  if (tasks <= 1 || threads <= 1 || threads > kMostThreads ||
      tasks > std::max(kFewTasks, kMostRounds * threads)) {
    return run_cycles(first, tasks, threads);
  }
  std::array<double, kMostThreads> busy{};
  for (int64_t i = 0; i < tasks; ++i) *std::min_element(busy.begin(), busy.begin() + threads) += task(i);
  const double rounds = *std::max_element(busy.begin(), busy.end()) / first;
  const auto all = static_cast<double>(core::ceil_div(tasks, threads));
  return run_cycles(first, tasks, threads) - first * (all - rounds);
}

}  // namespace tconv::cpu
