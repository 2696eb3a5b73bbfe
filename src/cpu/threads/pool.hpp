// The only threading on the CPU: one pool of workers for the process, made at the first parallel run and
// grown to the largest number of threads asked for.
//
// One job at a time. A caller that finds the pool busy (another thread runs a plan) does its tasks itself:
// slower, never blocked, and with the same bits. A worker that wakes late misses the job rather than delaying
// it. After fork() the child starts with no pool and makes its own.
#pragma once

#include "core/device_info.hpp"
#include "core/executor.hpp"

namespace tconv::cpu {

// Runs on `threads` threads (the caller among them); 1 is serial.
core::Executor pool_executor(int threads);

// This machine: cores that the process may use and the SIMD target in use.
const core::DeviceInfo& host_device();

}  // namespace tconv::cpu
