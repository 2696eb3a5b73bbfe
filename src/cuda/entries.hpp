// What the CUDA slice offers to the rest: its kernels in order and the devices that are here. A build without
// nvcc links no_cuda.cpp, which offers neither.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

std::span<const plan::KernelEntry* const> entries();

// The CUDA device of that ordinal, or why there is none (no CUDA in the build, no driver, no such device).
core::Result<core::DeviceInfo> device_info(int index);
std::vector<core::DeviceInfo> devices();

// Queues a copy within the device's memory on the stream.
core::Status copy(const core::DeviceInfo& device, void* to, const void* from, std::size_t bytes,
                  void* stream);

// Queues a copy of x (else of y, which is grad_output) of the problem, with any steps, to contiguous memory.
core::Status copy_rows(const core::Problem& problem, const core::DeviceInfo& device, bool of_x,
                       const plan::Operands& operands, void* to, const plan::RunContext& context);

// "CUDA 13.0, sm_90a" or "without CUDA".
const char* build_text();

}  // namespace tconv::cuda
