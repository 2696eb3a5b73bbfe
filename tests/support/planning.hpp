// What tests of planning share.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "plan/planner.hpp"

namespace tconv {

// CPU time of the calling thread.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Values of force_kernel: the planner's choice, and every kernel that takes the problem.
inline std::vector<std::string> names_to_force(const core::Problem& p, const core::DeviceInfo& device,
                                               const plan::PlanOptions& options) {
  std::vector<std::string> names = {""};
  for (const plan::KernelEntry* entry : plan::supporting(p, device, options)) names.push_back(entry->name);
  return names;
}

}  // namespace tconv
