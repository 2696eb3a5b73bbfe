// How many cores the process may use: its affinity, and the CPU time that its control groups grant.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace tconv::cpu {

// A set of CPUs of any size (cpu_set_t holds 1024).
struct CpuMask {
  std::vector<unsigned long> words;  // empty: unknown
  int count() const;
};

// Where the process may run: its first thread's mask and the calling thread's, since programs pin either of
// them alone.
CpuMask process_affinity();

// Moves the calling thread there.
void set_affinity(const CpuMask& mask);

// CPUs' worth of time granted by the tightest group above the process, v1 or v2; 0: no limit. root stands
// before every path that is read: "" but in tests.
double cgroup_quota(const std::string& root = "");

// The smaller of both, a part of a CPU counted as one; at least 1.
int usable_cores();

}  // namespace tconv::cpu
