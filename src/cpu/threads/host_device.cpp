#include <sched.h>

#include <thread>

#include "cpu/simd/dispatch.hpp"
#include "cpu/threads/pool.hpp"

namespace tconv::cpu {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

core::DeviceInfo detect() {
  core::DeviceInfo device;
  device.name = "cpu";
  device.threads = usable_cores();
  device.simd = simd::target_name();
  device.vector_bytes = simd::vector_bytes();
  device.usable = simd::target_status();
  return device;
}

}  // namespace

const core::DeviceInfo& host_device() {
  static const core::DeviceInfo device = detect();
  return device;
}

}  // namespace tconv::cpu
