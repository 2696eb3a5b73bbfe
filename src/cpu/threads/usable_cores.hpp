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

// Where the process may run: its first thread's mask and the calling thread's, since a program may pin only
// one of them.
CpuMask process_affinity();

// Moves the calling thread to these CPUs.
void set_affinity(const CpuMask& mask);

// The CPU that the calling thread is on; -1: unknown.
int current_cpu();

// Keeps a thread off a CPU while this object lives; afterwards the thread may run where it could before. Does
// nothing if there is no other CPU, or if the machine has more CPUs than a cpu_set_t holds. Does not
// allocate.
class KeptOff {
 public:
  KeptOff(int thread, int cpu);
  ~KeptOff();
  KeptOff(const KeptOff&) = delete;
  KeptOff& operator=(const KeptOff&) = delete;

 private:
  const int thread_;
  bool on_ = false;
  cpu_set_t before_;
};

// CPUs' worth of time granted by the tightest group above the process, v1 or v2; 0: no limit. root is put in
// front of every path that is read: "" except in tests.
double cgroup_quota(const std::string& root = "");

// The smaller of the two, rounded up to whole CPUs; at least 1.
int usable_cores();

}  // namespace tconv::cpu
