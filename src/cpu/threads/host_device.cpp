#include <sched.h>

#include <thread>

#include "cpu/threads/pool.hpp"
#include "hwy/highway.h"

namespace tconv::cpu {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

int bytes_of(int64_t target) {
#if HWY_ARCH_X86
  if (target <= HWY_AVX3) return 64;  // a lower bit is a better target
  if (target == HWY_AVX2) return 32;
#endif
  (void)target;
  return 16;
}

core::DeviceInfo detect() {
  core::DeviceInfo device;
  device.name = "cpu";
  device.threads = usable_cores();
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  const int64_t best = supported & -supported;
  device.simd = hwy::TargetName(best);
  device.vector_bytes = bytes_of(best);
  return device;
}

}  // namespace

const core::DeviceInfo& host_device() {
  static const core::DeviceInfo device = detect();
  return device;
}

}  // namespace tconv::cpu
