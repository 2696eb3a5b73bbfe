// The library's own threads: one pool for the process, made at the first parallel run. worker_pool.hpp has
// how it works. A child of fork() has no pool and makes its own.
#pragma once

#include "core/device_info.hpp"
#include "core/executor.hpp"

namespace tconv::cpu {

// Runs on up to `threads` threads, the caller among them; 1 is serial.
core::Executor pool_executor(int threads);

// This machine: cores that the process may use (usable_cores.hpp) and the SIMD target in use.
const core::DeviceInfo& host_device();

}  // namespace tconv::cpu
